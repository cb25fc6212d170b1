"""What both clients do alike, without doing it: addresses, bodies, tokens, and how long to wait before trying again."""

import os
import random
import time
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec

from importledger_client.answers import Failure, ImportStatus, JobProgress, Receipt, Run
from importledger_client.errors import ImportLedgerError, Misconfigured, NotAllowed, error_of
from importledger_client.incoming import NOT_UNDERSTOOD, understood

CREATE = "/v2/data-import/accounts/"
VALIDATE = "/v2/data-import/accounts/validate/"
BULK = "/v2/data-import/accounts/bulk/"
TOKEN = "/v1/graphql/"  # noqa: S105 - an address
MODES = ("create", "validate", "dry_run")

RENEW_BEFORE_S = 300
PATIENCE_S = 1800.0
"""How long a service that has answered once may be away."""
FIRST_PATIENCE_S = 20.0
"""How long a service that was never there is called."""
LONGEST_WAIT_S = 15.0
CONNECT_S, READ_S = 10.0, 120.0
STILL_AT_IT = 202
ASK_AGAIN_S = 1.0
"""Interval of requests for a job's progress [seconds]."""

_OBTAIN = "mutation($key: String!) { obtainToken(input: {organizationSecretKey: $key}) { token payload } }"
_BLANKS = b" \t\r\n\v\f\xef\xbb\xbf"
_MAY_WORK_LATER = frozenset({408, 425, 429, 500, 502, 503, 504})

encode = msgspec.json.Encoder(decimal_format="number").encode
RUN = msgspec.json.Decoder(Run)
RUNS = msgspec.json.Decoder(tuple[Run, ...])
STATUS = msgspec.json.Decoder(ImportStatus)
JOB_PROGRESS = msgspec.json.Decoder(JobProgress)
FAILURE = msgspec.json.Decoder(Failure)
OBJECT = msgspec.json.Decoder(dict[str, Any])


class Answered(msgspec.Struct, frozen=True):
    """A good answer, read to its end."""

    status: int
    content: bytes

    @property
    def progress(self) -> JobProgress | None:
        """How far it is, where the answer is not there yet."""
        return understood(JOB_PROGRESS, self.content) if self.status == STILL_AT_IT else None

    @property
    def body(self) -> dict[str, Any]:
        return understood(OBJECT, self.content)


class _Payload(msgspec.Struct):
    exp: float


class _Obtained(msgspec.Struct):
    token: str
    payload: _Payload


class _Data(msgspec.Struct, rename="camel"):
    obtain_token: _Obtained


class _Bought(msgspec.Struct):
    data: _Data


class _Denial(msgspec.Struct):
    message: str = "it was refused"
    extensions: dict[str, Any] | None = None


class _Denied(msgspec.Struct):
    errors: list[_Denial] | None = None


_BOUGHT, _DENIED = msgspec.json.Decoder(_Bought), msgspec.json.Decoder(_Denied)


TraceParent = str | Callable[[], str | None] | None
"""A place in a trace, as W3C writes it (`traceparent`), or what gives the present one."""


class Settings(msgspec.Struct, frozen=True):
    """Where the service is, and the key."""

    url: str
    key: str
    traceparent: TraceParent = None

    @classmethod
    def of(
        cls, url: str | None, key: str | None, traceparent: TraceParent = None, *, insecure_http: bool = False
    ) -> "Settings":
        """What was given, else the environment. Raises Misconfigured."""
        url = url or os.environ.get("IMPORTLEDGER_URL")
        key = key or os.environ.get("IMPORTLEDGER_KEY")
        if not url:
            raise Misconfigured("No address of the service was given: set IMPORTLEDGER_URL, or say --url.")
        if not key:
            raise Misconfigured("No key was given: set IMPORTLEDGER_KEY, or say --key.")
        if not url.startswith(("http://", "https://")):
            raise Misconfigured("The address of the service must begin with http:// or https://.")
        if url.startswith("http://") and not (insecure_http or is_loopback(url)):
            raise Misconfigured(
                "The address of the service must begin with https://, because others can read the key and the accounts "
                "on their way. For http:// to another machine, pass --insecure-http, or insecure_http=True in Python."
            )
        return cls(url.rstrip("/"), key.strip(), traceparent)

    @property
    def uses_proxies(self) -> bool:
        """True where proxies of the environment are used: for all but plain HTTP on this machine."""
        return not (self.url.startswith("http://") and is_loopback(self.url))

    def fields(self, token: str, headers: Mapping[str, str] | None) -> dict[str, str]:
        """The header of a request: with the caller's place in a trace, where there is one."""
        traceparent = self.traceparent() if callable(self.traceparent) else self.traceparent
        traced = {"traceparent": traceparent} if traceparent else {}
        return {"Authorization": f"Token {token}", "Content-Type": "application/json", **traced, **(headers or {})}


def is_loopback(url: str) -> bool:
    """Return True for an address of this machine."""
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


class Token:
    """The token that a key buys for an hour, until shortly before its end."""

    def __init__(self) -> None:
        self.text = ""
        self._ends = 0.0

    @property
    def is_good(self) -> bool:
        return bool(self.text) and time.time() < self._ends - RENEW_BEFORE_S

    def forget(self) -> None:
        self.text = ""

    def take(self, status: int, content: bytes) -> None:
        """The answer to `token_request`. Raises NotAllowed for a refused key, else its fault."""
        if status in (404, 405):
            raise ImportLedgerError(NOT_UNDERSTOOD, status=status)
        if status != 200:
            raise fault(status, content, None)
        if errors := understood(_DENIED, content).errors:
            first = errors[0]
            raise NotAllowed(
                "The service does not know this key: it must be one that the operator gave you and has not revoked.",
                code=str((first.extensions or {}).get("errorCode", "")),
                status=status,
            )
        obtained = understood(_BOUGHT, content).data.obtain_token
        self.text, self._ends = obtained.token, obtained.payload.exp
        if self._ends - time.time() < RENEW_BEFORE_S:  # short-lived, or our clock is wrong: use it while it lasts
            self._ends = time.time() + 2 * RENEW_BEFORE_S


def token_request(key: str) -> bytes:
    return encode({"query": _OBTAIN, "variables": {"key": key}})


def place(*parts: str) -> str:
    """`/v2/data-import/a/b/` with each part quoted."""
    return "/v2/data-import/" + "".join(quote(part, safe="") + "/" for part in parts)


def body_of(account: Any) -> bytes:
    """An account as JSON on one line: bytes and text are taken as JSON, anything else is encoded."""
    if isinstance(account, str):
        account = account.encode()
    if not isinstance(account, bytes | bytearray | memoryview):
        return encode(account)
    content = bytes(account).strip()
    # A line break in JSON is white space between values: texts spell it as an escape.
    return content.replace(b"\r", b" ").replace(b"\n", b" ") if b"\n" in content or b"\r" in content else content


def is_blank(line: bytes) -> bool:
    """Whether nothing is in a line: the service gives no receipt for it."""
    return not line.strip(_BLANKS)


def json_of(content: bytes) -> Any:
    try:
        return msgspec.json.decode(content) if content else None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


class TryLater(Exception):
    """An answer that may be another one later."""

    def __init__(self, error: ImportLedgerError, retry_after: str | None) -> None:
        super().__init__(str(error))
        self.retry_after = retry_after


def fault(status: int, content: bytes, retry_after: str | None) -> Exception:
    """What an answer that is not good stands for; TryLater for what may work later."""
    error = error_of(status, json_of(content))
    return TryLater(error, retry_after) if status in _MAY_WORK_LATER else error


class Patience:
    """When to try again after something that may work later: a little longer each time, and never in step with others.

    Whoever waits for a service that has never answered is a stranger, and waits less long.
    """

    def __init__(self, *, is_stranger: bool, known_s: float, stranger_s: float) -> None:
        self._began = time.monotonic()
        self._known_s, self._stranger_s = known_s, stranger_s
        self._is_stranger = is_stranger
        self._turn = 0

    def wait_s(self, problem: Exception, *, is_known: bool) -> float | None:
        """Seconds until the next attempt; None when patience is at its end."""
        if is_known and self._is_stranger:
            self._is_stranger, self._began = False, time.monotonic()
        wait = min(LONGEST_WAIT_S, 0.1 * 2 ** min(self._turn, 10)) * random.uniform(0.5, 1.0)
        self._turn += 1
        asked = getattr(problem, "retry_after", None)
        if asked and asked.strip().isdigit():
            wait = max(wait, min(float(asked), 60.0))
        patience_s = self._stranger_s if self._is_stranger else self._known_s
        return wait if time.monotonic() + wait < self._began + patience_s else None


def run_query(mode: str, run: str | None) -> Mapping[str, str]:
    if mode not in MODES:
        raise Misconfigured(f"There is no mode {mode}: one of {', '.join(MODES)}.")
    return {"mode": mode} | ({"run": run} if run else {})


def receipt_of(account: bytes, status: str) -> Receipt:
    """The receipt of a single request that went well."""
    try:
        said = msgspec.json.decode(account, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        said = {}
    inner = said.get("payload")
    number = (inner if isinstance(inner, dict) else said).get("external_account_number")
    return Receipt(external_account_number=number if isinstance(number, str) else None, status=status)
