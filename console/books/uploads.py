"""Uploads to a book: files of a form as they arrive, and pieces that a script sends and can send again."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Any

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect, Request

from api.http.status_codes import ApiError
from console.access.visit import STALE, Visit
from console.books.commands import BookRefused
from console.books.writing import Books, name_of_upload
from console.presentation.forms import Form
from projections.auxiliary.books import CHUNK_BYTES, MAX_FILE_BYTES, Reach, files_of
from schemas.sentence import Sentence

SILENCE_S = 60.0
"""Longest time in which no byte of a form arrives [seconds]."""
_MAX_FIELDS_BYTES = 10_000
"""Bytes of all fields of a form with their names, without the files."""
_UNREADABLE = Sentence("The form cannot be read.", "Das Formular ist nicht lesbar.")
_CUT = Sentence(
    "The upload ended early. Upload the file again.", "Das Hochladen brach ab. Laden Sie die Datei erneut hoch."
)


def reach_of(visit: Visit) -> Reach:
    """Return the books that the user of a visit may see."""
    person = visit.person
    return Reach(organisation=person.organisation, suppliers=person.listed_reach, user_id=person.user_id)


class _Parts:
    """Events of the parser, in their order: ("begin", name, file), ("data", bytes), ("end",)."""

    def __init__(self, boundary: bytes) -> None:
        self.events: deque[tuple[Any, ...]] = deque()
        self._field, self._value, self._headers = b"", b"", dict[bytes, bytes]()
        names = ("part_begin", "header_field", "header_value", "header_end", "headers_finished", "part_data")
        callbacks: Any = {f"on_{name}": getattr(self, f"_{name}") for name in names}
        self.parser = MultipartParser(boundary, callbacks | {"on_part_end": lambda: self.events.append(("end",))})

    def _part_begin(self) -> None:
        self._headers = {}

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._field += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_end(self) -> None:
        self._headers[self._field.lower()] = self._value
        self._field = self._value = b""

    def _headers_finished(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        name, file = options.get(b"name", b""), options.get(b"filename")
        self.events.append(("begin", name.decode(), None if file is None else file.decode()))

    def _part_data(self, data: bytes, start: int, end: int) -> None:
        self.events.append(("data", data[start:end]))


async def store_files(visit: Visit, books: Books, book: str) -> list[str]:
    """Store the files of a form while they arrive, and return their names.

    The form's token must come before the first file. Raises ApiError 400 or 403, BookRefused, BooksFull.
    """
    _, options = parse_options_header(visit.request.headers.get("content-type", ""))
    size = visit.request.headers.get("content-length", "")
    if not options.get(b"boundary") or not (size.isascii() and size.isdigit()):
        raise ApiError(400, _UNREADABLE)
    arriving = _Arriving(visit, books, book, min(int(size), MAX_FILE_BYTES))
    try:
        async for event in _events(visit.request, options[b"boundary"]):
            match event:
                case ("begin", name, file):
                    await arriving.begin(name, file)
                case ("data", data):
                    await arriving.add(data)
                case _:
                    await arriving.end()
    except (FormParserError, UnicodeDecodeError):
        raise ApiError(400, _UNREADABLE) from None
    except (ClientDisconnect, TimeoutError):
        raise ApiError(400, _CUT) from None
    if arriving.is_within:
        raise ApiError(400, _CUT)
    arriving.require_token()
    return arriving.names


class _Arriving:
    """A form that arrives: its fields, and its files, which are stored at once."""

    def __init__(self, visit: Visit, books: Books, book: str, most: int) -> None:
        self.names: list[str] = []
        self.is_within = False
        """True within a part of the form."""
        self._visit, self._books, self._book, self._most = visit, books, book, most
        self._fields: dict[str, list[str]] = {}
        self._field, self._text, self._fields_bytes = "", b"", 0
        self._upload: _Upload | None = None

    def require_token(self) -> None:
        """Raise ApiError 403 unless the fields so far have the token of a page of this session."""
        self._visit.form = Form(self._fields)
        if not self._visit.is_own_form():
            raise self._visit.refusal(403, STALE)

    async def begin(self, name: str, file: str | None) -> None:
        self.is_within, self._field, self._text, self._upload = True, name, b"", None
        if file is None:
            self._count(1 + len(name))
            return
        self.require_token()
        if plain := file.replace("\\", "/").rpartition("/")[2]:
            self._upload = _Upload(self._visit, self._books, self._book, plain)
            await self._upload.begin(self._most)

    async def add(self, data: bytes) -> None:
        if self._upload is not None:
            await self._upload.add(data)
            return
        self._count(len(data))
        self._text += data

    def _count(self, more: int) -> None:
        self._fields_bytes += more
        if self._fields_bytes > _MAX_FIELDS_BYTES:
            raise ApiError(400, _UNREADABLE)

    async def end(self) -> None:
        self.is_within = False
        if self._upload is not None:
            self.names.append(await self._upload.finish())
        else:
            self._fields.setdefault(self._field, []).append(self._text.decode())


async def store_piece(visit: Visit, books: Books, book: str, name: str, body: bytes) -> int:
    """Store a piece of a file at an offset, and return the offset of the next one. An empty piece begins an upload.

    Raises BookRefused, WrongOffset, BooksFull.
    """
    try:
        size, offset = int(visit.query("size")), int(visit.query("offset", "0"))
    except ValueError:
        raise BookRefused("The size must be a number.", "Die Größe muss eine Zahl sein.") from None
    reach = reach_of(visit)
    version = visit.query("version")[:100]
    received = await visit.written(books.begin, reach, book, name, size, version=version, offset=offset)
    if body:
        received = await visit.written(books.add, reach, book, name, offset, body)
    if received == size:
        known = [file.name for file in await visit.read(files_of, book) if file.is_whole]
        await visit.written(books.finish, reach, book, name, as_name=name_of_upload(name, known))
    return received


class _Upload:
    """A file that arrives: full chunks are stored, the rest waits for more."""

    def __init__(self, visit: Visit, books: Books, book: str, name: str) -> None:
        self._visit, self._books, self._book, self.name = visit, books, book, name
        self._offset, self._waiting = 0, bytearray()

    async def begin(self, most: int) -> None:
        """Begin at the first byte, instead of an unfinished upload of this name. The file has at most `most` bytes."""
        await self._visit.written(self._books.begin, reach_of(self._visit), self._book, self.name, most, is_new=True)

    async def add(self, data: bytes) -> None:
        self._waiting += data
        if full := len(self._waiting) // CHUNK_BYTES * CHUNK_BYTES:
            await self._store(bytes(self._waiting[:full]), is_last=False)
            del self._waiting[:full]

    async def finish(self) -> str:
        """Store the rest, and return the name of the file."""
        if self._waiting:
            await self._store(bytes(self._waiting), is_last=True)
        known = [file.name for file in await self._visit.read(files_of, self._book) if file.is_whole]
        name = name_of_upload(self.name, known)
        reach = reach_of(self._visit)
        await self._visit.written(self._books.finish, reach, self._book, self.name, is_stream=True, as_name=name)
        return name

    async def _store(self, piece: bytes, *, is_last: bool) -> None:
        await self._visit.confirm()
        named = (reach_of(self._visit), self._book, self.name, self._offset, piece)
        self._offset = await self._visit.written(self._books.add, *named, is_last=is_last)


async def _events(request: Request, boundary: bytes) -> AsyncIterator[tuple[Any, ...]]:
    """Yield the events of a form while it arrives."""
    parts = _Parts(boundary)
    arriving = aiter(request.stream())
    while True:
        try:
            data = await asyncio.wait_for(anext(arriving), SILENCE_S)
        except StopAsyncIteration:
            break
        parts.parser.write(data)
        while parts.events:
            yield parts.events.popleft()
    parts.parser.finalize()
    while parts.events:
        yield parts.events.popleft()
