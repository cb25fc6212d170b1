"""An older log beside checkpoints that know a longer one: nothing is taken in until an operator has decided."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventstore.clock import now
from eventstore.proof.checkpoints import LogKey, Outside
from tests.support.folders import temporary_folder
from tests.support.importing import ImportClient
from tests.support.make import an_account, encoded
from tests.support.running import Importer, RunningService, start_service, wait_for


@pytest.fixture(scope="module")
def service() -> Iterator[RunningService]:
    """A service that seals each second."""
    with temporary_folder() as folder, start_service(folder, environment={"IMPORTLEDGER_SEAL_EVERY_S": "1"}) as running:
        yield running


def sign_longer(service: RunningService) -> None:
    """Put a checkpoint of a longer log outside, as the service had signed it before an older backup was restored."""
    folder = Path(service.environment["IMPORTLEDGER_DATA_DIR"])
    key = LogKey.of((folder / "secrets" / "sealing_key").read_text())
    Outside((folder / "checkpoints").as_uri()).keep(100_000, key.sign(100_000, bytes(32), now()))


def code_of(service: RunningService, path: str = "/readyz/") -> tuple[int, str]:
    answer, _ = service.request("GET", path)
    return answer.status, answer.body.get("code", "")


def sealing(service: RunningService) -> dict[str, Any]:
    lines = [json.loads(line) for line in service.cli("doctor", "--json", check=False).stdout.splitlines()]
    return next(line for line in lines if line["check"] == "sealing")


def post(service: RunningService, importer: Importer, path: str, body: bytes, media: str = "application/json") -> Any:
    headers = {"Authorization": f"Token {importer.api_key}", "Content-Type": media}
    answer, said = service.request("POST", path, body, headers)
    return answer.status, answer.body.get("code") if isinstance(answer.body, dict) else answer.body, said


def test_an_older_log_beside_newer_checkpoints_takes_nothing_in_until_it_is_continued(service: RunningService) -> None:
    importer = service.importer()
    first, second = (encoded(an_account(importer.supplier, number)) for number in (1, 2))
    external = an_account(importer.supplier, 1)["external_account_number"]
    assert importer.client.create(first).status == 201
    wait_for(lambda: importer.client.status(importer.supplier, external).body["status"] == "PROCESSED", "processed")
    sign_longer(service)
    wait_for(lambda: code_of(service) == (503, "intake_stopped"), "the relay has compared")

    accounts = "/v2/data-import/accounts"
    for path, body, media in (
        (f"{accounts}/", second, "application/json"),
        (f"{accounts}/bulk/", second, "application/x-ndjson"),
    ):
        status, code, said = post(service, importer, path, body, media)
        assert (status, code, said["retry-after"]) == (503, "intake_stopped", "30")
    assert service.cli("supplier", "create", "LATER", check=False).stderr.startswith("importledger: Intake is stopped")
    assert post(service, importer, f"{accounts}/validate/", second)[0] == 200
    assert importer.client.status(importer.supplier, external).status == 200
    told = sealing(service)
    assert (told["state"], "100000" in told["says"]) == ("wrong", True)

    for process in service.processes("api"):
        process.kill()
    wait_for(lambda: code_of(service, "/livez/") == (200, ""), "the api is back")
    assert post(service, importer, f"{accounts}/", second)[:2] == (503, "intake_stopped")

    head = json.loads(service.cli("history", importer.supplier, external, "--json").stdout.splitlines()[-1])["position"]
    service.cli("seal", "--continue-from", str(head), "--reason", "an older backup was restored")
    assert code_of(service) == (200, "")
    assert post(service, importer, f"{accounts}/", second)[0] == 201
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
