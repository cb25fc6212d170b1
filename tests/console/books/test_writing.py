"""Books: their files in chunks, who sees them, steps, second person and erasure."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from itertools import product
from typing import Any

import msgspec
import psycopg
import pytest
from cryptography.exceptions import InvalidTag
from starlette.requests import Request

from api.http.errors import answered_error
from console.books import writing
from console.books.commands import BookRefused
from console.books.writing import Books, WrongOffset, name_of_upload
from embedded.postgres import PostgresUrls
from eventstore.aggregates.user import CreateUser, stream_of
from eventstore.clock import now
from eventstore.log import recorder
from eventstore.log.authority import AuthorityKey
from eventstore.log.ledger import Ledger
from eventstore.log.rows import rows_of
from projections import INLINE
from projections.auxiliary import books as stored
from projections.auxiliary.books import CHUNK_BYTES, BooksFull, Reach

ANNA = Reach(organisation="Stadtwerke", suppliers=["ACME"], user_id="u_anna")
BEN = Reach(organisation="Stadtwerke", suppliers=["ACME"], user_id="u_ben")
OTHER_ORGANISATION = Reach(organisation="Elsewhere", suppliers=None, user_id="u_dora")
AUTHORITY = AuthorityKey("a" * 32)


@pytest.fixture
def ledger(database: PostgresUrls) -> Iterator[Ledger]:
    """The ledger with the rights of an api process."""
    opened = Ledger(database.roles["api"], views=INLINE)
    yield opened
    opened.close()


@pytest.fixture
def books(ledger: Ledger) -> Books:
    return Books(ledger, AUTHORITY)


@pytest.fixture
def read(database: PostgresUrls) -> Callable[..., Any]:
    def read_now(query: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
        async def run() -> Any:
            async with await psycopg.AsyncConnection.connect(database.roles["api"]) as connection:
                return await query(connection, *arguments)

        return asyncio.run(run())

    return read_now


def upload(books: Books, book: str, name: str, data: bytes, reach: Reach = ANNA) -> None:
    books.begin(reach, book, name, len(data))
    for first in range(0, len(data), CHUNK_BYTES):
        books.add(reach, book, name, first, data[first : first + CHUNK_BYTES])
    books.finish(reach, book, name)


def test_of_two_uploads_of_a_name_at_once_one_is_finished(books: Books) -> None:
    for steps in product("ab", repeat=4):
        book = books.create(ANNA, "ACME", "".join(steps))
        at, ended = {"a": 0, "b": 0}, set[str]()
        for version in (*steps, *"abababab"):
            if version not in ended and send_piece(books, book, version, at):
                ended.add(version)
        assert ended == {"a", "b"}, steps
        assert 3 * CHUNK_BYTES in at.values(), steps


def send_piece(books: Books, book: str, version: str, at: dict[str, int]) -> bool:
    """Send the next of three pieces as the script of the page does; return True after the last, and if refused."""
    size, offset = 3 * CHUNK_BYTES, at[version]
    try:
        books.begin(ANNA, book, "k.csv", size, version=version, offset=offset)
        at[version] = books.add(ANNA, book, "k.csv", offset, version.encode() * CHUNK_BYTES)
    except WrongOffset as wrong:
        at[version] = wrong.received
        return False
    except BookRefused:
        return True
    if at[version] == size:
        books.finish(ANNA, book, "k.csv")
    return at[version] == size


def test_stored_files_are_encrypted_and_bound_to_their_place(books: Books, ledger: Ledger) -> None:
    book = books.create(ANNA, "ACME", "go-live")
    books.write_text(ANNA, book, "mapping.yaml", "geheim " * 100)

    with ledger.connection() as connection:
        [(key, file, content)] = rows_of(
            connection,
            "SELECT key, file, content FROM books JOIN book_files USING (book) JOIN book_chunks USING (file)",
        )
    assert b"geheim" not in content
    assert stored.unsealed(key, f"{file}/0", content) == b"geheim " * 100
    with pytest.raises(InvalidTag):
        stored.unsealed(key, f"{file}/1", content)
    with pytest.raises(InvalidTag):
        stored.unsealed(os.urandom(32), f"{file}/0", content)


def test_files_do_not_change_while_a_step_waits(books: Books) -> None:
    book = books.create(ANNA, "ACME", "go-live")
    upload(books, book, "book.ndjson", b"{}\n")
    step = books.start(ANNA, book, "push", {"files": "book.ndjson"})

    for attempt in (
        lambda: books.write_text(ANNA, book, "mapping.yaml", "a"),
        lambda: books.delete_file(ANNA, book, "book.ndjson"),
        lambda: books.start(ANNA, book, "push", {"files": "book.ndjson"}),
    ):
        with pytest.raises(BookRefused):
            attempt()

    books.pause(ANNA, book, step)
    books.write_text(ANNA, book, "mapping.yaml", "a")


def test_a_push_waits_for_another_person_who_sees_the_same_files(
    ledger: Ledger, owner: Ledger, read: Callable[..., Any]
) -> None:
    for user_id in ("u_ben", "u_carl"):
        command = CreateUser(organisation=BEN.organisation, role="importer", suppliers=("ACME",))
        owner.execute(stream_of(user_id), command, at=now(), by="operator:test")
    books = Books(ledger, AUTHORITY, four_eyes=["push"])
    book = books.create(ANNA, "ACME", "go-live")
    upload(books, book, "book.ndjson", b"{}\n")
    step = books.start(ANNA, book, "push", {"files": "book.ndjson"})

    def row() -> tuple[Any, ...]:
        with ledger.connection() as connection:
            [found] = rows_of(connection, "SELECT state, mac <> '', holder FROM book_steps WHERE step = %s", step)
        return found

    assert row() == ("proposed", False, "u_anna")
    with pytest.raises(BookRefused):
        books.approve(ANNA, book, step)
    with pytest.raises(BookRefused):
        books.resume(BEN, book, step)
    upload(books, book, "book.ndjson", b"{ }\n")
    with pytest.raises(BookRefused):
        books.approve(BEN, book, step)
    assert row() == ("proposed", False, "u_anna")

    upload(books, book, "book.ndjson", b"{}\n")
    books.approve(BEN, book, step)

    assert row() == ("waiting", True, "u_anna")
    books.pause(ANNA, book, step)
    books.resume(ANNA, book, step)
    assert row() == ("waiting", True, "u_anna")
    books.pause(ANNA, book, step)
    with ledger.connection() as connection:
        connection.execute("UPDATE book_steps SET approved_by = 'u_carl' WHERE step = %s", (step,))
    with pytest.raises(BookRefused):
        books.resume(ANNA, book, step)
    [shown] = read(stored.steps_of, book)
    assert (shown.counts, shown.command) == (
        {"files": 1, "bytes": 3},
        "importbook push book.ndjson --supplier ACME --run go-live --manifest go-live.manifest.json --wait",
    )


def test_an_erasure_deletes_files_key_and_commands_and_leaves_who_did_what(
    books: Books, ledger: Ledger, read: Callable[..., Any]
) -> None:
    book = books.create(ANNA, "ACME", "go-live")
    upload(books, book, "Frau Muster.ndjson", b"{}\n")
    step = books.start(ANNA, book, "push", {"files": "Frau Muster.ndjson"})

    books.erase(BEN, book)

    erased = read(stored.book_of, ANNA, book)
    assert (erased.erased_by, erased.files, erased.user_id) == ("u_ben", 0, "u_anna")
    assert erased.erased_at is not None
    [left] = read(stored.steps_of, book)
    assert (left.step, left.state, left.error, left.command) == (step, "failed", "erased", "")
    assert b"Muster" not in msgspec.json.encode(left)
    with ledger.connection() as connection:
        assert rows_of(connection, "SELECT key, (SELECT count(*) FROM book_chunks) FROM books") == [(None, 0)]
    with pytest.raises(BookRefused):
        books.begin(ANNA, book, "a.csv", 1)
    assert books.create(ANNA, "ACME", "go-live") != book


def test_files_that_take_long_to_delete_are_deleted(database: PostgresUrls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "SESSION", recorder.SESSION.replace("'15s'", "'200ms'"))
    with psycopg.connect(database.admin) as connection:
        connection.execute(
            "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS"
            " $$BEGIN PERFORM pg_sleep(0.4); RETURN OLD; END$$;"
            " CREATE TRIGGER wait BEFORE DELETE ON book_files FOR EACH ROW EXECUTE FUNCTION wait()"
        )
    with closing(Ledger(database.roles["api"], views=INLINE)) as ledger:
        books = Books(ledger, AUTHORITY)
        book = books.create(ANNA, "ACME", "go-live")
        for text in ("first", "second"):  # the second file replaces the first one
            books.write_text(ANNA, book, "kunden.csv", text)
        books.begin(ANNA, book, "kunden.csv", 3)
        books.begin(ANNA, book, "kunden.csv", 4)
        books.delete_file(ANNA, book, "kunden.csv")
        books.write_text(ANNA, book, "kunden.csv", "third")

        books.erase(ANNA, book)

        with ledger.connection() as connection:
            assert rows_of(connection, "SELECT FROM book_files") == []


def test_uploads_end_before_the_limit_of_all_books_and_lose_nothing(
    books: Books, read: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    book = books.create(ANNA, "ACME", "go-live")
    upload(books, book, "book.ndjson", b"{}\n")
    monkeypatch.setattr(writing, "MAX_ALL_BYTES", 10)
    upload(books, book, "small.csv", b"1234567")
    with pytest.raises(BooksFull) as full:
        books.begin(ANNA, book, "more.csv", 1)
    answer = answered_error(Request({"type": "http", "method": "PUT", "path": "/", "headers": []}), full.value)
    assert (answer.status_code, b"What was uploaded is stored" in answer.body) == (503, True)
    monkeypatch.undo()
    monkeypatch.setattr(writing, "MIN_FREE_BYTES", 1 << 60)
    with pytest.raises(BooksFull):
        books.begin(ANNA, book, "more.csv", 1)
    assert [file.name for file in read(stored.files_of, book)] == ["book.ndjson", "small.csv"]


def test_uploaded_workbooks_are_corrections_that_no_step_replaces() -> None:
    first, second = "corrected-1.failures.xlsx", "corrected-2.failures.xlsx"
    assert name_of_upload("go.failures.xlsx", ["go.failures.xlsx"]) == first
    assert name_of_upload("go.failures.xlsx", ["go.failures.xlsx", first]) == second
    assert name_of_upload(first, [first]) == first
    assert name_of_upload("kunden.csv", []) == "kunden.csv"


def test_a_new_upload_begins_again_and_a_rejection_by_its_author_is_a_withdrawal(
    ledger: Ledger, read: Callable[..., Any]
) -> None:
    books = Books(ledger, AUTHORITY, four_eyes=["push"])
    book = books.create(ANNA, "ACME", "go-live")
    books.begin(ANNA, book, "book.ndjson", 3 + CHUNK_BYTES)
    books.add(ANNA, book, "book.ndjson", 0, b" " * CHUNK_BYTES)
    assert books.begin(ANNA, book, "book.ndjson", 3 + CHUNK_BYTES, is_new=True) == 0
    books.add(ANNA, book, "book.ndjson", 0, b"{}\n", is_last=True)
    books.finish(ANNA, book, "book.ndjson", is_stream=True)
    assert read(stored.read_text, book, "book.ndjson") == "{}\n"

    for reach, error in ((BEN, "rejected"), (ANNA, "withdrawn")):
        step = books.start(ANNA, book, "push", {"files": "book.ndjson"})
        books.reject(reach, book, step)
        assert read(stored.steps_of, book)[0].error == error
        with pytest.raises(BookRefused):
            books.resume(ANNA, book, step)


def test_one_organisation_leaves_space_to_others(books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, theirs = books.create(ANNA, "ACME", "go"), books.create(OTHER_ORGANISATION, "ACME", "go")
    monkeypatch.setattr(writing, "MAX_ORGANISATION_BYTES", 5)
    upload(books, mine, "a.csv", b"12345")
    with pytest.raises(BooksFull):
        books.begin(ANNA, mine, "b.csv", 1)
    upload(books, theirs, "a.csv", b"12345", OTHER_ORGANISATION)


def test_a_book_has_a_limit_of_steps(books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    book = books.create(ANNA, "ACME", "go")
    upload(books, book, "book.ndjson", b"{}\n")
    monkeypatch.setattr(writing, "MAX_STEPS", 1)
    books.pause(ANNA, book, books.start(ANNA, book, "push", {"files": "book.ndjson"}))
    with pytest.raises(BookRefused):
        books.start(ANNA, book, "push", {"files": "book.ndjson"})


def test_a_book_that_another_request_changes_does_not_hold_the_api(books: Books, ledger: Ledger) -> None:
    book = books.create(ANNA, "ACME", "go")
    with ledger.connection() as connection, connection.transaction():
        connection.execute("SELECT FROM books FOR UPDATE")
        with pytest.raises(BookRefused, match="Another request"):
            books.begin(ANNA, book, "a.csv", 1)
    assert books.begin(ANNA, book, "a.csv", 1) == 0
