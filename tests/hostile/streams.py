"""Hostile NDJSON for the bulk resources, and hostile queries; each as the bytes of one connection.

A body of NDJSON may have any length, so its cost is limited for each line.
"""

import gzip
import json
from collections.abc import Callable, Iterator
from typing import Any

import zstandard

from tests.hostile.catalogue import FULL, MIB, Hostile, head, posted
from tests.support.make import an_account, encoded
from tests.support.post_account import PATHS, RECORDS

BULK = "/v2/data-import/accounts/bulk/"
VALIDATING = f"{BULK}?mode=validate"
RECORDS_IN_BULK = PATHS["delivery_note"].removesuffix("create/") + "bulk/"

Lines = Callable[[str], Iterator[bytes]]
"""The lines of a body for a supplier."""


def _sent(lines: Lines, path: str = VALIDATING) -> Callable[[str, str], Iterator[bytes]]:
    """The lines in chunks of about 64 KiB, as a client sends what has no known length."""

    def sent(supplier: str, token: str) -> Iterator[bytes]:
        yield head("POST", path, token, "Transfer-Encoding: chunked")
        yield from (b"%x\r\n%s\r\n" % (len(piece), piece) for piece in _pieces(lines(supplier)))
        yield b"0\r\n\r\n"

    return sent


def _pieces(lines: Iterator[bytes]) -> Iterator[bytes]:
    piece = bytearray()
    for line in lines:
        piece += line + b"\n"
        if len(piece) > 65_536:
            yield bytes(piece)
            piece.clear()
    if piece:
        yield bytes(piece)


def _compressed(coding: str, body: Callable[[], bytes]) -> Callable[[str, str], Iterator[bytes]]:
    return lambda supplier, token: posted(VALIDATING, body(), token, f"Content-Encoding: {coding}")


def _named(supplier: str, rest: str) -> bytes:
    return f'{{"import_supplier":"{supplier}","external_account_number":"H-1",{rest}}}'.encode()


def _names(count: int, lines: int, *, length: int = 8) -> Lines:
    """Lines of so many undocumented names each."""

    def sent(supplier: str) -> Iterator[bytes]:
        rest = ",".join(f'"{number:0{length}x}":1' for number in range(count))
        return iter([_named(supplier, rest)] * lines)

    return sent


def _ordinary(supplier: str) -> Iterator[bytes]:
    for number in range(400):
        yield encoded(an_account(supplier, number))


def _refused(supplier: str) -> Iterator[bytes]:
    account = an_account(supplier) | {"customers": [{"family_name": 1, "email": 1, "mobile": 1}] * 300}
    return iter([encoded(account)] * 500)


def _records(change: dict[str, Any], lines: int) -> Lines:
    def sent(supplier: str) -> Iterator[bytes]:
        named = {"import_supplier": supplier, "external_account_number": "NW-1"}
        line = json.dumps(named | {"delivery_note": RECORDS["delivery_note"] | change}).encode()
        return iter([line] * lines)

    return sent


_AMOUNT = {"period_start_at": "2024-01-01T00:00:00Z", "product_identifier": "x", "quantity": "1"}
_BOMB = 256 * MIB
_MANY_NAMES = {f"{number:08x}": 1 for number in range(1_200)}


def _manifest(manifest: Callable[[], bytes]) -> Callable[[str, str], Iterator[bytes]]:
    path = "/v2/data-import/runs/%s/hostile/certificate/"
    return lambda supplier, token: posted(path % supplier, manifest(), token)


def _sought(path: str, text: str) -> Callable[[str, str], Iterator[bytes]]:
    return lambda supplier, token: posted(path, encoded({"q": text}), token)


def _many(template: str, count: int) -> bytes:
    return ",".join(template % number for number in range(count)).encode()


_REFUSED = (400,)
_TAKEN = (200,)
BULK_BODIES: tuple[Hostile, ...] = (
    Hostile("lines of ordinary accounts", _sent(_ordinary), _TAKEN, lines=400),
    Hostile("lines of 10 MiB of unknown names", _sent(_names(600_000, 3)), _TAKEN, lines=3),
    Hostile(
        "lines of 10 MiB in one text", _sent(lambda s: iter([_named(s, f'"x":"{"y" * FULL}"')[:FULL]] * 3)), _TAKEN
    ),
    Hostile("lines of deep arrays", _sent(lambda s: iter([b"[" * MIB] * 20)), _TAKEN, lines=20),
    Hostile("400 lines of many unknown names", _sent(_names(1_200, 400)), _TAKEN, True, lines=400),
    Hostile("lines of long unknown names", _sent(_names(1_200, 300, length=60)), _TAKEN, lines=300),
    Hostile("lines of many shape errors", _sent(_refused), _TAKEN, lines=500),
    Hostile("5,000 lines that are no JSON", _sent(lambda s: iter([b"{"] * 5_000)), _TAKEN, True, lines=5_000),
    Hostile("1,000,000 blank lines", _sent(lambda s: iter([b""] * 1_000_000)), (400,), True),
    Hostile("a line that never ends", _sent(lambda s: iter([b"x" * 60_000_000])), _TAKEN, True),
    Hostile("a bomb in gzip", _compressed("gzip", lambda: gzip.compress(bytes(_BOMB), 1)), (413, 200), True, lines=4),
    Hostile("a bomb in zstd", _compressed("zstd", lambda: zstandard.compress(bytes(_BOMB))), (413, 200), True, lines=4),
    Hostile("gzip of nothing, many times", _compressed("gzip", lambda: gzip.compress(b"") * 400_000), _REFUSED),
    Hostile(
        "records of many unknown names", _sent(_records(_MANY_NAMES, 300), RECORDS_IN_BULK), _TAKEN, True, lines=300
    ),
    Hostile(
        "records of many amounts",
        _sent(_records({"amounts": [_AMOUNT] * 9_000}, 20), RECORDS_IN_BULK),
        _TAKEN,
        lines=20,
    ),
    Hostile("records that are no JSON", _sent(lambda s: iter([b"["] * 20_000), RECORDS_IN_BULK), _TAKEN, lines=20_000),
)

MANIFESTS: dict[str, tuple[Callable[[], bytes], tuple[int, ...], bool]] = {
    "of many paths": (lambda: b'{"undocumented":{' + _many('"%x":1', 90_000) + b"}}", (409, 413), True),
    "of many ledgers": (lambda: b'{"by_ledger":{' + _many('"%x":1', 190_000) + b"}}", (409, 413), True),
    "of 10 MiB": (lambda: b'{"undocumented":{' + _many('"%x":1234567890', 500_000) + b"}}", (413,), False),
    "of one long text": (lambda: b'{"accounts":"' + b"x" * 1_900_000 + b'"}', (409,), False),
    "of a long path": (lambda: b'{"undocumented":{"' + b"x." * 900_000 + b'":1}}', (409,), False),
    "of a huge number": (lambda: b'{"accounts":' + b"9" * 1_900_000 + b"}", (400, 409), False),
    "of empty arrays": (lambda: b'{"source":[' + b"[]," * 630_000 + b"[]]}", (409,), True),
    "of fractions": (lambda: b'{"source":[' + b"1.5," * 450_000 + b"1]}", (400, 409), False),
}
SEARCHED = "/v2/data-import/search/"
SOUGHT: dict[str, tuple[str, str, tuple[int, ...]]] = {
    "very much": (SEARCHED, "a " * 5_000, _REFUSED),
    "wildcards": (SEARCHED, "%_" * 127, _TAKEN),
    "one letter": (SEARCHED, "a", _TAKEN),
    "what is beyond an absurd place": (f"{SEARCHED}?after={'9' * 4_000}", "abc", _REFUSED),
}

QUESTIONS: tuple[Hostile, ...] = (
    *(
        Hostile(f"a manifest {name}", _manifest(body), statuses, is_quick)
        for name, (body, statuses, is_quick) in MANIFESTS.items()
    ),
    *(
        Hostile(f"a search for {name}", _sought(path, text), statuses, role="support")
        for name, (path, text, statuses) in SOUGHT.items()
    ),
)


def languages(supplier: str, token: str) -> Iterator[bytes]:
    """An Accept-Language and a Prefer of 15 KiB each."""
    fields = (f"Accept-Language: {'de;q=0.1,' * 1_700}", f"Prefer: {'return=representation;x=1,' * 600}")
    body = encoded(an_account(supplier))
    yield head("POST", "/v2/data-import/accounts/validate/", token, f"Content-Length: {len(body)}", *fields)
    yield body


STREAMS = (*BULK_BODIES, *QUESTIONS, Hostile("long preferences", languages, _TAKEN, True))
