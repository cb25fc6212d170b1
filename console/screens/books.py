"""The importer's own pages: a book's files, mapping, rehearsal, corrections, go-live and certificate."""

import asyncio
import csv
import io
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any, TypeGuard, cast
from urllib.parse import quote, urlencode

import msgspec
from psycopg import AsyncConnection
from starlette.responses import JSONResponse, Response

from api.description.catalogue import CATALOGUE
from api.description.problem_sentences import sentence_at
from api.http.errors import not_found
from api.http.lists import ListFormat
from api.http.responses import CALLERS, read_body
from console.access.visit import ROOT, Visit, action, page, upload
from console.books.commands import (
    MAPPING,
    PRESETS,
    STEP_ERRORS,
    VALUES,
    certificate_of,
    has_accounts,
    is_table,
    is_workbook,
    rehearsal_of,
)
from console.books.uploads import reach_of, store_files, store_piece
from console.books.writing import Books, WrongOffset, in_order_of_upload
from console.presentation.refill import SEEN
from console.presentation.rendering import segment
from console.presentation.texts import N_
from console.screens.paging import TextKey, page_of
from projections.auxiliary.books import (
    LIVE,
    Book,
    BookFile,
    Step,
    StepKind,
    book_of,
    books_page,
    file_of,
    files_of,
    output_of,
    read_chunk,
    read_text,
    steps_of,
)
from projections.auxiliary.step_tokens import ROLES
from projections.queries.supplier_overview import supplier_codes
from schemas.sentence import Sentence

IMPORTERS = frozenset(ROLES)
"""Roles that may prepare books."""
AT_ONCE = 50
ERASE_TIMEOUT_S = 60.0
"""Longest wait of a page for the erasure of a book [seconds]. The erasure continues if it takes longer."""
MAX_SHOWN_OUTPUT = 20_000
"""Characters of a step's output on the page of the book; the page of the step has all."""
MAX_FAILURES_BYTES = 2_000_000
"""Bytes of the table of failures that the page of the book reads."""
MAX_KINDS, MAX_EXAMPLES = 50, 3
"""Kinds of errors on the page, and accounts of each."""
MAX_SEARCHED_BYTES = 200_000_000
"""Size of a file in which the page looks for a row."""
MAX_LINE_BYTES = 10_000
"""Bytes of a line that the page shows."""
_BYTES: ListFormat[bytes] = ListFormat(media_type="application/octet-stream", encode=b"".join)
_NEARBY = 2
"""Lines before and after a row."""
_OUTDATED = N_(
    "The file was changed or deleted after you opened this page. Compare your text with the file in another window. "
    "If you save again, your text replaces the file."
)
_CODES = frozenset(entry.code for entry in CATALOGUE)
_STEPS: tuple[StepKind, ...] = ("init", "check", "values", "rehearse", "errors", "push", "reconcile")


class FailureKind(msgspec.Struct):
    """An error of several accounts: code, field, sentence, number, and the first accounts with the rows of each."""

    code: str
    path: str
    sentence: str
    number: int = 0
    examples: list[tuple[str, str, str]] = []
    """External account number, row, and address of the row ("" if the page cannot show it)."""

    @property
    def shown(self) -> Sentence | str:
        """Sentence of the catalogue, in both languages; for a code that only importbook has, the sentence itself."""
        return sentence_at(self.code, self.path) if self.code in _CODES else self.sentence


@page("/books/", roles=IMPORTERS, nav=N_("Books"))
async def book_list(visit: Visit) -> Response:
    """List the organisation's books, the newest first."""
    query = partial(books_page, reach=reach_of(visit))
    found, more = await page_of(visit, "before", query, tuple[datetime, TextKey], AT_ONCE)
    codes = await visit.read(supplier_codes, visit.person.listed_reach)
    return visit.render("books.html", books=found, more=more, codes=codes)


@action("/books/", roles=IMPORTERS)
async def create_book(visit: Visit) -> Response:
    """Create a book."""
    supplier = visit.form.text("supplier")
    if not visit.person.may_touch(supplier) or await visit.services.directory.supplier(supplier) is None:
        raise not_found()
    run = visit.form.text("run")
    book = await visit.written(_books(visit).create, reach_of(visit), supplier, run)
    return visit.redirect(_address(book))


@page("/books/{book}/", roles=IMPORTERS)
async def book_page(visit: Visit) -> Response:
    """Show a book: its files, and for each step the command, its progress and its result."""
    book, files = await _book(visit)
    steps = await visit.read(steps_of, book.book)
    latest = {kind: _newest(steps, kind) for kind in _STEPS}
    outputs = {
        kind: (await visit.read(output_of, book.book, step.step))[-MAX_SHOWN_OUTPUT:]
        for kind, step in latest.items()
        if step is not None and step.started_at is not None
    }
    whole = [file for file in files if file.is_whole]
    names = {file.name for file in whole}
    sources = [file.name for file in whole if has_accounts(file.name) and not file.step]
    chosen = next((step.arguments["files"].splitlines() for step in steps if "files" in step.arguments), [])
    main = next((name for name in chosen if name in sources), next(iter(sources), ""))
    sent = _newest(steps, "rehearse", "push")
    run = book.run if sent is not None and sent.kind == "push" else rehearsal_of(book.run)
    is_listed = _has_ended(_newest(steps, "rehearse", "push", "errors"), "errors")
    compared = _newest(steps, "push", "reconcile")
    is_certified = _has_ended(compared, "reconcile") and compared.exit_code == 0
    active = next((step for step in steps if step.state in LIVE), None)
    response = visit.render(
        "book.html",
        book=book,
        address=_address(book.book),
        files=[(file, _has_text(file), not file.step or file.name == MAPPING) for file in files],
        sources=sources,
        main=main,
        is_chosen=bool(chosen),
        tables=[name for name in sources if is_table(name)],
        needs_mapping=bool(main) and is_table(main),
        has_mapping=MAPPING in names,
        has_values=VALUES in names,
        mapping=MAPPING,
        values=VALUES,
        corrections=in_order_of_upload(file.name for file in whole if is_workbook(file.name) and not file.step),
        workbook=f"{run}.failures.xlsx" if is_listed and f"{run}.failures.xlsx" in names else "",
        sent=sent,
        failed_run=run,
        failures=await _failures(visit, book, run, sent) if f"{run}.failures.csv" in names else [],
        certificate=certificate_of(book.run) if is_certified and certificate_of(book.run) in names else "",
        rehearsal=rehearsal_of(book.run),
        presets=PRESETS,
        latest=latest,
        outputs=outputs,
        steps=steps,
        active=active,
        step_errors=STEP_ERRORS,
        needs_second="push" in visit.console.settings.four_eyes,
        user_id=visit.person.user_id,
    )
    return visit.live(response, "live", is_live=active is not None)


@upload("/books/{book}/files/", "POST", roles=IMPORTERS)
async def upload_files(visit: Visit) -> Response:
    """Store the files of a form, of up to 2 GB each. Works without script."""
    book, _ = await _book(visit)
    names = await store_files(visit, _books(visit), book.book)
    if not names:
        raise visit.invalid("file", N_("Choose at least one file."), "required")
    return visit.redirect(_address(book.book), notice=visit._("The files were uploaded."))


@upload("/books/{book}/files/{name}/", "PUT", roles=IMPORTERS)
async def upload_piece(visit: Visit) -> Response:
    """Store a piece of a file. Answers with the offset of the next piece, also after an interruption."""
    book, _ = await _book(visit)
    body = await read_body(visit.request, CALLERS, address=visit.transport.address)
    try:
        received = await store_piece(visit, _books(visit), book.book, visit.path("name"), body)
    except WrongOffset as wrong:
        return JSONResponse({"received": wrong.received}, 409)
    return JSONResponse({"received": received})


@page("/books/{book}/files/{name}/", roles=IMPORTERS)
async def download(visit: Visit) -> Response:
    """Send a file of the book."""
    book, _ = await _book(visit)
    name = visit.path("name")
    file = None if name.startswith(".") else await visit.read(file_of, book.book, name)
    if file is None:
        raise not_found()
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}
    return await visit.services.lists.answer(visit, partial(_chunk, file=file), 0, _BYTES, headers)


async def _chunk(connection: AsyncConnection[Any], number: int, file: BookFile) -> tuple[Sequence[bytes], int | None]:
    """Return a chunk of a file as a page of a list. Raises ApiError 404 if the file was replaced meanwhile."""
    if number >= file.chunks:
        return [], None
    if (chunk := await read_chunk(connection, file, number)) is None:
        raise not_found()
    return [chunk], number + 1


@action("/books/{book}/files/{name}/delete/", roles=IMPORTERS)
async def delete_file(visit: Visit) -> Response:
    """Delete a file of the book."""
    book, _ = await _book(visit)
    await visit.written(_books(visit).delete_file, reach_of(visit), book.book, visit.path("name"))
    return visit.redirect(_address(book.book), notice=visit._("The file was deleted."))


@page("/books/{book}/edit/", roles=IMPORTERS)
async def edit_text(visit: Visit) -> Response:
    """Show a mapping, a list of values or another text of the book, to edit it."""
    book, files = await _book(visit)
    name = visit.query("name") or MAPPING
    file = next((file for file in files if file.is_whole and file.name == name), None)
    if (file is None and name != MAPPING) or (file is not None and not _has_text(file)):
        raise not_found()
    text = await visit.read(read_text, book.book, name) if file is not None else ""
    if text is None or "\ufffd" in text:
        raise visit.refusal(400, N_("The file must be a text in UTF-8. Download it to edit it."))
    return visit.render(
        "book_text.html",
        book=book,
        address=_address(book.book),
        name=name,
        text=text,
        seen=file.digest if file is not None else "",
    )


@action("/books/{book}/edit/", roles=IMPORTERS)
async def save_text(visit: Visit) -> Response:
    """Save an edited text, unless its file has changed since the page was opened."""
    book, files = await _book(visit)
    name, text = visit.form.text("name"), visit.form.secret("text").replace("\r\n", "\n")
    file = next((file for file in files if file.is_whole and file.name == name), None)
    if visit.is_outdated(file.digest if file is not None else ""):
        stored = await visit.read(read_text, book.book, name) if file is not None and file.is_text else None
        if stored != text:
            raise visit.invalid(SEEN, _OUTDATED)
    await visit.written(_books(visit).write_text, reach_of(visit), book.book, name, text)
    return visit.redirect(_address(book.book), notice=visit._("The text was saved."))


@page("/books/{book}/rows/", roles=IMPORTERS)
async def source_rows(visit: Visit) -> Response:
    """Show a line of an uploaded file, with the header and the lines beside it."""
    book, files = await _book(visit)
    name, number = visit.query("file"), visit.query("line")
    file = next((file for file in files if file.is_whole and file.name == name), None)
    if file is None or not _has_lines(file) or not (number.isascii() and number.isdigit() and len(number) < 10):
        raise not_found()
    wanted = {1, *range(int(number) - _NEARBY, int(number) + _NEARBY + 1)}
    lines = await _lines(visit, file, wanted)
    return visit.render(
        "book_rows.html", book=book, address=_address(book.book), name=name, line=int(number), lines=lines
    )


@action("/books/{book}/steps/", roles=IMPORTERS)
async def start_step(visit: Visit) -> Response:
    """Start a step: a command of importbook on the files of the book."""
    book, _ = await _book(visit)
    kind = cast(StepKind, visit.form.text("kind"))  # `start` refuses other texts
    files = list(dict.fromkeys([*visit.form.all("main"), *visit.form.all("files")]))
    arguments = {"files": "\n".join(files), "language": visit.language}
    arguments |= {name: visit.form.text(name) for name in ("preset", "run")}
    step = await visit.written(_books(visit).start, reach_of(visit), book.book, kind, arguments)
    return visit.redirect(f"{_address(book.book)}#{kind}" if step else _address(book.book))


@page("/books/{book}/steps/{step}/", roles=IMPORTERS)
async def step_page(visit: Visit) -> Response:
    """Show a step with its whole output."""
    book, _ = await _book(visit)
    step = await _step(visit, book)
    output = await visit.read(output_of, book.book, step.step)
    response = visit.render(
        "book_step.html",
        book=book,
        address=_address(book.book),
        step=step,
        output=output,
        is_live=step.state in LIVE,
        step_errors=STEP_ERRORS,
    )
    return visit.live(response, "live", is_live=step.state in LIVE)


@action("/books/{book}/steps/{step}/{change}/", roles=IMPORTERS)
async def change_step(visit: Visit) -> Response:
    """Pause or resume a step, or decide about a proposed one."""
    book, _ = await _book(visit)
    step, books = await _step(visit, book), _books(visit)
    changes = {"pause": books.pause, "resume": books.resume, "approve": books.approve, "reject": books.reject}
    if visit.path("change") not in changes:
        raise not_found()
    await visit.written(changes[visit.path("change")], reach_of(visit), book.book, step.step)
    return visit.redirect(f"{_address(book.book)}#{step.kind}")


@action("/books/{book}/erase/", roles=IMPORTERS)
async def erase(visit: Visit) -> Response:
    """Delete all files of the book with its key. Imported accounts stay."""
    book, _ = await _book(visit)
    visit.require_confirmation(book.run)
    await visit.written_within(ERASE_TIMEOUT_S, _books(visit).erase, reach_of(visit), book.book)
    return visit.redirect(f"{ROOT}/books/", notice=visit._("The files of the book were erased."))


def _books(visit: Visit) -> Books:
    return Books(visit.services.ledger, visit.services.authority, four_eyes=visit.console.settings.four_eyes)


def _address(book: str) -> str:
    return f"{ROOT}/books/{segment(book)}/"


async def _book(visit: Visit) -> tuple[Book, list[BookFile]]:
    """Return the book in the address and its files. Raises ApiError 404 unless the user may see the book."""
    book = await visit.read(book_of, reach_of(visit), visit.path("book"))
    if book is None or book.erased_at is not None:
        raise not_found()
    return book, await visit.read(files_of, book.book)


async def _step(visit: Visit, book: Book) -> Step:
    found = [step for step in await visit.read(steps_of, book.book) if step.step == visit.path("step")]
    if not found:
        raise not_found()
    return found[0]


def _newest(steps: Sequence[Step], *kinds: StepKind) -> Step | None:
    return next((step for step in steps if step.kind in kinds), None)


def _has_ended(step: Step | None, kind: StepKind) -> TypeGuard[Step]:
    return step is not None and step.kind == kind and step.state == "ended"


def _has_text(file: BookFile) -> bool:
    return file.is_whole and file.is_text


def _has_lines(file: BookFile) -> bool:
    """Return True for a file whose lines the page can show."""
    is_text = file.name.lower().endswith((".csv", ".tsv", ".txt", ".ndjson", ".jsonl"))
    return is_text and file.size <= MAX_SEARCHED_BYTES


async def _chunks(visit: Visit, file: BookFile) -> AsyncIterator[bytes]:
    for number in range(file.chunks):
        if (chunk := await visit.read(read_chunk, file, number)) is None:
            raise not_found()
        yield chunk


async def _lines(visit: Visit, file: BookFile, wanted: set[int]) -> list[tuple[int, str]]:
    """Return the beginnings of these lines of a file, with their numbers from 1."""
    found, number, rest = dict[int, bytes](), 1, b""
    async for chunk in _chunks(visit, file):
        ends = chunk.count(b"\n")
        if any(number <= line <= number + ends for line in wanted):
            *ended, rest = (rest + chunk).split(b"\n")
            lines = enumerate(ended, number)
            found |= {place: line[:MAX_LINE_BYTES] for place, line in lines if place in wanted}
            rest = rest[:MAX_LINE_BYTES]  # a file may be a single line
        number += ends
        if number > max(wanted):
            break
    if number in wanted and rest:
        found[number] = rest
    return [(at, _decoded(line)) for at, line in sorted(found.items())]


def _decoded(line: bytes) -> str:
    try:
        return line.decode("utf-8-sig").rstrip("\r")
    except UnicodeDecodeError:
        return line.decode("cp1252", errors="replace").rstrip("\r")


async def _failures(visit: Visit, book: Book, run: str, step: Step | None) -> list[FailureKind]:
    """Return the errors of the last push of a run by code and field, the most frequent first."""
    text = await visit.read(read_text, book.book, f"{run}.failures.csv", MAX_FAILURES_BYTES) or ""
    files = step.arguments.get("files", "").splitlines() if step is not None else []
    file = await visit.read(file_of, book.book, files[0]) if len(files) == 1 else None
    rows = f"{_address(book.book)}rows/" if file is not None and _has_lines(file) else ""
    return await asyncio.to_thread(_grouped, text, rows, files[0] if files else "")


def _grouped(text: str, rows: str, file: str) -> list[FailureKind]:
    kinds: dict[tuple[str, str], FailureKind] = {}
    for row in _errors_in(text):
        path = ".".join("[]" if part.isdigit() else part for part in row["path"].split(".")).replace(".[]", "[]")
        kind = kinds.setdefault((row["code"], path), FailureKind(row["code"], path, row["sentence"]))
        kind.number += 1
        if len(kind.examples) < MAX_EXAMPLES:
            address = f"{rows}?{urlencode({'file': file, 'line': row['line']})}" if rows else ""
            kind.examples.append((row["number"], row["line"], address))
    return sorted(kinds.values(), key=lambda kind: (-kind.number, kind.code, kind.path))[:MAX_KINDS]


def _errors_in(text: str) -> Iterator[dict[str, str]]:
    """Yield the errors of a table of failures, which may end within a row."""
    complete = text if text.endswith("\n") else text.rpartition("\n")[0]
    for row in csv.DictReader(io.StringIO(complete)):
        if row.get("severity") == "error" and all(isinstance(value, str) for value in row.values()):
            yield row
