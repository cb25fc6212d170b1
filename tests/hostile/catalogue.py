"""Hostile requests, each as the bytes of one connection. Bodies have at most 10 MiB, the limit of the service."""

import itertools
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from tests.support.make import an_account

MIB = 1024 * 1024
FULL = 10 * MIB - 1_000
ACCOUNTS = "/v2/data-import/accounts/"
VALIDATE = ACCOUNTS + "validate/"
GRAPHQL = "/v1/graphql/"


class Hostile(msgspec.Struct, frozen=True):
    """A request: `sent` gives its bytes for a supplier and a token; "" as token for those that need none."""

    name: str
    sent: Callable[[str, str], Iterator[bytes]]
    statuses: tuple[int, ...]
    """Expected statuses; () if the connection may just end."""
    is_quick: bool = False
    """Belongs to the smaller selection that `make test` tries."""
    lines: int = 1
    """Lines of NDJSON: what one request may cost, each of them may."""
    role: str = "importer"


def head(method: str, path: str, token: str = "", *fields: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: x", "Content-Type: application/json", *fields]
    if token:
        lines.append(f"Authorization: Token {token}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def posted(path: str, body: bytes, token: str, *fields: str) -> Iterator[bytes]:
    yield head("POST", path, token, f"Content-Length: {len(body)}", *fields)
    yield body


def _filled(template: Callable[[int], bytes], before: bytes, after: bytes, most: int = 10**9) -> bytes:
    """`before`, as many items as fit, `after`."""
    size, items = len(before) + len(after), []
    for number in itertools.count():
        item = template(number)
        size += len(item) + 1
        if size > FULL or number >= most:
            break
        items.append(item)
    return before + b",".join(items) + after


def _account(template: Callable[[int], bytes], before: bytes = b"{", after: bytes = b"}", most: int = 10**9) -> Any:
    def sent(supplier: str, token: str) -> Iterator[bytes]:
        named = b'"import_supplier":"%s","external_account_number":"H-1",' % supplier.encode()
        return posted(VALIDATE, _filled(template, before.replace(b"{", b"{" + named, 1), after, most), token)

    return sent


def _ordinary(supplier: str, token: str) -> Iterator[bytes]:
    """10 MiB that nobody means ill with: an account with 45,000 readings."""
    account = an_account(supplier)
    meter = account["supply_addresses"][0]["supply_points"][0]["melos"][0]["meters"][0]
    register, began = meter["registers"][0], datetime(2022, 1, 1, tzinfo=UTC)
    readings = [
        register["readings"][0] | {"value": str(20_000 + hour), "read_at": (began + timedelta(hours=hour)).isoformat()}
        for hour in range(9_000)
    ]
    meter["registers"] = [register | {"obis_code": f"1-1:1.8.{n}", "readings": readings} for n in range(5)]
    return posted(VALIDATE, msgspec.json.encode(account), token)


def _raw(body: Callable[[], bytes]) -> Callable[[str, str], Iterator[bytes]]:
    return lambda supplier, token: posted(VALIDATE, body(), token)


def _customers(fields: Callable[[int], dict[str, Any]], most: int = 10_000) -> Any:
    def template(number: int) -> bytes:
        return json.dumps({"family_name": f"N{number}"} | fields(number), ensure_ascii=False).encode()

    return _account(template, b'{"billing_address1":"x","customers":[', b"]}", most)


def _anonymous(sent: Callable[[], bytes]) -> Callable[[str, str], Iterator[bytes]]:
    """Made when it is sent: every process that knows these tests would hold half a gigabyte of them."""
    return lambda supplier, token: iter([sent()])


def _token_request(document: str, **variables: Any) -> Callable[[str, str], Iterator[bytes]]:
    body = json.dumps({"query": document, "variables": variables}).encode()
    return lambda supplier, token: posted(GRAPHQL, body, "")


def _fields(count: int = 200_000) -> bytes:
    return b"".join(b"X-%06d: y\r\n" % number for number in range(count))


CHUNKED = head("POST", GRAPHQL, "", "Transfer-Encoding: chunked")
_REFUSED = (400,)
_TOO_MUCH = (400, 413)

WITHOUT_TOKEN: tuple[Hostile, ...] = (
    Hostile("a field of 60 MB", _anonymous(lambda: b"GET /livez HTTP/1.1\r\nX: " + b"a" * 60_000_000), (431,), True),
    Hostile("200,000 trailers", _anonymous(lambda: CHUNKED + b"2\r\n{}\r\n0\r\n" + _fields()), _REFUSED, True),
    Hostile("10 MB of single bytes in chunks", _anonymous(lambda: CHUNKED + b"1\r\nx\r\n" * 1_700_000), _REFUSED, True),
    Hostile(
        "200,000 requests ahead", _anonymous(lambda: b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n" * 200_000), (), True
    ),
    Hostile("10 MiB without a token", lambda _, __: posted(VALIDATE, b"x" * FULL, ""), (401,), True),
    Hostile("10 MiB with a wrong token", lambda _, __: posted(VALIDATE, b"x" * FULL, "ilk_no"), (401,)),
    Hostile("10 MiB for a token", lambda _, __: posted(GRAPHQL, b" " * FULL, ""), (413,), True),
    Hostile("a document of many equal fields", _token_request("{" + "service " * 4_000 + "}"), (200, 413), True),
    Hostile("a document of many equal fields that is parsed", _token_request("{" + "service " * 245 + "}"), (200,)),
    Hostile("a document nested deeply", _token_request("{a" * 2_000), (200,)),
    Hostile(
        "a document of fragments",
        _token_request(
            "".join(f"fragment f{n} on Query {{ ...f{n + 1} ...f{n + 1} }} " for n in range(20)) + "{ ...f0 }"
        ),
        (200,),
    ),
    Hostile(
        "many wrong keys in one document",
        _token_request(
            "mutation {"
            + " ".join(
                f'a{n}: obtainToken(input: {{apiKey: "ilk_aaaaaaaa_{"x" * 43}"}}) {{ token }}' for n in range(14)
            )
            + "}"
        ),
        (200,),
    ),
)

WITH_TOKEN: tuple[Hostile, ...] = (
    Hostile("many unknown names", _account(lambda n: b'"unknown_field_%08d":"x"' % n), _REFUSED, True),
    Hostile("short unknown names", _account(lambda n: b'"%x":1' % n), _REFUSED),
    Hostile("as many unknown names as are read", _account(lambda n: b'"%x":1' % n, most=349_900), _REFUSED),
    Hostile("names near to documented ones", _account(lambda n: b'"customer%d":1' % n, most=500_000), _REFUSED),
    Hostile("repeated names", _account(lambda n: b'"%x":1,"%x":1' % (n, n)), _REFUSED, True),
    Hostile(
        "as many repeated names as are read", _account(lambda n: b'"%x":1,"%x":1' % (n, n), most=174_900), _REFUSED
    ),
    Hostile(
        "as many names as are read, in two objects",
        _account(
            lambda n: b"{%s}" % b",".join(b'"%x":1' % k for k in range(n, n + 224_000)),
            b'{"metadata":[{"key":"k","value":[',
            b"]}]}",
            2,
        ),
        _REFUSED,
    ),
    Hostile("more names than one object may have", _account(lambda n: b'"%x":1' % n, most=400_000), _REFUSED),
    Hostile(
        "the same below others",
        _account(lambda n: b'"%x":1' % n, b'{"metadata":[{"key":"k","value":{', b"}}]}", 400_000),
        _TOO_MUCH,
    ),
    Hostile("one name, repeated", _account(lambda n: b'"a":1'), _REFUSED),
    Hostile("repeated names in many objects", _account(lambda n: b'{"a":1,"a":1}', b'{"notes":[', b"]}"), _TOO_MUCH),
    Hostile("a name of 10 MB", _account(lambda n: b'"%s":1' % (b"n" * 10_000_000)), _REFUSED, True),
    Hostile("long names", _account(lambda n: b'"%06d%s":1' % (n, b"n" * 10_000)), _REFUSED, True),
    Hostile("long names of control characters", _account(lambda n: b'"%06d%s":1' % (n, b"\\u0001" * 70)), _REFUSED),
    Hostile("long names of dots", _account(lambda n: b'"%06d%s":1' % (n, b"." * 100)), _REFUSED, True),
    Hostile(
        "long names above many problems",
        _account(lambda n: b'"a\\u0000":1', b'{"metadata":[{"key":"k","value":{"%s":[{' % (b"n" * 500_000), b"}]}}]}"),
        _REFUSED,
        True,
    ),
    Hostile("an ordinary account of 10 MiB", _ordinary, (200,), True),
    Hostile("deep arrays", _raw(lambda: b"[" * FULL), _REFUSED, True),
    Hostile("deep objects", _raw(lambda: b'{"a":' * (FULL // 5)), _REFUSED),
    Hostile("64 levels, many times", _account(lambda n: b"[" * 62 + b"]" * 62, b'{"notes":[', b"]}"), _TOO_MUCH),
    Hostile("many arrays", _account(lambda n: b"[]", b'{"x":[', b"]}"), _TOO_MUCH, True),
    Hostile("many objects", _account(lambda n: b"{}", b'{"x":[', b"]}"), _TOO_MUCH),
    Hostile("many numbers", _account(lambda n: b"%d" % (n + 257), b'{"x":[', b"]}"), _TOO_MUCH, True),
    Hostile("many fractions", _account(lambda n: b"%d.5" % n, b'{"x":[', b"]}", 600_000), _TOO_MUCH),
    Hostile("many texts", _account(lambda n: b'"ab"', b'{"x":[', b"]}"), _TOO_MUCH),
    Hostile(
        "a number of 10 MB", _account(lambda n: b"1" * 10_000_000, b'{"transfer_balance":', b"}", 1), _REFUSED, True
    ),
    Hostile("a fraction of 10 MB", _account(lambda n: b"1." + b"3" * 10_000_000, b'{"x":', b"}", 1), _REFUSED),
    Hostile("huge exponents", _account(lambda n: b"1e%d" % (n + 10**8), b'{"x":[', b"]}", 250_000), _TOO_MUCH),
    Hostile(
        "a text of 10 MB", _account(lambda n: b'"%s"' % (b"9" * 10_000_000), b'{"transfer_balance":', b"}", 1), _REFUSED
    ),
    Hostile(
        "a moment of 10 MB", _account(lambda n: b'"%s"' % (b"2" * 10_000_000), b'{"task_params":', b"}", 1), _REFUSED
    ),
    Hostile("invalid UTF-8", _raw(lambda: b'{"a":"' + b"\xff" * FULL), _REFUSED, True),
    Hostile("half surrogates", _raw(lambda: b'{"a":"' + b"\\ud800" * (FULL // 7) + b'"}'), _REFUSED),
    Hostile("blanks", _raw(lambda: b" " * FULL), _REFUSED),
    Hostile(
        "10 MiB in a note", _account(lambda n: b'{"body":"%s"}' % (b"x" * 9_000_000), b'{"notes":[', b"]}", 1), _REFUSED
    ),
    Hostile(
        "2,000 internationalised e-mail addresses",
        _customers(lambda n: {"email": f"kunde@müller{n}.{'größe-' * 5}ö.{'straße' * 5}.example"}, 2_000),
        (200, *_TOO_MUCH),  # they are right: whether there is time for all of them is the processor's
        True,
    ),
    Hostile("10,000 of them", _customers(lambda n: {"email": f"k@{n}.中国漢字東京都.{'漢字' * 12}.中国"}), _TOO_MUCH),
    Hostile("20 KB of them", _customers(lambda n: {"email": f"k@{n}.中国漢字東京都.{'漢字' * 12}.中国"}, 120), (200,)),
    Hostile("wrong e-mail addresses", _customers(lambda n: {"email": "x." * 126 + "@"}), _TOO_MUCH),
    Hostile(
        "phone numbers", _customers(lambda n: {"mobile": f"030 {n:07}", "landline": f"+1 {n:010}"}), _TOO_MUCH, True
    ),
    Hostile(
        "wrong IBANs",
        _account(
            lambda n: b'{"bank_account":{"iban":"ES91%020d"},"type":"x"}' % n,
            b'{"payment_instructions":[',
            b"]}",
            10_000,
        ),
        _REFUSED,
    ),
    Hostile(
        "customers of the wrong kind", _customers(lambda n: {"family_name": n, "consents": [n] * 8}), _TOO_MUCH, True
    ),
    Hostile(
        "warnings",
        _account(
            lambda n: b'{"supply_postcode":"x","supply_points":[{"identifier":"x"}]}',
            b'{"supply_addresses":[',
            b"]}",
            10_000,
        ),
        _TOO_MUCH,
    ),
    Hostile(
        "a reason of 10 MiB",
        lambda s, t: posted(f"{ACCOUNTS}{s}/H/cancel/", b'{"reason":"' + b"x" * FULL + b'"}', t),
        _REFUSED,
    ),
)

HOSTILE = (*WITHOUT_TOKEN, *WITH_TOKEN)
