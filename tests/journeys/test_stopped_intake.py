"""A log that is older than its checkpoints stops the intake until an operator decides."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from embedded.postgres import PostgresUrls
from eventstore.clock import now
from eventstore.proof.checkpoints import CheckpointCopies, LogKey
from tests.support.folders import temporary_folder
from tests.support.importing import ImportClient
from tests.support.make import an_account, encoded
from tests.support.post_account import RECORDS
from tests.support.running import (
    Importer,
    RunningService,
    cli,
    environment_on,
    free_port,
    start_role,
    start_service,
    wait_for,
)


@pytest.fixture(scope="module")
def service() -> Iterator[RunningService]:
    """A service that seals each second."""
    with temporary_folder() as folder, start_service(folder, environment={"IMPORTLEDGER_SEAL_EVERY_S": "1"}) as running:
        yield running


def sign_longer(service: RunningService) -> None:
    """Put a checkpoint of a longer log outside, as the service had signed it before an older backup was restored."""
    folder = Path(service.environment["IMPORTLEDGER_DATA_DIR"])
    key = LogKey.of((folder / "secrets" / "sealing_key").read_text())
    CheckpointCopies((folder / "checkpoints").as_uri()).keep(100_000, key.sign(100_000, bytes(32), now()))


def code_of(service: RunningService, path: str = "/readyz/") -> tuple[int, str]:
    answer, _ = service.request("GET", path)
    return answer.status, answer.body.get("code", "")


def sealing(service: RunningService) -> dict[str, Any]:
    lines = [json.loads(line) for line in service.cli("doctor", "--json", check=False).stdout.splitlines()]
    return next(line for line in lines if line["check"] == "sealing")


def post(importer: Importer, path: str, body: bytes, media: str = "application/json") -> Any:
    answer, answer_headers = importer.request("POST", path, body, {"Content-Type": media})
    return answer.status, answer.body.get("code") if isinstance(answer.body, dict) else answer.body, answer_headers


@pytest.mark.promise("log-shorter-checkpoints-another")
def test_an_older_log_beside_newer_checkpoints_takes_nothing_in_until_it_is_continued(service: RunningService) -> None:
    importer = service.importer()
    first, second = (encoded(an_account(importer.supplier, number)) for number in (1, 2))
    external = an_account(importer.supplier, 1)["external_account_number"]
    assert importer.client.create(first).status == 201
    wait_for(lambda: importer.client.status(importer.supplier, external).body["status"] == "PROCESSED", "processed")
    notes = "/v1/data-import/delivery-note"
    named = {"import_supplier": importer.supplier, "external_account_number": external}
    note = encoded(named | {"delivery_note": RECORDS["delivery_note"]})
    assert post(importer, f"{notes}/create/", note)[0] == 201
    sign_longer(service)
    wait_for(lambda: code_of(service) == (503, "intake_stopped"), "the relay has compared")

    accounts = "/v2/data-import/accounts"
    for path, body, media in (
        (f"{accounts}/", second, "application/json"),
        (f"{accounts}/", first, "application/json"),
        (f"{accounts}/bulk/", second, "application/x-ndjson"),
        (f"{accounts}/bulk/", first, "application/x-ndjson"),
        (f"{notes}/create/", note, "application/json"),
        (f"{notes}/bulk/", note, "application/x-ndjson"),
    ):
        status, code, answer_headers = post(importer, path, body, media)
        assert (status, code, answer_headers["retry-after"]) == (503, "intake_stopped", "30")
    assert service.cli("supplier", "create", "LATER", check=False).stderr.startswith("importledger: Intake is stopped")
    assert post(importer, f"{accounts}/validate/", second)[0] == 200
    assert importer.client.status(importer.supplier, external).status == 200
    check = sealing(service)
    assert (check["state"], "100000" in check["says"]) == ("wrong", True)

    for process in service.processes("api"):
        process.kill()
    wait_for(lambda: code_of(service, "/livez/") == (200, ""), "the api is back")
    assert post(importer, f"{accounts}/", second)[:2] == (503, "intake_stopped")

    head = json.loads(service.cli("history", importer.supplier, external, "--json").stdout.splitlines()[-1])["position"]
    service.cli("seal", "--continue-from", str(head), "--reason", "an older backup was restored")
    assert post(importer, f"{accounts}/", second)[0] == 201
    wait_for(lambda: code_of(service) == (200, ""), "the relay has sealed it")
    other = an_account(importer.supplier, 2)["external_account_number"]
    wait_for(lambda: importer.client.status(importer.supplier, other).body["status"] == "PROCESSED", "processed")
    assert sealing(service)["state"] == "good"


def test_a_service_starts_while_its_intake_is_stopped_and_continues_when_that_is_accepted(folder: Path) -> None:
    (folder / "data").mkdir()
    environment = {"IMPORTLEDGER_SEAL_EVERY_S": "1"}
    with start_service(folder / "data", environment=environment) as service:
        importer = service.importer()
        sign_longer(service)
        wait_for(lambda: code_of(service) == (503, "intake_stopped"), "the relay has compared")
    with start_service(folder / "data", environment=environment, is_ready=is_alive) as service:
        client = ImportClient(service.base_url, importer.api_key, tries=1)
        account = encoded(an_account(importer.supplier, 1))
        assert client.create(account).codes == ("intake_stopped",)
        refused = service.cli("seal", check=False)
        assert (refused.returncode, "TRUNCATED" in refused.stderr) == (1, True)
        assert "Intake continues" in service.cli("seal", "--accept", "--reason", "a copy for the tests").stdout
        assert client.create(account).status == 201
        client.close()
        again = service.cli("seal", "--accept", "--reason", "twice", check=False)
        assert (again.returncode, "nothing to accept" in again.stderr) == (1, True)


def is_alive(base_url: str) -> bool:
    try:
        return code_of(RunningService(base_url, {}, None), "/livez/") == (200, "")
    except OSError:
        return False


@pytest.mark.promise("start-database-failover-copy")
def test_intake_waits_for_the_first_comparison_and_then_for_no_relay(
    database: PostgresUrls, redis_url: str, folder: Path
) -> None:
    port = free_port()
    environment = environment_on(database, folder, REDIS_URL=redis_url)
    cli("supplier", "create", "NORDWIND", environment=environment)
    made = cli("key", "create", "Nordwind", "--supplier", "NORDWIND", "--json", environment=environment)
    with psycopg.connect(database.admin, autocommit=True) as connection:
        connection.execute("DELETE FROM log_comparisons")
    with start_role("api", "--port", str(port), environment=environment, log=folder / "api.log"):
        api = RunningService(f"http://127.0.0.1:{port}", environment, None)
        client = ImportClient(api.base_url, json.loads(made.stdout)["api_key"], tries=1)
        wait_for(lambda: is_alive(api.base_url), "it is alive")
        wait_for(lambda: code_of(api) == (503, "log_not_compared"), "it says why it is not ready")
        assert client.create(encoded(an_account("NORDWIND", 1))).codes == ("service_unavailable",)
        refused = cli("supplier", "create", "LATER", environment=environment, check=False)
        assert "The log must be compared with its checkpoints first" in refused.stderr
        assert sealing(api)["state"] == "wrong"
        with start_role("relay", environment=environment, log=folder / "relay.log"):
            wait_for(lambda: code_of(api) == (200, ""), "the relay has compared")
        assert client.create(encoded(an_account("NORDWIND", 1))).status == 201
        client.close()


def test_a_log_that_cannot_be_compared_is_accepted_with_a_reason(folder: Path, database: PostgresUrls) -> None:
    environment = {
        "DATABASE_URL": database.service,
        "IMPORTLEDGER_CHECKPOINTS_URL": "file:///dev/null/checkpoints",
        "IMPORTLEDGER_DATA_DIR": str(folder),
    }
    with psycopg.connect(database.admin, autocommit=True) as connection:
        connection.execute("DELETE FROM log_comparisons")
        assert "could not be kept outside" in cli("seal", environment=environment, check=False).stderr
        cli("supplier", "create", "NORDWIND", environment=environment, check=False)
        accepted = cli("seal", "--accept", "--reason", "the bucket is away", environment=environment)
        assert "The log was not compared" in accepted.stdout
        cli("supplier", "create", "NORDWIND", environment=environment)
        assert connection.execute("SELECT accepted_for FROM log_comparisons").fetchall() == [("the bucket is away",)]
