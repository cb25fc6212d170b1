"""`importledger up` with unusual settings: its output, and a data folder with blanks in its path."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.folders import temporary_folder
from tests.support.make import an_account, encoded
from tests.support.running import RunningService, start_service, wait_for


@pytest.fixture(scope="module")
def blank() -> Iterator[Path]:
    """A data folder with blanks in its path, and worse."""
    with temporary_folder() as folder:
        made = folder / 'data folder, "new" #1 %41 é'
        made.mkdir(mode=0o711)
        yield made


@pytest.fixture(scope="module")
def running(blank: Path) -> Iterator[RunningService]:
    with start_service(blank, environment={"IMPORTLEDGER_LOG_LEVEL": "info"}) as started:
        yield started


@pytest.mark.promise("data-folder-blanks-path")
def test_a_data_folder_with_blanks_in_its_path_works(running: RunningService) -> None:
    importer = running.importer()
    assert importer.supplier in running.cli("supplier", "list").stdout
    running.cli("seal")
    running.cli("verify", "--all")
    running.cli("projections", "verify", "import_supplier")


@pytest.mark.promise("one-line-each-request", "up-away-terminal-prints")
def test_up_prints_json_a_line_for_each_request_and_one_for_each_ended_import(
    running: RunningService, blank: Path
) -> None:
    external = _imported(running)
    wait_for(lambda: _told(blank, "import ended", external_account_number=external) != [], "it is told")
    [ended] = _told(blank, "import ended", external_account_number=external)
    assert (ended["status"], ended["attempt"]) == ("PROCESSED", 1)
    found = {"method": "POST", "route": "/v2/data-import/accounts/", "status": 201, "organisation": "Testers"}
    wait_for(lambda: len(_told(blank, "request", **found)) == 1, "the request is told")


@pytest.mark.promise("role-dies-three-times")
@pytest.mark.asvs("V13.4.5")
def test_strangers_read_which_role_keeps_dying_and_not_its_last_line(running: RunningService, blank: Path) -> None:
    file = blank / "secrets" / "dying_roles.json"
    file.write_text('{"worker-1": "importledger: no."}')
    dying, _ = running.request("GET", "/readyz")
    file.write_text("{}")
    ready, _ = running.request("GET", "/readyz")
    assert (dying.status, ready.status) == (503, 200)
    assert "worker-1" in dying.body["detail"]
    assert "importledger: no." not in dying.body["detail"]


def _imported(running: RunningService) -> str:
    importer = running.importer()
    account = an_account(importer.supplier)
    assert importer.client.create(encoded(account)).status == 201
    return str(account["external_account_number"])


def _told(folder: Path, event: str, **fields: Any) -> list[dict[str, Any]]:
    """The lines of this event with these fields; each line is JSON, or has the address."""
    lines = (folder / "up.log").read_text().splitlines()
    result = [json.loads(line) for line in lines if "http://127.0.0.1" not in line]
    return [line for line in result if line["event"] == event and fields.items() <= line.items()]
