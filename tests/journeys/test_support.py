"""A wrong view is found and rebuilt while accounts arrive, without any effect on readers and writers."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.support.folders import temporary_folder
from tests.support.make import an_account, encoded
from tests.support.running import Importer, RunningService, processed, start_service, wait_for
from tests.support.whole import admin_url, assert_whole

VERIFIED = ("projections", "verify", "--all")
BEFORE = 50
"""Accounts before the test begins."""


@contextmanager
def load(importer: Importer) -> Iterator[list[str]]:
    """Create and read accounts in a thread. Yields the acknowledged account numbers; any failure fails the test."""
    acknowledged: list[str] = []
    failures: list[object] = []
    stop = threading.Event()

    def create() -> None:
        for number in range(1, 100_000):
            if stop.is_set():
                return
            account = an_account(importer.supplier, number)
            answer = importer.client.create(encoded(account))
            acknowledged.append(account["external_account_number"])
            read = importer.client.status(importer.supplier, acknowledged[-1])
            if (answer.status, read.status) != (201, 200):
                failures.append((answer, read))
            if number > BEFORE:
                stop.wait(0.1)  # verifying and rebuilding take as long as there are accounts

    loading = threading.Thread(target=create)
    loading.start()
    try:
        yield acknowledged
    finally:
        stop.set()
        loading.join()
    assert failures == []


@pytest.fixture(scope="module")
def service() -> Iterator[RunningService]:
    """A service of this module alone, whose log and views are altered."""
    with temporary_folder() as folder, start_service(folder) as running:
        yield running


def test_a_wrong_view_is_found_and_mended_under_load(service: RunningService) -> None:
    importer = service.importer()
    with load(importer) as acknowledged:
        wait_for(lambda: processed(importer) > BEFORE, "some accounts exist")
        wait_for(lambda: is_right(service), "everything is what the log says")
        spoil(service)
        wrong = service.cli(*VERIFIED, check=False)
        assert wrong.returncode == 1
        assert "import_status: 3 rows changed" in wrong.stdout
        assert "account_number table: A-WRONG log: A-" in wrong.stdout
        assert "was applied, and the row was changed since" in wrong.stdout
        assert "import_supplier: 1 row changed" in wrong.stdout
        assert "requires another row" in wrong.stdout
        rebuilt = service.program("projections", "rebuild", "--all", "--jobs", "2").stdout
        assert "import_status: 3 rows changed, 0 added, 0 removed; switched at position" in rebuilt
        assert service.cli(*VERIFIED).returncode == 0
        beside = service.cli("projections", "rebuild", "import_status", "--no-switch").stdout
        assert "0 rows changed, 0 added, 0 removed" in beside
    assert_whole(service, importer, acknowledged)
    assert importer.client.status(importer.supplier, acknowledged[0]).body["status"] == "PROCESSED"
    assert service.cli(*VERIFIED).returncode == 0


def is_right(service: RunningService) -> bool:
    return service.cli(*VERIFIED, check=False).returncode == 0


def spoil(service: RunningService) -> None:
    with psycopg.connect(admin_url(service)) as connection:
        connection.execute(
            "UPDATE import_status SET account_number = 'A-WRONG' WHERE external_account_number IN"
            " (SELECT external_account_number FROM import_status WHERE status = 'PROCESSED' LIMIT 3)"
        )
        connection.execute("UPDATE import_supplier SET reason = 'wrong'")
        connection.execute(
            "DELETE FROM platform.customer WHERE account_number IN (SELECT min(account_number) FROM platform.customer)"
        )


@pytest.mark.promise("parked-stream-nobody-can")
def test_a_poison_event_stops_its_own_account_only(service: RunningService, folder: Path) -> None:
    """An unreadable event: relay, workers, projector and rebuilds continue with other accounts."""
    importer = service.importer()
    account = an_account(importer.supplier, 1)
    for process in (*service.processes("worker"), *service.processes("relay")):
        process.suspend()
    assert importer.client.create(encoded(account)).status == 201
    assert importer.client.create(encoded(an_account(importer.supplier, 2))).status == 201
    with psycopg.connect(admin_url(service)) as connection:
        connection.execute("ALTER TABLE events DISABLE TRIGGER USER")
        connection.execute(
            "UPDATE events SET state = '{\"payload' WHERE stream = %s",
            (f"import/{importer.supplier}/{account['external_account_number']}",),
        )
        connection.execute("ALTER TABLE events ENABLE TRIGGER USER")
    for process in (*service.processes("worker"), *service.processes("relay")):
        process.resume()
    assert importer.client.create(encoded(an_account(importer.supplier, 3))).status == 201
    wait_for(lambda: processed(importer) == 2, "the others are processed")
    wait_for(lambda: "account_search" in parked(service), "the stream is parked")
    assert_shown_to_auditors(service, importer, account["external_account_number"], folder / "export.zst")
    service.cli("projections", "rebuild", "--all")
    assert {"import_status", "account_search", "import_progress"} <= parked(service)
    healed = service.cli("projections", "heal", importer.supplier, account["external_account_number"], check=False)
    assert (healed.returncode, "still parked" in healed.stdout) == (1, True)
    assert_accepted(service, f"import/{importer.supplier}/{account['external_account_number']}")


def assert_accepted(service: RunningService, stream: str) -> None:
    """An operator accepts the parked stream, and `doctor` no longer reports it, also after a rebuild."""
    assert f"importledger projections accept {stream}" in todo(service)
    accepted = json.loads(service.cli("projections", "accept", stream, "--json").stdout)
    assert {"import_status", "account_search"} <= set(accepted["projections"])
    assert todo(service) == ""
    service.cli("projections", "rebuild", "--all")
    assert {"import_status", "account_search"} <= parked(service)
    assert todo(service) == ""
    refused = service.cli("projections", "accept", f"{stream}0", check=False)
    assert (refused.returncode, "there is nothing to accept" in refused.stderr) == (1, True)


def todo(service: RunningService) -> str:
    """The commands that `doctor` recommends for parked streams."""
    lines = [json.loads(line) for line in service.cli("doctor", "--json", check=False).stdout.splitlines()]
    return " ".join(line["todo"] for line in lines if "parked stream" in line["says"])


def assert_shown_to_auditors(service: RunningService, importer: Importer, external: str, file: Path) -> None:
    """The history shows the unreadable event as it is stored, and other commands report it."""
    shown = json.loads(service.cli("history", importer.supplier, external, "--json").stdout)
    assert (shown["event"], shown["topic"], shown["data"]["state"]) == ("Unreadable", "import_staged.v1", '{"payload')
    refused = service.cli("status", importer.supplier, external, check=False)
    assert (refused.returncode, "cannot be read" in refused.stderr) == (1, True)
    path = f"/v2/data-import/accounts/{importer.supplier}/{external}/?as_of={shown['position']}"
    answer, _ = importer.request("GET", path)
    assert (answer.status, answer.body["code"]) == (500, "stream_unreadable")
    service.cli("export", "--supplier", importer.supplier, "-o", str(file))
    replayed = service.cli("replay", str(file), check=False)
    assert replayed.stdout.count("cannot be read") == 1
    assert "1 would end differently" in replayed.stdout


def parked(service: RunningService) -> set[str]:
    rows = [json.loads(line) for line in service.cli("projections", "--json").stdout.splitlines()]
    return {row["name"] for row in rows if row["state"] == "live" and row["parked"] == 1}
