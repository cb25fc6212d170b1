"""A backup that is taken under load is restored elsewhere with everything that was acknowledged before it."""

import threading
from pathlib import Path

import psycopg

from tests.support.make import an_account, changed, encoded
from tests.support.post_account import PATHS, RECORDS
from tests.support.running import Importer, cli, processed, start_service, wait_for
from tests.support.whole import admin_url, assert_whole

BEFORE = 60


def taken_under_load(folder: Path) -> tuple[Importer, list[str]]:
    """Take the backup; the importer and what was acknowledged to it before."""
    (folder / "first").mkdir()
    with start_service(folder / "first") as service:
        importer = service.importer()
        acknowledged = send(importer, range(1, BEFORE))
        wait_for(lambda: processed(importer) > 5, "some accounts exist")
        attach_records(importer)
        for process in service.processes("worker"):
            process.suspend()  # leaves work in progress and pending behind
        acknowledged += send(importer, range(BEFORE, BEFORE + 20))
        stop = threading.Event()
        load = threading.Thread(target=send, args=(importer, range(1000, 3000), stop))
        load.start()
        try:
            made = service.cli("backup", str(folder / "backup"))
        finally:
            stop.set()
            load.join()
            for process in service.processes("worker"):
                process.resume()
        assert "holds the log up to position" in made.stdout
        again = service.cli("backup", str(folder / "backup"), check=False)
        assert (again.returncode, "is not empty" in again.stderr) == (1, True)
    return importer, acknowledged


def send(importer: Importer, numbers: range, stop: threading.Event | None = None) -> list[str]:
    acknowledged = []
    for number in numbers:
        if stop is not None and stop.is_set():
            break
        account = an_account(importer.supplier, number)
        assert importer.client.create(encoded(account)).status == 201
        acknowledged.append(account["external_account_number"])
    return acknowledged


def attach_records(importer: Importer) -> None:
    """A record of each kind, one of them cancelled afterwards."""
    external = an_account(importer.supplier, 1)["external_account_number"]
    for kind, record in RECORDS.items():
        body = {"import_supplier": importer.supplier, "external_account_number": external, kind: record}
        versions = [body] if kind == "market_participant_invoice" else [body, changed(body, True, kind, "cancelled")]
        for version in versions:
            assert importer.request("POST", PATHS[kind], version)[0].status == 201


def test_what_was_acknowledged_before_the_backup_is_there_and_goes_on(folder: Path) -> None:
    importer, acknowledged = taken_under_load(folder)
    backup = folder / "backup"
    environment = {"IMPORTLEDGER_DATA_DIR": str(folder / "second")}
    (folder / "second").mkdir()
    page = str(backup / "checkpoint.note")
    restored = cli("restore", str(backup), "--against", page, "--confirm-access", environment=environment)
    assert "Verified" in restored.stdout
    assert restored.stderr == ""
    refused = cli("restore", str(backup), environment=environment, check=False)
    assert (refused.returncode, "has events already" in refused.stderr) == (1, True)
    with start_service(folder / "second") as service:
        moved = service.with_key(importer.supplier, importer.api_key)
        assert_whole(service, moved, acknowledged)
        answer = moved.client.create(encoded(an_account(importer.supplier, 1)))
        assert answer.codes == ("account_import_process_already_imported",)
        with psycopg.connect(admin_url(service)) as connection:
            rows = connection.execute("SELECT cancelled FROM platform.delivery_note").fetchall()
        assert rows == [(True,)]
        moved.client.close()
