"""`/metrics` of running services: the required metrics of all processes, without personal data."""

import urllib.error
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.make import an_account, encoded
from tests.support.running import RunningService, processed, wait_for

Found = dict[tuple[str, frozenset[tuple[str, str]]], float]


def read(url: str, headers: dict[str, str] | None = None) -> str:
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers or {}), timeout=30) as answer:
        return str(answer.read().decode())


def metrics_of(service: RunningService) -> str:
    return read(f"{service.base_url}/metrics", service.operator())


def found_in(text: str) -> Found:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(found: Found, name: str, **labels: str) -> float:
    return found[f"importledger_{name}", frozenset(labels.items())]


@pytest.mark.promise("metrics-shows-requests-creates")
def test_the_numbers_of_imports_requests_and_processes_are_there(service: RunningService) -> None:
    importer = service.importer()
    before = found_in(metrics_of(service))
    account = an_account(importer.supplier) | {"notes": [{"body": "Kanarienvogel"}]}
    assert importer.client.create(encoded(account)).status == 201
    wrong = an_account(importer.supplier, 2) | {"supply_address": 1}  # of the first, it may be that it exists by now
    assert importer.client.create(encoded(wrong)).status == 400
    wait_for(lambda: processed(importer) == 1, "it is processed")
    state, operator = {"supplier": importer.supplier, "state": "PROCESSED"}, service.operator()
    wait_for(
        lambda: (
            found_in(read(f"{service.base_url}/metrics/", operator)).get(
                ("importledger_imports", frozenset(state.items()))
            )
            == 1
        ),
        "the state is counted",
    )
    text = metrics_of(service)
    found = found_in(text)
    route = {"method": "POST", "route": "/v2/data-import/accounts/"}
    created = ("importledger_requests_total", frozenset((route | {"status": "201"}).items()))
    assert found[created] >= before.get(created, 0) + 1
    assert value(found, "request_seconds_count", **route) >= 2
    assert value(found, "creates_total", mode="create", outcome="staged") >= 1
    assert value(found, "refusals_total", code="account_failed_validation") >= 1
    assert value(found, "imports_ended_total", status="PROCESSED") >= 1
    assert value(found, "append_seconds_count") >= 1
    assert value(found, "database_up") == 1
    assert value(found, "holders", work="worker") == 1
    for follower in ("relay", "projector", "sealer", "ended imports"):
        assert value(found, "lag_events", follower=follower) >= 0
        assert value(found, "lag_seconds", follower=follower) >= 0
    for name in ("oldest_pending_seconds", "log_lock_wait_seconds", "wal_bytes_total", "database_bytes"):
        assert value(found, name) >= 0
    assert value(found, "table_bytes", table="events") > 0
    roles = {dict(labels)["role"] for name, labels in found if name == "importledger_process_memory_bytes"}
    assert roles == {"api-1", "relay", "worker-1"}
    assert value(found, "pool_connections", role="api-1", pool="reads", state="max") == 8
    external = str(account["external_account_number"])
    assert not [canary for canary in ("Kanarienvogel", external, importer.api_key) if canary in text]


@pytest.mark.promise("metrics-shows-requests-creates")
@pytest.mark.asvs("V13.4.5")
def test_metrics_on_the_public_port_need_an_operators_key_for_all_suppliers_even_on_this_machine(
    service: RunningService,
) -> None:
    keys = [service.importer(role=role).api_key for role in ("importer", "operator")]  # for a supplier each
    for headers, status in ({}, 401), *(({"Authorization": f"Token {key}"}, 403) for key in keys):
        with pytest.raises(urllib.error.HTTPError) as refused:
            read(f"{service.base_url}/metrics", headers)
        assert refused.value.code == status
        refused.value.close()
    assert "importledger_imports" in metrics_of(service)
