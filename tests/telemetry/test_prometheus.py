"""Metrics as Prometheus reads them: bounded labels, one process or several, and a port of their own."""

import os
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from cli.service.listening import listening_on
from telemetry.measures import Measures, measure_with, measures
from telemetry.prometheus import MAX_CODES, PrometheusMeasures, begin_measures, encoded_metrics, exposed
from telemetry.serving import serve_metrics


def samples(text: bytes) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    families = text_string_to_metric_families(text.decode())
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def shown(counting: PrometheusMeasures) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return samples(encoded_metrics(counting.registry, "")[0])


@pytest.mark.promise("metrics-shows-requests-creates")
def test_strangers_make_no_series() -> None:
    counting = PrometheusMeasures("api")
    for n in range(1_000):
        counting.answered(f"X{n}", None, 404, 0.0)
        counting.answered("GET", None, None, 0.0)
        counting.refused(f"code_{n}")
    found = shown(counting)
    counted = [labels for name, labels in found if name == "importledger_requests_total"]
    assert {dict(labels)["method"] for labels in counted} == {"other", "GET"}
    assert {dict(labels)["route"] for labels in counted} == {"none"}
    strangers = {"method": "other", "route": "none"}
    assert found["importledger_requests_total", frozenset((strangers | {"status": "404"}).items())] == 1_000
    assert found["importledger_request_seconds_count", frozenset(strangers.items())] == 1_000
    assert len([labels for name, labels in found if name == "importledger_refusals_total"]) == MAX_CODES + 1


def test_a_pool_that_says_more_than_before_is_counted_once() -> None:
    counting = PrometheusMeasures("api")
    stats = {"pool_size": 3, "pool_available": 1, "pool_max": 8, "requests_wait_ms": 1_500, "requests_errors": 1}
    counting.pool("log", stats)
    counting.pool("log", stats)
    value, of = counting.registry.get_sample_value, {"role": "api", "pool": "log"}
    assert value("importledger_pool_connections", of | {"state": "used"}) == 2
    assert value("importledger_pool_wait_seconds_total", of) == 1.5
    assert value("importledger_pool_errors_total", of) == 1


@pytest.mark.promise("metrics-shows-requests-creates")
def test_every_measure_is_shown() -> None:
    counting = PrometheusMeasures("worker-1")
    counting.accepted("create", "staged")
    counting.appended(7, 0.01)
    counting.message_sent("imports", 3)
    counting.waiting("imports", 2)
    counting.processed(3, 0.5)
    counting.ended("PROCESSED", 2)
    counting.queued(4)
    names = {name.removeprefix("importledger_") for name, _ in shown(counting)}
    assert {
        *("creates_total", "append_batch_events_count", "append_seconds_sum", "message_streams_count"),
        *("waiting_messages", "process_batch_imports_count", "imports_ended_total", "append_queue"),
        "process_memory_bytes",
    } <= names


def test_a_process_without_metrics_measures_until_they_are_set() -> None:
    silent = Measures()
    silent.answered("GET", None, 200, 0.1)
    silent.refused("x")
    silent.accepted("create", "staged")
    before, counting = measures(), PrometheusMeasures("api")
    measure_with(counting)
    try:
        measures().refused("throttled")
        assert shown(counting)["importledger_refusals_total", frozenset({("code", "throttled")})] == 1
    finally:
        measure_with(before)


_ROLE = """
import sys
from telemetry.prometheus import begin_measures
counting = begin_measures(sys.argv[1], is_shared=True)
for _ in range(int(sys.argv[2])):
    counting.refused("throttled")
counting.queued(int(sys.argv[2]))
"""


@pytest.mark.promise("metrics-shows-requests-creates")
def test_processes_that_share_a_folder_are_shown_together_and_go_on_counting_when_started_again(folder: Path) -> None:
    for role, times in (("api-1", 2), ("api-2", 3), ("api-1", 4)):
        environment = os.environ | {"PROMETHEUS_MULTIPROC_DIR": str(folder)}
        subprocess.run([sys.executable, "-c", _ROLE, role, str(times)], env=environment, check=True)
    (folder / "counter_worker-1.db").touch()  # as a process leaves it for a moment at its start
    found = samples(encoded_metrics(exposed(PrometheusMeasures("reader"), folder), "")[0])
    assert found["importledger_refusals_total", frozenset({("code", "throttled")})] == 9
    assert found["importledger_append_queue", frozenset({("role", "api-1")})] == 4
    assert len({file.name.rsplit("_", 1)[1] for file in folder.glob("*.db") if file.stat().st_size}) == 2


@pytest.mark.promise("metrics-port-their-own")
def test_a_port_of_its_own_answers_metrics_and_nothing_else() -> None:
    counting = begin_measures("relay", is_shared=False)
    registry = exposed(counting, None)
    [listening] = listening_on("127.0.0.1", 0)
    port = listening.getsockname()[1]
    serve_metrics([listening], lambda accept: encoded_metrics(registry, accept))
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        assert b"importledger_append_queue" in answer.read()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.read().endswith(b"# EOF\n")
    for path in ("", "/livez", "/metrics/else"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60)
        assert refused.value.code == 404
        refused.value.close()
