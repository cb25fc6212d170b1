"""Bytes of requests to the service and of its answers: addresses, request bodies, and answers of bounded size."""

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from importledger_client.answers import Receipt
from importledger_client.errors import ImportLedgerError, error_of
from importledger_client.language import _, translatable

T = TypeVar("T")

CREATE = "/v2/data-import/accounts/"
VALIDATE = "/v2/data-import/accounts/validate/"
BULK = "/v2/data-import/accounts/bulk/"
BULK_TYPE = {"Content-Type": "application/x-ndjson", "Content-Encoding": "zstd"}
TOKEN = "/v1/graphql/"  # noqa: S105 - an address
MODES = ("create", "validate", "dry_run")

MAX_LINE_BYTES = 16 * 2**20
"""Longest line of an answer [bytes]. Longer lines are refused."""
MAX_ANSWER_BYTES = 256 * 2**20
"""Longest answer that is not a stream of lines [bytes]. Longer answers are refused."""
NOT_UNDERSTOOD = translatable("The answer must come from an import ledger: check the address.")

NOT_JSON = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""Errors of decoding what another program wrote. JSON that is nested deeply is a RecursionError."""
_BLANKS = b" \t\r\n\v\f\xef\xbb\xbf"
_MAY_WORK_LATER = frozenset({408, 425, 429, 500, 502, 503, 504})

encode = msgspec.json.Encoder(decimal_format="number").encode


class TryLater(Exception):
    """A failed request that may succeed when it is repeated."""

    def __init__(self, error: ImportLedgerError, retry_after: str | None) -> None:
        super().__init__(str(error))
        self.retry_after = retry_after


def fault(status: int, content: bytes, retry_after: str | None) -> Exception:
    """Return the error of an answer that is not a success: TryLater if a repetition may succeed."""
    try:
        body = msgspec.json.decode(content) if content else None
    except NOT_JSON:
        body = None
    error = error_of(status, body)
    return TryLater(error, retry_after) if status in _MAY_WORK_LATER else error


def path_of(*parts: str) -> str:
    """Return `/v2/data-import/a/b/` with each part quoted."""
    return "/v2/data-import/" + "".join(quote(part, safe="") + "/" for part in parts)


def body_of(account: Any) -> bytes:
    """Return an account as JSON on one line. Bytes and text must be JSON; other values are encoded."""
    if isinstance(account, str):
        account = account.encode()
    if not isinstance(account, bytes | bytearray | memoryview):
        return encode(account)
    content = bytes(account).strip()
    # A line break in JSON is white space between values: texts have it as an escape.
    return content.replace(b"\r", b" ").replace(b"\n", b" ") if b"\n" in content or b"\r" in content else content


def is_blank(line: bytes) -> bool:
    """Return True for a line without content. The service sends no receipt for it."""
    return not line.strip(_BLANKS)


def receipt_of(account: bytes, status: str) -> Receipt:
    """Return the receipt of an account that was sent in a single request and accepted. `account` is the sent body."""
    try:
        fields = msgspec.json.decode(account, type=dict[str, Any])
    except NOT_JSON:
        fields = {}
    payload = fields.get("payload")
    number = (payload if isinstance(payload, dict) else fields).get("external_account_number")
    return Receipt(external_account_number=number if isinstance(number, str) else None, status=status)


def lines_of(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of an answer while it is received. Raises ImportLedgerError for a line that is too long.

    Only a line feed ends a line: texts in JSON may contain other separators.
    """
    unfinished = bytearray()
    for part in parts:
        first, *lines = part.split(b"\n")
        unfinished += first
        if lines:
            *complete, last = lines
            yield bytes(unfinished)
            yield from complete
            unfinished = bytearray(last)
        elif len(unfinished) > MAX_LINE_BYTES:
            raise ImportLedgerError(_(NOT_UNDERSTOOD))
    if unfinished:
        yield bytes(unfinished)


def joined_answer(parts: Iterable[bytes]) -> bytes:
    """Return an answer in one piece. Raises ImportLedgerError for an answer that is too long."""
    content = bytearray()
    for part in parts:
        content += part
        if len(content) > MAX_ANSWER_BYTES:
            raise ImportLedgerError(_(NOT_UNDERSTOOD))
    return bytes(content)


def decoded(kind: type[T], content: bytes) -> T:
    """Decode an answer. Raises ImportLedgerError for an answer of another type."""
    try:
        return msgspec.json.decode(content, type=kind)
    except NOT_JSON:
        raise ImportLedgerError(_(NOT_UNDERSTOOD)) from None
