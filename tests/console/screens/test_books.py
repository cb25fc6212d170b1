"""The importer's own pages, without script: uploads, mapping, steps, source rows, and who sees them."""

import asyncio
import re
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from html import escape
from typing import Any

import httpx
import pytest

from console.books.running import BookSteps
from console.books.writing import Books
from console.screens import books as screen
from console.screens.books import FailureKind, _grouped
from console.settings import ConsoleSettings
from embedded.postgres import PostgresUrls
from eventstore.aggregates.aggregate import Command
from eventstore.aggregates.user import ChangeUserRole, DisableUser, IssueSignInLink, stream_of
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from eventstore.log.payloads import random_key
from projections import INLINE
from projections.auxiliary import books as stored
from projections.auxiliary.books import CHUNK_BYTES, Reach
from tests.support.console import (
    AUTHORITY,
    COOKIE,
    App,
    Browser,
    Visit,
    console_app,
    create_supplier,
    csrf_in,
    new_session,
    new_user,
    seen_in,
    send,
    words_of,
)
from tests.support.databases import Admin, owner_of
from tests.support.following import follow

BOOKS = "/console/books/"
TABLE = "KONTO;NAME\n1;Muster\n2;Beispiel\n"
MAPPING = (
    "account:\n  external_account_number: KONTO\n  customers:\n    - family_name: NAME\n  billing_address1: NAME\n"
)


@pytest.fixture
def app(database: PostgresUrls, ledger: Ledger, settings: ConsoleSettings | None) -> Iterator[App]:
    for code in ("NORDWIND", "ELSE"):
        create_supplier(ledger, code)
    follow(ledger)
    with console_app(database, settings=settings) as app:
        yield app


@pytest.fixture
def anna(visit: Visit) -> Browser:
    return visit("importer", suppliers=["NORDWIND"])


def new_book(browser: Browser, run: str = "umzug") -> str:
    """Return the address of a new book."""
    answer = send(browser, BOOKS, {"supplier": "NORDWIND", "run": run})
    assert answer.status_code == 303, words_of(answer.text)
    return str(answer.headers["location"])


def upload(browser: Browser, book: str, name: str, content: bytes) -> int:
    """Send a file with the form of the page, as a browser without script does."""
    csrf = csrf_in(browser.get(book).text)
    answer = browser.post(f"{book}files/", data={"csrf": csrf}, files={"file": (name, content)})
    return answer.status_code


def run_steps(database: PostgresUrls, **settings: Any) -> None:
    with closing(Ledger(database.roles["api"], views=INLINE)) as api:
        assert BookSteps(api, AUTHORITY, url="http://127.0.0.1:1", **settings).run_next()


@pytest.mark.promise("books-in-the-console")
def test_a_table_is_uploaded_mapped_checked_and_downloaded_without_script(
    database: PostgresUrls, anna: Browser
) -> None:
    assert "Your organisation has no book yet." in words_of(anna.get(BOOKS).text)
    book = new_book(anna)
    assert upload(anna, book, "kunden.csv", TABLE.encode()) == 303
    page = anna.get(book).text
    assert "Propose a mapping" in page
    assert "Rehearse" not in page, "the table has no mapping yet"

    edit = f"{book}edit/"
    saved = send(anna, edit, {"name": "mapping.yaml", "text": MAPPING.replace("\n", "\r\n")}, at=edit)
    assert saved.status_code == 303
    assert MAPPING in anna.get(edit).text
    send(anna, f"{book}steps/", {"kind": "check", "main": "kunden.csv"}, at=book)
    waiting = anna.get(book).text
    assert 'hx-trigger="every 2s"' in waiting
    assert "importbook map check mapping.yaml kunden.csv --supplier NORDWIND" in waiting
    run_steps(database)

    checked = words_of(anna.get(book).text)
    assert "kunden.csv, row 2: KONTO=1 · NAME=Muster" in checked
    assert '"family_name": "Muster"' in checked
    step = re.search(rf"{book}steps/s_[0-9a-f]+/", anna.get(book).text)
    assert step is not None
    assert "KONTO=2" in words_of(anna.get(step[0]).text)
    downloaded = anna.get(f"{book}files/kunden.csv/")
    assert (downloaded.content, downloaded.headers["content-type"]) == (TABLE.encode(), "application/octet-stream")
    assert "attachment" in downloaded.headers["content-disposition"]


@pytest.mark.promise("books-in-the-console")
def test_a_large_file_is_uploaded_in_pieces_and_goes_on_after_an_interruption(anna: Browser) -> None:
    book, content = new_book(anna), bytes(range(256)) * 12_000
    address = f"{book}files/kunden.csv/?size={len(content)}"
    token = {"X-Form-Token": csrf_in(anna.get(book).text)}

    def put(offset: int, piece: bytes, **headers: str) -> tuple[int, int]:
        answer = anna.request("PUT", f"{address}&offset={offset}", content=piece, headers=token | headers)
        return answer.status_code, answer.json()["received"] if "json" in answer.headers["content-type"] else -1

    assert put(0, b"") == (200, 0)
    assert put(0, content[:CHUNK_BYTES]) == (200, CHUNK_BYTES)
    assert put(0, content[:CHUNK_BYTES]) == (409, CHUNK_BYTES), "a piece that is sent again"
    assert put(CHUNK_BYTES, b"short") == (409, CHUNK_BYTES), "only the last piece may be short"
    assert anna.get(f"{book}files/kunden.csv/").status_code == 404, "an unfinished file is no file"
    assert "1.0 MB of" in words_of(anna.get(book).text)
    assert put(0, b"") == (200, CHUNK_BYTES), "after an interruption, the answer has the offset"
    assert put(CHUNK_BYTES, content[CHUNK_BYTES:]) == (200, len(content))
    assert anna.get(f"{book}files/kunden.csv/").content == content

    other = f"{book}files/kunden.csv/?size={len(content)}&version=2"
    anna.request("PUT", address, content=b"", headers=token)
    anna.request("PUT", f"{address}&offset=0", content=content[:CHUNK_BYTES], headers=token)
    changed = anna.request("PUT", other, content=b"", headers=token)
    assert changed.json() == {"received": 0}, "another version of the file begins at its first byte"

    assert put(0, b"", **{"X-Form-Token": ""})[0] == 403
    assert put(0, b"", Origin="https://elsewhere.example")[0] == 403
    assert anna.request("PUT", f"{book}files/..%2Fa/?size=1", headers=token).status_code in (400, 404)
    assert anna.request("PUT", f"{book}files/a.csv/?size=x", headers=token).status_code == 400
    assert anna.request("PUT", f"{book}files/a.csv/?size=9999999999", headers=token).status_code == 400


@pytest.mark.parametrize("change", ["replaced", "deleted"])
def test_a_download_whose_file_is_replaced_meanwhile_is_cut_off(
    anna: Browser, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    book, large = new_book(anna), bytes(CHUNK_BYTES + 1)
    upload(anna, book, "kunden.csv", large)
    address, users = f"{book}files/kunden.csv/", Books(ledger, AUTHORITY)
    everybody = Reach(organisation="Nordwind Energie", suppliers=None, user_id="u_ben")

    async def then_changed(connection: Any, *arguments: Any) -> bytes | None:
        chunk = await stored.read_chunk(connection, *arguments)
        if arguments[-1] == 0:
            written = (users.write_text, "x") if change == "replaced" else (users.delete_file,)
            await asyncio.to_thread(written[0], everybody, book.split("/")[-2], "kunden.csv", *written[1:])
        return chunk

    assert anna.get(address).content == large
    monkeypatch.setattr(screen, "read_chunk", then_changed)
    with pytest.raises(AssertionError):  # of httpx: the answer has no end
        anna.get(address)


def test_a_form_without_the_token_of_a_page_stores_nothing(anna: Browser) -> None:
    book = new_book(anna)
    for refused in ({}, {"csrf": "0" * 64}):
        answer = anna.post(f"{book}files/", data=refused, files={"file": ("a.csv", b"1")})
        assert answer.status_code == 403
    for content_type in ("multipart/form-data", "multipart/form-data; boundary=x", "text/plain"):
        answer = anna.post(f"{book}files/", content=b"--y", headers={"Content-Type": content_type})
        assert answer.status_code == 400, content_type
    csrf = csrf_in(anna.get(book).text)
    assert anna.post(f"{book}files/", data={"csrf": csrf}, files={"file": ("", b"")}).status_code in (303, 400)
    assert upload(anna, book, "../../etc/passwd", b"1") == 303, "only the last part of a path is the name"
    assert upload(anna, book, "-option.csv", b"1") == 400
    many: dict[str, Any] = {"csrf": csrf, "more": ["x" * 5_000] * 3}
    answer = anna.post(f"{book}files/", data=many, files={"file": ("fields.csv", b"1")})
    assert answer.status_code == 400, "the fields of a form have a limit together"
    assert [upload(anna, book, name, b"") for name in ("empty.csv", "go.failures.xlsx")] == [303, 303]
    names = re.findall(r'scope="row"><a href="[^"]+files/([^/]+)/', anna.get(book).text)
    assert names == ["corrected-1.failures.xlsx", "empty.csv", "passwd"]


def test_books_are_of_their_organisation_and_supplier(ledger: Ledger, anna: Browser, visit: Visit) -> None:
    book = new_book(anna)
    upload(anna, book, "kunden.csv", TABLE.encode())
    refused = send(anna, BOOKS, {"supplier": "ELSE", "run": "go"})
    assert refused.status_code == 404
    stranger = new_user(ledger, role="operator", organisation="Südwerke")
    for browser in (visit("importer", suppliers=["ELSE"]), visit(user_id=stranger)):
        assert "umzug" not in browser.get(BOOKS).text
        for path in ("", "files/kunden.csv/"):  # tests/console/test_matrix.py has all pages and forms
            assert browser.get(book + path).status_code == 404, path
    assert "kunden.csv" in visit("operator").get(book).text


OTHER = MAPPING.replace("NAME", "FIRMA")


@pytest.mark.promise("stale-form-changes-nothing")
@pytest.mark.parametrize("before", [None, MAPPING], ids=["new", "old"])
@pytest.mark.parametrize("after", [None, OTHER], ids=["deleted", "changed"])
@pytest.mark.parametrize("is_signed_out", [False, True], ids=["session", "ended session"])
def test_a_text_that_has_changed_meanwhile_is_not_replaced_unseen(
    ledger: Ledger, visit: Visit, before: str | None, after: str | None, is_signed_out: bool
) -> None:
    user = new_user(ledger, role="importer", suppliers=["NORDWIND"])
    anna, ben = visit(user_id=user), visit("importer", suppliers=["NORDWIND"])
    book = new_book(anna)
    edit, file = f"{book}edit/", f"{book}files/mapping.yaml/"
    if before is not None:
        upload(anna, book, "mapping.yaml", before.encode())
    page = anna.get(edit).text
    typed = {"name": "mapping.yaml", "text": "mine: 1\n", "here": edit}
    if after is not None:
        upload(ben, book, "mapping.yaml", after.encode())
    elif before is not None:
        send(ben, f"{file}delete/", at=book)
    is_stale = before != after
    if is_signed_out:
        author = page.partition('name="author" value="')[2].partition('"')[0]
        anna.cookies.delete(COOKIE)
        anna.post(edit, data=typed | {"seen": seen_in(page, edit), "author": author, "csrf": csrf_in(page)})
        anna.cookies.set(COOKIE, new_session(ledger, user), domain="127.0.0.1")
        page = anna.get(edit).text
        assert "mine: 1" in page

    def save(page: str) -> httpx.Response:
        return anna.post(edit, data=typed | {"seen": seen_in(page, edit), "csrf": csrf_in(page)})

    saved = save(page)
    assert saved.status_code == (400 if is_stale else 303)
    stored_text = anna.get(file)
    assert (stored_text.text if stored_text.status_code == 200 else None) == (after if is_stale else typed["text"])
    if is_stale:
        assert "mine: 1" in saved.text
        assert "was changed or deleted after you opened this page" in words_of(saved.text)
        assert save(saved.text).status_code == 303
    assert save(page).status_code == 303, "the same text again"
    assert anna.get(file).text == typed["text"]


def test_a_form_that_is_too_large_for_strangers_names_the_end_of_the_session(anna: Browser) -> None:
    edit = f"{new_book(anna)}edit/"
    anna.cookies.delete(COOKIE)
    answer = anna.post(edit, data={"text": "x" * 50_000})
    assert answer.status_code == 403
    assert "Your session had ended: nothing was saved." in words_of(answer.text)


@pytest.mark.promise("typed-text-is-kept")
@pytest.mark.parametrize("length", [10, 10_000, 20_000])
def test_a_text_whose_session_has_ended_is_shown_again(ledger: Ledger, visit: Visit, length: int) -> None:
    user = new_user(ledger, role="importer", suppliers=["NORDWIND"])
    anna = visit(user_id=user)
    edit = f"{new_book(anna)}edit/"
    page, text = anna.get(edit).text, f"mine: {'<x>' * (length // 10)} {random_key().hex() * (length // 100)}\n"
    author = page.partition('name="author" value="')[2].partition('"')[0]
    anna.cookies.delete(COOKIE)
    typed = {"name": "mapping.yaml", "text": text, "author": author, "csrf": csrf_in(page)}

    answer = anna.post(edit, data=typed | {"here": edit})
    if answer.status_code == 303:
        anna.cookies.set(COOKIE, new_session(ledger, user), domain="127.0.0.1")
        answer = anna.get(edit)

    assert f">\n{escape(text)}</textarea>" in answer.text
    assert anna.post(edit, data=typed | {"here": "https://example.org/"}).text.count("mine") == 0


def test_the_page_shows_a_row_beside_its_header(anna: Browser) -> None:
    book = new_book(anna)
    lines = "\r\n".join(["KONTO;NAME", *(f"{number};Müller {number}" for number in range(2, 60_000))])
    upload(anna, book, "kunden.csv", lines.encode("cp1252"))

    page = words_of(anna.get(f"{book}rows/?file=kunden.csv&line=50000").text)
    assert "KONTO;NAME" in page
    assert [number for number in range(49_990, 50_010) if f"Müller {number}" in page] == [*range(49_998, 50_003)]
    assert "The file has no such row." not in page
    for query in ("file=kunden.csv&line=x", "file=other.csv&line=1", "file=kunden.csv"):
        assert anna.get(f"{book}rows/?{query}").status_code == 404


def test_the_page_of_a_row_shows_the_beginning_of_a_very_long_line(anna: Browser) -> None:
    book = new_book(anna)
    upload(anna, book, "long.csv", b"A" + b"x" * 2 * CHUNK_BYTES + b"Z\nlast" + b"y" * CHUNK_BYTES)

    page = anna.get(f"{book}rows/?file=long.csv&line=1").text

    assert len(page) < 50_000
    assert "Axxx" in page
    assert "lasty" in page


@pytest.mark.promise("books-in-the-console")
def test_the_page_says_of_the_last_steps_only_what_they_have_found(anna: Browser, admin: Admin) -> None:
    book, result = new_book(anna), ("No account was refused.", "No account was refused, but the step has open points.")
    for name in ("book.ndjson", "a.pdf", "b.xlsx"):
        upload(anna, book, name, b"{}\n")
    admin.execute("UPDATE book_files SET name = 'umzug.certificate.pdf' WHERE name = 'a.pdf'")
    admin.execute("UPDATE book_files SET name = 'umzug.failures.xlsx' WHERE name = 'b.xlsx'")

    def shown(kind: str, changes: str) -> tuple[list[bool], bool, bool]:
        """Return the sentences about refused accounts, and whether certificate and workbook are offered."""
        fields = {"errors": {"run": "umzug"}, "reconcile": {}}.get(kind, {"main": "book.ndjson"})
        assert send(anna, f"{book}steps/", {"kind": kind} | fields, at=book).status_code == 303
        admin.execute(f"UPDATE book_steps SET {changes} WHERE number = (SELECT max(number) FROM book_steps)")
        page = anna.get(book).text
        offered = ("Download the certificate</a>", "umzug.failures.xlsx</a></p>")
        return [text in words_of(page) for text in result], offered[0] in page, offered[1] in page

    ended, cut = "state = 'ended', exit_code =", "state = 'failed', error = 'refused', exit_code = 3"
    assert shown("push", "state = 'waiting'") == ([False, False], False, False)
    assert "/runs/NORDWIND/umzug/" not in anna.get(book).text
    admin.execute("UPDATE book_steps SET state = 'failed', error = 'withdrawn'")
    assert shown("push", "state = 'paused'") == ([False, False], False, False)
    assert shown("push", cut) == ([False, False], False, False)
    assert shown("push", f"{ended} 1") == ([False, True], False, False)
    assert shown("push", f"{ended} 0") == ([True, False], False, False)
    assert shown("errors", f"{ended} 0") == ([True, False], False, True)
    assert shown("reconcile", f"{ended} 0") == ([True, False], True, True)
    assert shown("rehearse", f"{ended} 0") == ([True, False], True, False)
    assert shown("reconcile", f"{ended} 1") == ([True, False], False, False)
    assert shown("reconcile", f"{ended} 0") == ([True, False], True, False)
    assert shown("push", f"{ended} 0") == ([True, False], False, False)


def test_the_last_correction_is_sent_last(anna: Browser) -> None:
    book = new_book(anna)
    for name in ("book.ndjson", *["umzug.failures.xlsx"] * 11):
        assert upload(anna, book, name, b"{}\n") == 303
    names = [f"corrected-{number}.failures.xlsx" for number in range(1, 12)]
    assert re.findall(r'name="files" value="([^"]+)"', anna.get(book).text) == names * 2


def test_errors_are_grouped_with_the_rows_of_the_first_accounts() -> None:
    table = "line,number,severity,code,path,sentence,value\n"
    rows = [
        f"{number},K{number},error,invalid_iban,customers.{number}.iban,The IBAN must be valid.,x"
        for number in range(5)
    ]
    rows += ["9,K9,warning,other,notes,Warned.,x", "7,K7,error,required,,Missing.,", "8,K8,error,requ"]

    kinds = _grouped(table + "\n".join(rows), "/rows/", "kunden.csv")

    assert [(kind.code, kind.path, kind.number) for kind in kinds] == [
        ("invalid_iban", "customers[].iban", 5),
        ("required", "", 1),
    ]
    assert kinds[0].examples[0] == ("K0", "0", "/rows/?file=kunden.csv&line=0")
    assert len(kinds[0].examples) == 3
    assert _grouped("", "", "") == list[FailureKind]()


@pytest.mark.promise("second-person")
@pytest.mark.parametrize("settings", [ConsoleSettings(four_eyes=frozenset({"push"}))], ids=["four eyes"])
def test_a_go_live_waits_for_another_person(anna: Browser, visit: Visit) -> None:
    book = new_book(anna)
    upload(anna, book, "book.ndjson", b"{}\n")
    send(anna, f"{book}steps/", {"kind": "push", "main": "book.ndjson"}, at=book)
    page = anna.get(book).text
    assert "A second person must approve this step. The book has 1 file, 3 B." in words_of(page)
    step = re.search(r"steps/(s_[0-9a-f]+)/reject/", page)
    assert step is not None
    assert "approve/" not in page, "nobody approves their own"
    approve = f"{book}steps/{step[1]}/approve/"
    assert anna.post(approve, data={"csrf": csrf_in(page)}).status_code == 400
    ben = visit("importer", suppliers=["NORDWIND"])
    assert send(ben, approve, at=book).status_code == 303
    assert "waits" in words_of(ben.get(book).text)


def approved(anna: Browser, visit: Visit, ledger: Ledger) -> str:
    """Propose a go-live, approve it as another user, and return this user's id."""
    book, second = new_book(anna), new_user(ledger, role="importer", suppliers=["NORDWIND"])
    upload(anna, book, "book.ndjson", b"{}\n")
    send(anna, f"{book}steps/", {"kind": "push", "main": "book.ndjson"}, at=book)
    step = re.search(r"steps/(s_[0-9a-f]+)/reject/", anna.get(book).text)
    assert step is not None
    send(visit(user_id=second), f"{book}steps/{step[1]}/approve/", at=book)
    return second


@pytest.mark.promise("second-person")
@pytest.mark.parametrize("settings", [ConsoleSettings(four_eyes=frozenset({"push"}))], ids=["four eyes"])
@pytest.mark.parametrize(
    ("command", "error"),
    [
        (None, "refused"),  # by importbook, since no api listens
        (DisableUser(), "not_approved"),
        (ChangeUserRole(role="auditor", suppliers=("NORDWIND",)), "not_approved"),
        (ChangeUserRole(role="importer", suppliers=("ELSE",)), "not_approved"),
    ],
)
def test_a_go_live_needs_an_approval_of_a_person_who_has_the_right_still(
    anna: Browser, visit: Visit, ledger: Ledger, database: PostgresUrls, admin: Admin, command: Command, error: str
) -> None:
    second = approved(anna, visit, ledger)
    if command is not None:
        with closing(owner_of(ledger)) as owner:
            owner.execute(stream_of(second), command, at=now(), by="operator:test")

    run_steps(database, needs_second=True)

    assert admin.execute("SELECT state, error FROM book_steps").fetchall() == [("failed", error)]


@pytest.mark.promise("second-person")
@pytest.mark.parametrize("settings", [ConsoleSettings(four_eyes=frozenset({"push"}))], ids=["four eyes"])
def test_a_go_live_is_not_approved_by_who_could_then_sign_in_as_its_author(
    anna: Browser, visit: Visit, ledger: Ledger, database: PostgresUrls, admin: Admin
) -> None:
    second = approved(anna, visit, ledger)
    [(first,)] = admin.execute("SELECT user_id FROM book_steps").fetchall()
    with closing(owner_of(ledger)) as owner:
        link = IssueSignInLink(expires_at=now() + timedelta(minutes=15))
        owner.execute(stream_of(first), link, at=now(), by=f"user:{second}")

    run_steps(database, needs_second=True)

    assert admin.execute("SELECT state, error FROM book_steps").fetchall() == [("failed", "not_approved")]


def test_erased_files_are_gone(anna: Browser, admin: Admin) -> None:
    book = new_book(anna)
    upload(anna, book, "kunden.csv", TABLE.encode())
    assert send(anna, f"{book}erase/", {"confirm": "other"}, at=book).status_code == 400
    assert send(anna, f"{book}erase/", {"confirm": "umzug"}, at=book).status_code == 303
    assert anna.get(book).status_code == 404
    assert "umzug" in anna.get(BOOKS).text
    assert admin.execute("SELECT count(*) FROM book_chunks").fetchone() == (0,)
