"""What all workers come to together is what one process comes to, byte for byte, whatever is killed on the way."""

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from psycopg import Connection

from cli.export import export_history, replay
from cli.prove import verify
from cli.support import projections
from embedded.postgres import PostgresUrls
from eventstore.aggregates.import_process import stream_of
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from projections import PROJECTIONS
from projections.erasure import erase
from projections.spreading import asking
from projections.versioning.compare import verify as verify_projection
from projections.versioning.versions import live_version, versions
from tests.support.make import an_account
from tests.support.parts import alive, working
from tests.support.sealed_log import Log
from tests.support.staging import SUPPLIER
from workers import spread_builds, spread_verbs
from workers.spread_builds import can_be_spread

[STATUS] = [projection for projection in PROJECTIONS if projection.name == "import_status"]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that small logs have several parts; nobody processes what waits in them."""
    monkeypatch.setattr("workers.parts.imports_wait", lambda connection: False)
    monkeypatch.setattr("eventstore.proof.verification.CHUNK", 256)
    monkeypatch.setattr(spread_verbs, "RANGES_A_PART", 1)
    monkeypatch.setattr(asking, "EVENTS_A_SLICE", 10)
    monkeypatch.setattr(asking, "LOOK_EVERY_S", 0.02)


def found_at(database: PostgresUrls, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let verbs find this database, and their keys."""
    for name, value in {
        "DATABASE_URL": database.service,
        "DATABASE_ADMIN_URL": database.admin,
        "IMPORTLEDGER_SEALING_KEY": "A" * 43,
        "IMPORTLEDGER_CHECKPOINTS_URL": (folder / "outside").as_uri(),
        "IMPORTLEDGER_DATA_DIR": str(folder),
    }.items():
        monkeypatch.setenv(name, value)


def run(verb: click.Command, *words: str) -> Result:
    return CliRunner().invoke(verb, words)


def said(result: Result) -> dict[str, Any]:
    """What a verb has told as JSON, without what differs from call to call."""
    objects = [line for line in result.stdout.splitlines() if line.startswith("{")]  # among what workers log
    assert objects, (result.output, result.exception)
    told: dict[str, Any] = json.loads(objects[-1])
    told.pop("seconds", None)
    return told


def intact(log: Log) -> None:
    """Nobody has changed anything."""


def edited(log: Log) -> None:
    log.admin.execute("UPDATE events SET caused_by = 'somebody' WHERE position IN (100, 300)")


def deleted(log: Log) -> None:
    log.admin.execute("DELETE FROM events WHERE position = 290")


def cut(log: Log) -> None:
    log.cut(500)


def without_payload(log: Log) -> None:
    log.admin.execute("UPDATE payloads SET content = content || 'x' WHERE stream LIKE '%BENCH-0000042'")
    log.admin.execute("UPDATE payloads SET stream = 'import/NORDWIND/nobody' WHERE stream LIKE '%BENCH-0000142'")


@pytest.mark.parametrize("change", [intact, edited, deleted, cut, without_payload], ids=lambda change: change.__name__)
def test_a_log_that_all_workers_verify_is_what_one_process_says(
    log: Log, monkeypatch: pytest.MonkeyPatch, change: Any
) -> None:
    found_at(log.urls, log.folder, monkeypatch)
    change(log)
    kept = ("--against", str(log.folder / "first.note"))
    alone = run(verify, "--all", "--json", *kept)
    with working(log.urls):
        together = run(verify, "--all", "--spread", "--json", *kept)
    one, other = said(alone), said(together)
    assert sorted(one.pop("problems")) == sorted(other.pop("problems"))
    assert one == other
    assert alone.exit_code == together.exit_code == (change is not intact)
    progress = [json.loads(line) for line in together.stderr.splitlines() if line.startswith("{")]
    assert (progress[-1]["parts"], progress[-1]["parts_done"]) == (progress[-1]["parts_done"], progress[-1]["parts"])
    assert progress[-1]["parts"] > 10


def test_a_verification_that_was_killed_goes_on_where_it_was(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was appended and sealed meanwhile is no concern of the job."""
    found_at(log.urls, log.folder, monkeypatch)
    before = said(run(verify, "--all", "--json"))
    with alive(log.urls, 1, 2), monkeypatch.context() as killing:
        killing.setattr(spread_verbs, "wait_for", interrupted)
        interruption = run(verify, "--all", "--spread")
    assert "type the same again" in interruption.stderr
    log.add(201, 210)
    log.seal()
    with working(log.urls):
        after = said(run(verify, "--all", "--spread", "--json"))
    assert after == before | {"payloads": after["payloads"]}
    assert log.problems() == []


def test_a_verification_with_a_further_checkpoint_begins_anew(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that the job has no root for would not be compared."""
    found_at(log.urls, log.folder, monkeypatch)
    log.admin.execute("DELETE FROM log_checkpoints WHERE size = 300")
    [file] = [file for file in (log.folder / "outside").rglob("*") if file.is_file() and "300" in file.name]
    file.unlink()
    with alive(log.urls, 1, 2), monkeypatch.context() as killing:
        killing.setattr(spread_verbs, "wait_for", interrupted)
        run(verify, "--all", "--spread")
    with working(log.urls):
        against = run(verify, "--all", "--spread", "--json", "--against", str(log.folder / "first.note"))
    assert said(against)["checkpoints"] == 3, against.output  # of 600 events, here and outside; and the further one


def interrupted(*arguments: Any) -> list[str]:
    raise KeyboardInterrupt


def test_a_log_that_all_workers_replay_is_what_its_export_says(
    history: Ledger, database: PostgresUrls, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found_at(database, folder, monkeypatch)
    file = folder / "history.ndjson.zst"
    run(export_history, "--supplier", SUPPLIER, "--payloads", "-o", str(file))
    alone = run(replay, str(file), "--json")
    with working(database):
        together = run(replay, "--spread", "--supplier", SUPPLIER, "--json")
        everything = run(replay, "--spread")
    assert said(together) == said(alone)
    assert said(alone)["payloads"] > 0
    assert together.exit_code == alone.exit_code
    assert "streams replayed" in everything.stdout


SPREAD = [projection for projection in PROJECTIONS if can_be_spread(projection)]


@pytest.mark.parametrize("projection", SPREAD, ids=lambda projection: projection.name)
def test_a_view_that_all_workers_make_is_what_one_process_makes(
    admin: Connection[Any], database: PostgresUrls, folder: Path, monkeypatch: pytest.MonkeyPatch, projection: Any
) -> None:
    found_at(database, folder, monkeypatch)
    with working(database):
        verified = run(projections, "verify", projection.name, "--spread", "--json")
        rebuilt = run(projections, "rebuild", projection.name, "--spread", "--json")
    assert said(verified) == {"name": projection.name, "parked": 0, "first": [], **NOTHING}, verified.output
    assert {name: said(rebuilt)[name] for name in NOTHING} == NOTHING, rebuilt.output
    assert verify_projection(database.admin, admin, projection, limit=1).count == 0
    live = live_version(admin, projection.name)
    assert (live.version, live.definition) == (said(rebuilt)["version"], projection.definition)
    assert rights_on(admin, projection.home, projection.tables[0]) == sorted(projection.rights)
    assert parts_left(admin) == 0


NOTHING = {"changed": 0, "added": 0, "removed": 0}


def rights_on(connection: Connection[Any], schema: str, table: str) -> list[str]:
    rows = connection.execute(
        "SELECT privilege_type FROM information_schema.role_table_grants"
        " WHERE table_schema = %s AND table_name = %s AND grantee = 'importledger' ORDER BY 1",
        (schema, table),
    ).fetchall()
    return [str(row[0]) for row in rows]


def parts_left(connection: Connection[Any]) -> int:
    row = connection.execute("SELECT count(*) FROM long_job_parts").fetchone()
    assert row is not None
    return int(row[0])


def test_a_difference_is_found_by_all_workers(
    admin: Connection[Any], database: PostgresUrls, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found_at(database, folder, monkeypatch)
    admin.execute("UPDATE import_status SET status = 'CANCELLED' WHERE external_account_number LIKE '%2'")
    alone = run(projections, "verify", "import_status", "--json")
    with working(database):
        together = run(projections, "verify", "import_status", "--spread", "--json")
    assert alone.exit_code == together.exit_code == 1
    assert said(together) == said(alone)
    assert said(together)["changed"] > 0
    assert live_version(admin, "import_status").differences == said(alone)["changed"]
    assert [one.version for one in versions(admin, "import_status")] == [1]


def test_a_rebuild_that_was_killed_goes_on_where_it_was(
    admin: Connection[Any], database: PostgresUrls, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before any part was done, and when all were; workers write to its tables in between only."""
    found_at(database, folder, monkeypatch)
    with alive(database, 1, 2), monkeypatch.context() as killing:
        killing.setattr(spread_builds, "wait_for", interrupted)
        assert "type the same again" in run(projections, "rebuild", "import_status", "--spread").stderr
    assert rights_on(admin, "import_status_v2", "import_status") == ["DELETE", "INSERT", "SELECT", "UPDATE"]
    with working(database), monkeypatch.context() as killing:
        killing.setattr(spread_builds, "catch_up", interrupted)
        run(projections, "rebuild", "import_status", "--spread")
    assert rights_on(admin, "import_status_v2", "import_status") == []
    with alive(database, 1, 2):  # nothing is left to be done
        rebuilt = run(projections, "rebuild", "import_status", "--spread", "--json")
    assert said(rebuilt)["version"] == 2
    assert verify_projection(database.admin, admin, STATUS, limit=1).count == 0


def test_a_rebuild_by_this_process_puts_an_end_to_one_by_workers(
    admin: Connection[Any], database: PostgresUrls, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found_at(database, folder, monkeypatch)
    with alive(database, 1, 2), monkeypatch.context() as killing:
        killing.setattr(spread_builds, "wait_for", interrupted)
        run(projections, "rebuild", "import_status", "--spread")
    assert run(projections, "rebuild", "import_status").exit_code == 0
    with working(database):
        rebuilt = run(projections, "rebuild", "import_status", "--spread", "--json")
    assert said(rebuilt)["changed"] == 0
    assert parts_left(admin) == 0


def test_an_erasure_in_the_middle_of_a_build_by_workers_is_in_no_version(
    admin: Connection[Any], database: PostgresUrls, folder: Path, monkeypatch: pytest.MonkeyPatch, owner: Ledger
) -> None:
    found_at(database, folder, monkeypatch)
    with alive(database, 1, 2), monkeypatch.context() as killing:
        killing.setattr(spread_builds, "wait_for", interrupted)
        run(projections, "rebuild", "account_search", "--spread")
    external = an_account(SUPPLIER, 3)["external_account_number"]
    assert erase(owner, SUPPLIER, external, reason="r", at=now(), by="t") is not None
    with working(database):
        rebuilt = run(projections, "rebuild", "account_search", "--spread", "--json")
    assert rebuilt.exit_code == 0, rebuilt.output
    row = admin.execute(
        "SELECT count(*) FROM account_search WHERE stream = %s", (stream_of(SUPPLIER, external),)
    ).fetchone()
    assert row == (0,)


def test_tables_that_workers_may_not_write_are_made_by_the_command(
    admin: Connection[Any], database: PostgresUrls, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found_at(database, folder, monkeypatch)
    for name in ("access_key", "import_supplier"):
        rebuilt = run(projections, "rebuild", name, "--spread", "--json")  # no worker runs
        assert "made by this command alone" in rebuilt.stderr
        assert said(rebuilt)["is_switched"]
    assert not {"INSERT", "UPDATE"} & set(rights_on(admin, "public", "access_key"))


def test_spread_is_refused_where_it_makes_no_sense(database: PostgresUrls, folder: Path) -> None:
    assert "belongs to --all" in run(verify, "--spread").stderr
    for words in ((), (str(folder / "x"), "--spread"), ("--supplier", "S")):
        assert run(replay, *words).exit_code == 2
