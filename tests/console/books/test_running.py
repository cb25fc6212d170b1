"""Steps of books run importbook in a private folder, without the api's environment, and leave nothing behind."""

import asyncio
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
import xlsxwriter

from console.books import running, writing
from console.books.commands import NOTES
from console.books.running import PREFIX, BookSteps, Claimed, Output, environment, sweep
from console.books.writing import Books
from embedded.postgres import PostgresUrls
from eventstore.log import locks
from eventstore.log.authority import AuthorityKey
from eventstore.log.ledger import Ledger
from projections import INLINE
from projections.auxiliary import books as stored
from projections.auxiliary.books import MAX_HEAD_BYTES, MAX_TAIL_BYTES, Reach, Step
from telemetry.supervision import supervision
from tests.support.running import wait_for

ANNA = Reach(organisation="Stadtwerke", suppliers=["ACME"], user_id="u_anna")
AUTHORITY = AuthorityKey("a" * 32)
TABLE = "KONTO;NAME\n1;Muster\n2;Beispiel\n"
MAPPING = (
    "account:\n  external_account_number: KONTO\n  customers:\n    - family_name: NAME\n  billing_address1: NAME\n"
)
CHECK = {"files": "kunden.csv"}


class Room:
    """A book with a table and a mapping, and an api process that runs its steps."""

    def __init__(self, database: PostgresUrls, temporary: Path) -> None:
        self.urls, self.temporary = database, temporary
        self.api = Ledger(database.roles["api"], views=INLINE)
        self.books = Books(self.api, AUTHORITY)
        self.book = self.books.create(ANNA, "ACME", "go")
        self.write("kunden.csv", TABLE)
        self.write("mapping.yaml", MAPPING)
        self.steps = BookSteps(self.api, AUTHORITY, url="http://127.0.0.1:1")

    def write(self, name: str, text: str) -> None:
        self.books.write_text(ANNA, self.book, name, text)

    def read(self, query: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
        async def run() -> Any:
            async with await psycopg.AsyncConnection.connect(self.urls.roles["api"]) as connection:
                return await query(connection, self.book, *arguments)

        return asyncio.run(run())

    def run(self, kind: Any, arguments: dict[str, str]) -> tuple[Step, str]:
        step = self.books.start(ANNA, self.book, kind, arguments)
        assert self.steps.run_next()
        return self.read(stored.steps_of)[0], self.read(stored.output_of, step)

    @contextmanager
    def running_step(self) -> Iterator[str]:
        """A step that runs in the block, and waits long for an api that is not there. The block must end it."""
        step = self.books.start(ANNA, self.book, "errors", {"run": "go"})
        thread = threading.Thread(target=self.steps.run_next)
        thread.start()
        wait_for(lambda: self.read(stored.steps_of)[0].state == "running", "the step runs")
        yield step
        thread.join()

    def execute(self, statement: str) -> None:
        with psycopg.connect(self.urls.admin, autocommit=True) as connection:
            connection.execute(statement.encode())


@pytest.fixture
def room(database: PostgresUrls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Room]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    room = Room(database, tmp_path)
    yield room
    room.api.close()
    assert [*tmp_path.glob(f"{PREFIX}*")] == []


def test_a_step_runs_importbook_and_stores_what_it_writes(room: Room) -> None:
    assert not room.steps.run_next()

    checked, output = room.run("check", CHECK)
    assert (checked.state, checked.exit_code, checked.error) == ("ended", 0, "")
    assert '"external_account_number": "1"' in output

    assert "KONTO=1 · NAME=Muster" in output, "the source row stands beside its account"

    room.write(
        "mapping.yaml",
        MAPPING.replace("family_name: NAME", "{family_name: {column: NAME, table: t}}") + "tables: {t: {}}\n",
    )
    listed, output = room.run("values", CHECK)
    assert (listed.state, listed.exit_code) == ("ended", 1), output
    assert "Muster" in room.read(stored.read_text, "values.csv")
    assert {file.name: file.step for file in room.read(stored.files_of)} == {
        "kunden.csv": "",
        "mapping.yaml": "",
        "values.csv": listed.step,
    }

    room.books.delete_file(ANNA, room.book, "mapping.yaml")
    proposed, _ = room.run("init", {"files": "kunden.csv"})
    assert (proposed.state, proposed.exit_code) == ("ended", 0)
    assert "KONTO" in room.read(stored.read_text, "mapping.yaml")


@pytest.mark.parametrize("name", ["go.failures.ndjson", f"{NOTES}go.json"])
@pytest.mark.parametrize("change", ["same", "changed", "deleted"])
def test_after_a_step_the_book_has_the_files_of_its_folder(
    room: Room, monkeypatch: pytest.MonkeyPatch, name: str, change: str
) -> None:
    def run(change: str) -> str:
        def command(_: BookSteps, step: Claimed, folder: Path, output: Output) -> tuple[int, str]:
            if change == "deleted":
                (folder / name).unlink()
            elif change == "changed":
                (folder / name).write_text(step.step)
            return 0, "ended"

        monkeypatch.setattr(BookSteps, "_run", command)
        return room.run("check", CHECK)[0].step

    first, second = run("changed"), run(change)

    content = {"same": first, "changed": second, "deleted": None}[change]
    assert room.read(stored.read_text, name) == content
    assert room.read(stored.read_text, "kunden.csv") == TABLE


def test_a_step_that_fails_has_its_reason_in_the_output(room: Room) -> None:
    room.write("mapping.yaml", "account: {external_account_number: A}\nfiles: {x: {path: /etc/passwd, key: A}}\n")

    failed, output = room.run("check", CHECK)

    assert (failed.state, failed.exit_code, failed.error) == ("failed", 2, "refused")
    assert "in the folder of the mapping" in output


def test_a_child_imports_nothing_from_the_folder_of_its_book(room: Room) -> None:
    for module in ("click.py", "yaml.py", "importledger_client.py", "sitecustomize.py"):
        room.write(module, "raise SystemExit('imported from the book')")

    checked, output = room.run("check", CHECK)

    assert (checked.exit_code, "imported from the book" in output) == (0, False)


def test_a_child_has_none_of_the_apis_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://secret")

    names = environment(tmp_path, "http://127.0.0.1:1", "token", "de")

    assert set(names) == {"HOME", "TMPDIR", "PATH", "LANG", "PYTHONUTF8", "IMPORTLEDGER_URL", "IMPORTLEDGER_KEY"}


def test_a_step_of_an_ended_process_is_taken_by_another(room: Room) -> None:
    room.books.start(ANNA, room.book, "check", CHECK)
    room.execute("UPDATE book_steps SET state = 'running', runner = 3, lease_until = now() + interval '1 h'")
    assert not room.steps.run_next()
    room.execute("UPDATE book_steps SET lease_until = now()")

    assert room.steps.run_next()

    assert room.read(stored.steps_of)[0].state == "ended"


def test_a_process_keeps_its_step_while_it_copies_large_files(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    is_kept = list[bool]()

    def after(function: str, is_last: bool) -> Callable[..., Any]:
        call = getattr(running, function)

        def wrapped(*arguments: Any) -> Any:
            if is_last:
                with psycopg.connect(room.urls.admin) as connection:
                    [row] = connection.execute("SELECT lease_until > now() FROM book_steps").fetchall()
                is_kept.append(row[0])
            else:
                room.execute("UPDATE book_steps SET lease_until = now() - interval '1 s'")
            return call(*arguments)

        return wrapped

    monkeypatch.setattr(running, "BEAT_S", 0.0)
    monkeypatch.setattr(running, "read_chunks", after("read_chunks", False))
    monkeypatch.setattr(running, "write_chunk", after("write_chunk", False))
    monkeypatch.setattr(running, "environment", after("environment", True))
    monkeypatch.setattr(running, "receive", after("receive", True))
    room.books.delete_file(ANNA, room.book, "mapping.yaml")

    assert room.run("init", {"files": "kunden.csv"})[0].state == "ended"
    assert is_kept == [True, True]


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("UPDATE book_steps SET attempt = 5", "lost"),
        ("UPDATE book_steps SET expires_at = now()", "forged"),
        ("UPDATE book_steps SET arguments = '{}'", "forged"),
        ("UPDATE book_steps SET kind = 'push'", "forged"),
        ("UPDATE book_steps SET holder = 'u_boss'", "forged"),
        ("UPDATE book_steps SET mac = ''", "forged"),
        ("UPDATE book_steps SET preview = 'other'", "changed"),
        ("UPDATE book_chunks SET digest = 'other'", "unreadable"),
        ("UPDATE book_chunks SET content = content || '0'::bytea", "unreadable"),
    ],
)
def test_a_step_is_not_run_when_it_must_not(room: Room, statement: str, error: str) -> None:
    room.books.start(ANNA, room.book, "check", CHECK)
    room.execute(statement)

    assert room.steps.run_next()

    [step] = room.read(stored.steps_of)
    assert (step.state, step.error, step.exit_code) == ("failed", error, None)


def test_a_paused_step_stops_and_runs_again_when_it_is_resumed(room: Room) -> None:
    with room.running_step() as step:
        room.books.pause(ANNA, room.book, step)
    assert room.read(stored.steps_of)[0].state == "paused"

    room.books.resume(ANNA, room.book, step)
    assert room.read(stored.steps_of)[0].state == "waiting"


def test_a_process_that_is_stopped_leaves_its_step_waiting(room: Room) -> None:
    room.books.start(ANNA, room.book, "errors", {"run": "go"})
    room.steps.stop()

    assert room.steps.run_next()

    assert room.read(stored.steps_of)[0].state == "waiting"


def test_old_books_are_erased(room: Room) -> None:
    room.steps.erase_old()
    assert len(room.read(stored.files_of)) == 2
    room.execute("UPDATE books SET touched_at = now() - interval '31 days'")
    room.steps.erase_old()
    assert room.read(stored.files_of) == []


def test_an_old_book_that_a_user_changes_meanwhile_is_not_erased(room: Room) -> None:
    room.execute("UPDATE books SET touched_at = now() - interval '31 days'")
    with psycopg.connect(room.urls.roles["api"]) as user:
        user.execute(writing._LOCK_BOOK.encode(), (room.book,))
        room.steps.erase_old()
        user.execute(writing._TOUCH.encode(), (room.book,))
    room.steps.erase_old()

    assert len(room.read(stored.files_of)) == 2


def test_steps_run_while_an_old_book_cannot_be_erased(room: Room) -> None:
    room.execute(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
        " $$BEGIN RAISE EXCEPTION 'damaged' USING ERRCODE = 'data_corrupted'; END$$;"
        " CREATE TRIGGER refuse BEFORE DELETE ON book_files FOR EACH ROW EXECUTE FUNCTION refuse();"
        " UPDATE books SET touched_at = now() - interval '31 days'"
    )
    stranger = Reach(organisation="Elsewhere", suppliers=None, user_id="u_dora")
    book = room.books.create(stranger, "ACME", "go")
    room.books.write_text(stranger, book, "kunden.csv", TABLE)
    room.books.start(stranger, book, "init", {"files": "kunden.csv"})

    with room.steps.running(), psycopg.connect(room.urls.admin, autocommit=True) as connection:
        ended = "SELECT FROM book_steps WHERE state = 'ended'"
        wait_for(lambda: connection.execute(ended).rowcount > 0, "the step ends")
        wait_for(lambda: [trouble.name for trouble in supervision.troubles()] == [running.NAME], "a trouble")


def test_folders_of_ended_processes_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / f"{PREFIX}left").mkdir()
    (tmp_path / "other").mkdir()

    sweep()

    assert [path.name for path in tmp_path.iterdir()] == ["other"]


def test_endless_output_is_cut_to_its_beginning_and_end() -> None:
    output = Output()
    output.add(b"first\n")
    for _ in range(100):
        output.add(b"x" * 65536)
    output.add(b"push 45 % \nlast")

    assert (output.text()[:5], output.text()[-4:], output.percent) == (b"first", b"last", 45)
    assert len(output.text()) == MAX_HEAD_BYTES + MAX_TAIL_BYTES


def test_a_step_writes_nothing_above_the_limits(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    room.books.delete_file(ANNA, room.book, "mapping.yaml")
    for module, limit, error in ((running, "MAX_BOOK_BYTES", "too_large"), (writing, "MAX_ALL_BYTES", "no_space")):
        with monkeypatch.context() as patch:
            patch.setattr(module, limit, 10)
            step, _ = room.run("init", {"files": "kunden.csv"})
        assert (step.state, step.error) == ("failed", error)
        assert {file.name for file in room.read(stored.files_of)} == {"kunden.csv"}


def test_a_push_that_nobody_has_approved_is_not_run(room: Room) -> None:
    room.write("book.ndjson", "{}\n")
    room.books.start(ANNA, room.book, "push", {"files": "book.ndjson"})
    steps = BookSteps(room.api, AUTHORITY, url="http://127.0.0.1:1", needs_second=True)

    assert steps.run_next()

    assert room.read(stored.steps_of)[0].error == "not_approved"


def test_a_step_that_lasts_too_long_is_stopped(room: Room) -> None:
    with room.running_step():
        room.execute("UPDATE book_steps SET expires_at = now()")

    [step] = room.read(stored.steps_of)
    assert (step.state, step.error) == ("failed", "expired")


def test_a_late_process_stores_nothing(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    room.books.delete_file(ANNA, room.book, "mapping.yaml")
    room.books.start(ANNA, room.book, "init", {"files": "kunden.csv"})
    store = BookSteps._store

    def store_late(steps: BookSteps, *arguments: Any) -> None:
        room.execute("UPDATE book_steps SET runner = 3")  # as another process takes a step
        store(steps, *arguments)

    monkeypatch.setattr(BookSteps, "_store", store_late)

    assert room.steps.run_next()

    assert [file.name for file in room.read(stored.files_of)] == ["kunden.csv"]
    assert room.read(stored.steps_of)[0].state == "running", "the other process ends the step"


def test_an_organisation_has_one_step_at_a_time(room: Room) -> None:
    other = room.books.create(ANNA, "ACME", "second")
    room.books.write_text(ANNA, other, "kunden.csv", TABLE)
    room.books.write_text(ANNA, other, "mapping.yaml", MAPPING)
    room.books.start(ANNA, room.book, "check", CHECK)
    room.execute("UPDATE book_steps SET state = 'running', runner = 3, lease_until = now() + interval '1 h'")
    waiting = room.books.start(ANNA, other, "check", CHECK)
    assert not room.steps.run_next()

    stranger = Reach(organisation="Elsewhere", suppliers=None, user_id="u_dora")
    theirs = room.books.create(stranger, "ACME", "go")
    room.books.write_text(stranger, theirs, "kunden.csv", TABLE)
    room.books.write_text(stranger, theirs, "mapping.yaml", MAPPING)
    room.books.start(stranger, theirs, "check", CHECK)
    assert room.steps.run_next(), "others do not wait"
    room.execute("UPDATE book_steps SET state = 'ended' WHERE runner = 3")
    assert room.steps.run_next()
    with psycopg.connect(room.urls.admin) as connection:
        row = connection.execute("SELECT state FROM book_steps WHERE step = %s", (waiting,)).fetchone()
    assert row == ("ended",)


def test_two_processes_claim_no_two_steps_of_an_organisation_at_once(room: Room) -> None:
    other = room.books.create(ANNA, "ACME", "second")
    for book in (room.book, other):
        room.books.write_text(ANNA, book, "kunden.csv", TABLE)
        room.books.write_text(ANNA, book, "mapping.yaml", MAPPING)
        room.books.start(ANNA, book, "check", CHECK)
    claims: list[bool] = []
    claiming = threading.Thread(target=lambda: claims.append(room.steps.run_next()))
    with psycopg.connect(room.urls.roles["api"]) as connection:
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (locks.BOOK_STEPS,))
        connection.execute(running._CLAIM.encode(), {"runner": 3})
        claiming.start()
        waiting = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        wait_for(lambda: connection.execute(waiting).rowcount > 0, "the other process waits")
        assert claims == []
    claiming.join()

    assert claims == [False]


def test_a_sheet_that_needs_more_memory_than_a_step_has_ends_the_step_only(room: Room, tmp_path: Path) -> None:
    workbook = xlsxwriter.Workbook(str(tmp_path / "kunden.xlsx"))
    sheet = workbook.add_worksheet()
    sheet.write_row(0, 0, ["KONTO", "NAME"])
    sheet.write(1_048_575, 61, "x")
    workbook.close()
    content = (tmp_path / "kunden.xlsx").read_bytes()
    room.books.begin(ANNA, room.book, "kunden.xlsx", len(content))
    room.books.add(ANNA, room.book, "kunden.xlsx", 0, content)
    room.books.finish(ANNA, room.book, "kunden.xlsx")

    checked, output = room.run("check", {"files": "kunden.xlsx"})

    assert (checked.state, checked.error, "memory" in output) == ("failed", "killed", True), output


def test_a_step_whose_folder_grows_beyond_its_limit_is_stopped(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "MAX_FOLDER_BYTES", 10)
    room.books.start(ANNA, room.book, "errors", {"run": "go"})

    assert room.steps.run_next()

    assert room.read(stored.steps_of)[0].error == "too_large"
