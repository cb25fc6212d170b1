"""Trace contexts of workers: those of the requests that staged their imports, if traces are on."""

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from eventstore.events import Metadata, origin
from eventstore.log.ledger import Ledger
from telemetry.otlp import OpenTelemetry
from telemetry.spans import spans, trace_with
from tests.support.make import an_account, changed
from tests.support.staging import SUPPLIER, stage
from workers.actors.process_imports import ImportProcessor
from workers.traces import traceparents

FIRST = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SECOND = "00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def traced(ledger: Ledger, traceparent: str, account: object) -> str:
    token = origin.set(Metadata("request", traceparent))
    try:
        return stage(ledger, account)
    finally:
        origin.reset(token)


@pytest.mark.promise("trace-leads-importer-through")
def test_the_last_staging_counts_and_the_worker_s_events_name_its_span(ledger: Ledger) -> None:
    account = an_account(SUPPLIER)
    stream = traced(ledger, FIRST, account)
    traced(ledger, SECOND, changed(account, "Another note.", "notes", 0, "body"))
    untraced = stage(ledger, an_account(SUPPLIER, 2))
    assert traceparents(ledger, [stream]) == []
    before, exporter = spans(), InMemorySpanExporter()
    keeper = OpenTelemetry(exporter, {})
    trace_with(keeper)
    try:
        assert traceparents(ledger, [stream, untraced]) == [SECOND]
        ImportProcessor(ledger, worker=lambda: 1).process([stream])
        ImportProcessor(ledger, worker=lambda: 1).process([untraced])
    finally:
        keeper.close()
        trace_with(before)
    [span] = exporter.get_finished_spans()
    assert span.context is not None
    own = {event.metadata.traceparent for event in ledger.history(stream)[2:]}
    assert {traceparent[:-3] for traceparent in own} == {f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}"}
    assert {event.metadata for event in ledger.history(untraced)} == {Metadata()}
