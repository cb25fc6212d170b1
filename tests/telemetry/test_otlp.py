"""Spans: the caller decides, a worker's span links to the requests', and all arrive at the configured address."""

import subprocess
import sys
from pathlib import Path

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from cli.service.settings import SettingError, Settings
from importledger_client import Client
from importledger_client.commands.common import traceparent_of_shell
from telemetry import otlp
from telemetry.otlp import OpenTelemetry
from telemetry.spans import Spans
from tests.support.importbook import access_to, importbook
from tests.support.make import an_account, encoded
from tests.support.running import processed, start_service, wait_for
from tests.support.spans import receiver
from workers.broker import STREAMS_PER_MESSAGE

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED, UNSAMPLED = f"00-{TRACE}-{PARENT}-01", f"00-{TRACE}-{PARENT}-00"


@pytest.mark.promise("trace-leads-importer-through")
def test_no_exporter_is_read_where_nobody_asks_for_it() -> None:
    modules = "sys, cli.service.observing, cli.serving, cli.service.working"
    code = f"import {modules}; sys.exit('opentelemetry.exporter' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert Spans().of_request([(b"traceparent", SAMPLED.encode())]) is None
    with Spans().of_work("x", [SAMPLED]) as traceparent:
        assert traceparent == ""
    Spans().close()


def test_the_caller_decides_whether_a_request_is_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    exporter = InMemorySpanExporter()
    traced = OpenTelemetry(exporter, {"service.name": "test"})
    assert traced.of_request([(b"traceparent", UNSAMPLED.encode())]) is None
    monkeypatch.setattr(otlp, "SHARE_OF_ROOTS", 0.0)
    assert traced.of_request([(b"host", b"h")]) is None
    assert traced.of_request([(b"traceparent", b"\xff nonsense")]) is None
    monkeypatch.setattr(otlp, "SHARE_OF_ROOTS", 1.0)
    root = traced.of_request([])
    child = traced.of_request([(b"traceparent", SAMPLED.encode())])
    assert root is not None
    assert child is not None
    assert child.traceparent.startswith(f"00-{TRACE}-")
    assert child.traceparent != SAMPLED
    root.end("GET", None, None, "r1")
    child.end("POST", "/v2/data-import/accounts/", 503, "r2")
    with traced.of_work("process imports", ["nonsense", SAMPLED, SAMPLED]) as traceparent:
        assert traceparent.startswith("00-")
    with traced.of_work("process imports", []) as nothing:
        assert nothing == ""
    traced.close()
    spans = {span.name: span for span in exporter.get_finished_spans()}
    assert spans.keys() == {"GET", "POST /v2/data-import/accounts/", "process imports"}
    posted = spans["POST /v2/data-import/accounts/"]
    assert posted.attributes is not None
    assert posted.attributes["http.response.status_code"] == 503
    assert posted.attributes["importledger.request_id"] == "r2"
    assert not posted.status.is_ok
    [link] = spans["process imports"].links
    assert f"{link.context.trace_id:032x}-{link.context.span_id:016x}" == f"{TRACE}-{PARENT}"


@pytest.mark.promise("trace-leads-importer-through")
@pytest.mark.parametrize(
    ("environment", "kind"),
    [
        ({}, "none"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h:4318"}, "otlp"),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://h:4318/v1/traces"}, "otlp"),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, "otlp"),
        ({"OTEL_TRACES_EXPORTER": "console"}, "console"),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://h:4318"}, "none"),
        ({"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "otlp"}, "none"),
    ],
)
def test_the_standard_variables_switch_traces_on(environment: dict[str, str], kind: str) -> None:
    assert Settings.from_environment(environment).traces == kind


@pytest.mark.parametrize(
    ("name", "value"), [("OTEL_TRACES_EXPORTER", "zipkin"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]
)
def test_what_cannot_be_done_is_named(name: str, value: str) -> None:
    with pytest.raises(SettingError, match=name):
        Settings.from_environment({name: value})


def test_a_span_has_room_for_all_imports_of_a_message() -> None:
    assert otlp.MAX_LINKS >= STREAMS_PER_MESSAGE


@pytest.mark.parametrize("value", ["", "nonsense", f"{SAMPLED}\n", f" {SAMPLED}", SAMPLED.upper()])
def test_what_is_no_place_in_a_trace_is_not_passed_on(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACEPARENT", value)
    assert traceparent_of_shell() is None
    monkeypatch.setenv("TRACEPARENT", UNSAMPLED)
    assert traceparent_of_shell() == UNSAMPLED


@pytest.mark.promise("trace-leads-importer-through")
def test_a_trace_leads_from_the_importer_through_the_event_to_the_worker(folder: Path) -> None:
    with receiver() as received:
        environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": received.url, "OTEL_BSP_SCHEDULE_DELAY": "100"}
        with start_service(folder, environment=environment) as running:
            importer = running.importer()
            access = access_to(importer)
            account = an_account(importer.supplier)
            url, key = access["IMPORTLEDGER_URL"], access["IMPORTLEDGER_KEY"]
            with Client(url, key, traceparent=SAMPLED) as client:
                client.create(account)
            wait_for(lambda: processed(importer) == 1, "it is processed")
            wait_for(lambda: received.named("process imports") != [], "the worker's span arrives")
            wait_for(lambda: received.named("POST /v2/data-import/accounts/") != [], "the request's span arrives")
            history = running.cli("history", importer.supplier, str(account["external_account_number"])).stdout
            with Client(url, key, traceparent=lambda: UNSAMPLED) as client:
                client.create(an_account(importer.supplier, 2))
            wait_for(lambda: processed(importer) == 2, "it is processed as well")
            (folder / "book.ndjson").write_bytes(encoded(an_account(importer.supplier, 3)) + b"\n")
            pushed = ("push", "book.ndjson", "--mode", "validate")
            assert importbook(*pushed, at=folder, access=access | {"TRACEPARENT": SAMPLED}).returncode == 0
            bulk = "POST /v2/data-import/accounts/bulk/"
            wait_for(lambda: received.named(bulk) != [], "the span of importbook's request arrives")
    [posted] = received.named("POST /v2/data-import/accounts/")
    assert (posted.trace_id.hex(), posted.parent_span_id.hex()) == (TRACE, PARENT)
    assert {span.parent_span_id.hex() for span in received.named(bulk)} == {PARENT}
    [work] = received.named("process imports")
    assert [(link.trace_id, link.span_id) for link in work.links] == [(posted.trace_id, posted.span_id)]
    assert work.trace_id != posted.trace_id
    resource = received.spans[0][0]
    assert (resource["service.name"], resource["service.version"]) == ("importledger", "0.1.0")
    assert TRACE not in history
    everything = repr(received.spans)
    assert importer.api_key not in everything
    assert str(account["external_account_number"]) not in everything
