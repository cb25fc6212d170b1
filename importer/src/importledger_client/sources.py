"""Lines of NDJSON from files, plain, gzip or Zstandard, or from standard input, in constant memory."""

import contextlib
import gzip
import io
import re
import sys
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec
import zstandard

from importledger_client.answers import FieldError
from importledger_client.display import counted, number
from importledger_client.language import _, translatable
from importledger_client.protocol import NOT_JSON, is_blank

LONGEST_LINE = 10 * 2**20
"""Most bytes of a line. Longer lines are refused, and not sent."""
STDIN = "-"

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_READ_BYTES = 2**14
"""Bytes of Zstandard that are decompressed at once.

The decompressed content, which may be hundreds of times larger, is in memory.
"""
_BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_CONTROL = re.compile(rb"[\0-\x08\x0e-\x1f]")
_WRITE_LINES = translatable("It must be NDJSON, one account a line. This writes it so: {command}")
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_encode = msgspec.json.Encoder().encode


class Unreadable(Exception):
    """A file that cannot be read as intended. The message names the file and the reason, in the user's language."""

    def __init__(self, text: str, /, **values: Any) -> None:
        super().__init__(_(text, **values))


class Differs(Unreadable):
    """Two counts of a source differ, or a mapping is incomplete. No certificate is possible, and the exit code is 1."""


class Line(msgspec.Struct):
    """A line that is not empty: its number, from 1, and its account as JSON, or the errors that prevent sending it."""

    number: int
    content: bytes
    errors: tuple[FieldError, ...] = ()
    external: str | None = None
    supplier: str = ""
    """Supplier that the account names, once it is known."""


def file_at(name: str) -> Path:
    """Return the path of a file that exists. Raises Unreadable."""
    path = Path(name)
    if path.is_dir():
        raise Unreadable("{file} must be a file. It is a folder.", file=name)
    if not path.is_file():
        raise Unreadable("There is no file {file}.", file=name)
    return path


class Source:
    """File of lines. `size` is its stored size in bytes, None for standard input; `read` are the bytes read so far."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.files = [name]
        self.size: int | None = None
        self.mapping = ""
        """Path of the mapping, "" for NDJSON."""
        self.empty_lines = 0
        self.replaced: Collection[str] = ()
        """External account numbers of accounts that come from another source instead."""
        self.show: Callable[[str, float | None], object] = lambda text, share: None
        """Function that shows progress before the first line: a text, and the completed share or None."""
        self.stored: BinaryIO | None = None
        if name != STDIN:
            self.size = file_at(name).stat().st_size

    @property
    def read(self) -> int:
        if self.stored is None or self.size is None:
            return 0
        return self.size if self.stored.closed else self.stored.tell()

    def lines(self) -> Iterator[Line]:
        """Return every line that is not empty, except replaced accounts.

        Raises Unreadable, and Differs if a second count differs.
        """
        lines = self._all_lines()
        if not self.replaced:
            return lines
        return (line for line in lines if number_of(line.content) not in self.replaced)

    def _all_lines(self) -> Iterator[Line]:
        read = -self.empty_lines
        with damage_named(self.name), opened(self.name, self) as stream:
            again = _Counted(stream)
            for line in self._numbered(io.BufferedReader(again, 2**17)):
                read += 1
                yield line
            while again.read(2**17):  # also count the bytes after a reader that has ended too early
                pass
        read += self.empty_lines
        if read != again.lines:
            lines, lines_again = counted(read, "line was", "lines were"), number(again.lines)
            sentence = _("{counts} read, and {again} counted. Nothing is certified.", counts=lines, again=lines_again)
            raise Differs(f"{self.name}: {sentence}")

    def _numbered(self, stream: BinaryIO) -> Iterator[Line]:
        line, is_first = 0, True
        while raw := stream.readline(LONGEST_LINE + 2):
            line += 1
            # a later line of joined files may also begin with a byte order mark
            content = raw.strip().removeprefix(_BOM)
            if is_first and not is_blank(content):
                is_first = False
                if sentence := _no_lines(content):
                    raise Unreadable(f"{self.name} {sentence}")
            if len(raw) > LONGEST_LINE + 1 and not raw.endswith(b"\n"):
                while (remaining := stream.readline(2**16)) and not remaining.endswith(b"\n"):
                    pass
                yield Line(line, b"", (FieldError("", "request_too_large", _("A line must have 10 MiB at most.")),))
            elif is_blank(content):
                self.empty_lines += 1
            else:
                yield Line(line, content)

    def written(self) -> Iterator[str]:
        """Yield sentences on how the source was read and what it contains, after all lines."""
        return iter(())

    def open_points(self) -> list[str]:
        """Return sentences on parts of the source that are in no line and not ignored.

        Call this after the last line.
        """
        return []


class _Counted(io.RawIOBase):
    """Stream for the reader of lines that also counts the lines, by their line feeds."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = cast(io.BufferedReader, stream)
        self._feeds = 0
        self._last = b"\n"

    @property
    def lines(self) -> int:
        """Number of lines. Valid after the whole file was read."""
        return self._feeds + (self._last != b"\n")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        part = self._stream.read1(len(buffer))
        self._feeds += part.count(b"\n")
        self._last = part[-1:] or self._last
        buffer[: len(part)] = part
        return len(part)


def _no_lines(first: bytes) -> str:
    """Return a sentence for a file that is not NDJSON, or "". The first line that is not empty decides."""
    if first.startswith(_UTF16) or _is_ascii_in_utf16(first[:64]):
        command = f"iconv -f UTF-16 -t UTF-8 {_('FILE')} > book.ndjson"
        return _("is UTF-16: it must be UTF-8. This writes it so: {command}", command=command)
    if first.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0", b"PAR1", b"%PDF")) or _CONTROL.search(first[:512]):
        return _("is a binary file, not NDJSON: a workbook must end with .xlsx, a Parquet file with .parquet.")
    if first.startswith(b"<"):
        return _("is an HTML or XML page, not NDJSON.")
    if first.startswith(b"["):
        return _("is one JSON array.") + " " + _(_WRITE_LINES, command=_jq("'.[]'"))
    if first.startswith(b"{") and first.endswith((b"{", b"[", b",", b":")):
        return _("has an account on several lines.") + " " + _(_WRITE_LINES, command=_jq("."))
    return ""


def _jq(program: str) -> str:
    return f"jq -c {program} {_('FILE')} > book.ndjson"


def _is_ascii_in_utf16(start: bytes) -> bool:
    """Return True for text whose every other byte is null, as in UTF-16 without a byte order mark."""
    halves = start[::2], start[1::2]
    return any(nulls and not any(nulls) and any(text) and b"\0" not in text for nulls, text in (halves, halves[::-1]))


@contextlib.contextmanager
def damage_named(name: str) -> Iterator[None]:
    """Raise Unreadable if the block finds that the compressed file is damaged."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError) as error:
        raise Unreadable("{file} is damaged or cut off: {error}.", file=name, error=error) from None


@contextlib.contextmanager
def opened(name: str, source: Source | None = None) -> Iterator[BinaryIO]:
    """Yield a stream of a file's content, decompressed if needed. `source.stored` is set to the stored file."""
    with contextlib.ExitStack() as stack:
        is_stdin = name == STDIN
        stored = cast(io.BufferedReader, sys.stdin.buffer if is_stdin else stack.enter_context(Path(name).open("rb")))
        if source is not None and not is_stdin:
            source.stored = stored
        start = stored.peek(4)[:4]
        if start.startswith(_GZIP):
            yield cast(BinaryIO, stack.enter_context(gzip.open(stored, "rb")))
        elif start.startswith(_ZSTD):
            yield stack.enter_context(io.BufferedReader(_Frames(stored), 2**17))
        else:
            yield stored


class _Frames(io.RawIOBase):
    """Zstandard frames, one after the other. Raises EOFError for a frame that is cut off."""

    def __init__(self, stored: io.BufferedReader) -> None:
        self._stored = stored
        self._context = zstandard.ZstdDecompressor(max_window_size=2**27)
        self._frame = self._context.decompressobj()
        self._is_begun = False
        self._given = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._given:
            remaining = b""
            if self._frame.eof:
                remaining, self._frame, self._is_begun = self._frame.unused_data, self._context.decompressobj(), False
            stored = remaining or self._stored.read(_READ_BYTES)
            if not stored:
                if self._is_begun:
                    raise EOFError("the last frame is incomplete")
                return 0
            self._is_begun = True
            self._given = memoryview(self._frame.decompress(stored))
        size = min(len(buffer), len(self._given))
        buffer[:size], self._given = self._given[:size], self._given[size:]
        return size


def account_in(content: bytes) -> bytes:
    """Return the account of a line.

    In a line of a file of failures, the account is the payload, a text if it was not JSON.
    """
    if b'"payload"' not in content or b'"errors"' not in content:
        return content
    try:
        fields = _fields.decode(content)
    except NOT_JSON:
        return content
    if not fields.keys() >= {"line", "payload", "errors"}:
        return content
    payload = bytes(fields["payload"])
    if payload.startswith(b'"'):
        return cast(str, msgspec.json.decode(payload)).replace("\n", " ").encode()
    return payload


def for_supplier(content: bytes, supplier: str) -> bytes:
    """Return the account with another supplier; all other values keep their bytes.

    A text that is not an account is returned unchanged.
    """
    try:
        fields = _fields.decode(content)
        wrapped = _fields.decode(fields["payload"]) if "payload" in fields else None
    except NOT_JSON:
        return content
    expected = _encode(supplier)
    account = fields if wrapped is None else wrapped
    if bytes(account.get("import_supplier", b"")) == expected:
        return content
    account["import_supplier"] = msgspec.Raw(expected)
    if wrapped is not None:
        fields["payload"] = msgspec.Raw(_encode(wrapped))
    return _encode(fields)


def number_of(content: bytes) -> str | None:
    """Return the external account number of a line's account, or None."""
    return _text_in(_fields_in(account_in(content)), "external_account_number")


def identity_of(content: bytes) -> tuple[str | None, bytes]:
    """Return an account's supplier, or None, and the JSON of its number, or b""."""
    fields = _fields_in(content)
    return _text_in(fields, "import_supplier"), bytes(fields.get("external_account_number", b""))


def _text_in(fields: Mapping[str, msgspec.Raw], name: str) -> str | None:
    """Return a text of an account, or None if the account does not have the text."""
    try:
        return msgspec.json.decode(fields[name], type=str) or None
    except (KeyError, *NOT_JSON):
        return None


def _fields_in(content: bytes) -> dict[str, msgspec.Raw]:
    """Return the fields of an account, {} for a text that is not an account."""
    try:
        fields = _fields.decode(content)
        return _fields.decode(fields["payload"]) if "payload" in fields else fields
    except NOT_JSON:
        return {}
