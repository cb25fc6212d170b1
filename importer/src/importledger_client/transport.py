"""HTTP requests over httpx, for any number of threads, with a token, and repeated while they may still succeed."""

import contextlib
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from ipaddress import ip_address
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import httpx
import msgspec

from importledger_client import protocol
from importledger_client.errors import ImportLedgerError, Misconfigured, NotAllowed, Unavailable
from importledger_client.language import _
from importledger_client.protocol import NOT_UNDERSTOOD, TryLater, decoded, joined_answer

T = TypeVar("T")

LATER = (httpx.TransportError, TryLater)
TIMEOUT = httpx.Timeout(120.0, connect=10.0)
LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=64)
RENEW_BEFORE_S = 300
"""Time before the expiry of a token at which it is renewed [seconds]."""
LONGEST_PAUSE_S = 15.0
"""Longest pause between two attempts, unless the service requests a longer pause [seconds]."""
LONGEST_RETRY_AFTER_S = 60.0
"""Longest pause that the service can request [seconds]."""

_OBTAIN = "mutation($key: String!) { obtainToken(input: {organizationSecretKey: $key}) { token payload } }"

TraceParent = str | Callable[[], str | None] | None
"""A W3C `traceparent`, or a function that returns the present `traceparent`."""


class _Payload(msgspec.Struct):
    exp: float


class _Obtained(msgspec.Struct):
    token: str
    payload: _Payload


class _Denial(msgspec.Struct):
    extensions: dict[str, Any] | None = None


class _TokenAnswer(msgspec.Struct):
    data: dict[str, _Obtained | None] | None = None
    errors: list[_Denial] | None = None


class Answer(NamedTuple):
    """A successful answer, read to its end."""

    status: int
    content: bytes


class Transport:
    """Requests to one address with one key.

    Every request must be safe to repeat, because `Transport` repeats requests.
    """

    def __init__(
        self,
        url: str | None,
        key: str | None,
        *,
        retry_timeout_s: float,
        first_retry_timeout_s: float,
        on_wait: Callable[[str, float], None] | None,
        traceparent: TraceParent,
        insecure_http: bool,
        language: str,
    ) -> None:
        self.url, self._key = _address(url, insecure_http=insecure_http), _key(key)
        self._retry_timeout_s, self._first_retry_timeout_s = retry_timeout_s, first_retry_timeout_s
        self._on_wait, self._traceparent = on_wait, traceparent
        # Requests use the environment's proxies, except plain HTTP to this machine.
        uses_proxies = not (self.url.startswith("http://") and is_loopback(self.url))
        headers = {"Accept-Language": language}
        self._http = httpx.Client(
            base_url=self.url, headers=headers, timeout=TIMEOUT, limits=LIMITS, trust_env=uses_proxies
        )
        self._token, self._token_ends = "", 0.0
        self._token_lock = threading.Lock()
        self._closing = threading.Event()
        self._is_known = False
        """True after the first answer of the service."""

    def close(self) -> None:
        self._closing.set()
        self._http.close()

    def request(self, method: str, path: str, **options: Any) -> Answer:
        """Return a successful answer. `options` are options of httpx. Raises an error for any other answer."""

        def attempt() -> Answer:
            with self.once(method, path, **options) as answer:
                return Answer(answer.status_code, joined_answer(answer.iter_bytes()))

        return self._repeated(attempt)

    @contextlib.contextmanager
    def stream(self, path: str, **options: Any) -> Iterator[httpx.Response]:
        """Yield the successful answer to a GET while it is being received."""
        with contextlib.ExitStack() as stack:
            yield self._repeated(lambda: stack.enter_context(self.once("GET", path, **options)))

    @contextlib.contextmanager
    def once(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None, **options: Any
    ) -> Iterator[httpx.Response]:
        """Send a request once, and yield its successful answer as a stream.

        Raises TransportError or TryLater if a repetition may succeed, otherwise the error of the answer.
        """
        for is_last in (False, True):
            token = self._valid_token()
            sent = {"Authorization": f"Token {token}", "Content-Type": "application/json"} | dict(headers or {})
            traceparent = self._traceparent() if callable(self._traceparent) else self._traceparent
            if traceparent:
                sent["traceparent"] = traceparent
            with self._http.stream(method, path, headers=sent, **options) as answer:
                self._is_known = True
                if answer.is_success:
                    yield answer
                    return
                content = joined_answer(answer.iter_bytes())
            if answer.status_code != 401 or is_last:
                raise protocol.fault(answer.status_code, content, answer.headers.get("retry-after"))
            with self._token_lock:  # the token has expired early, or the service has a new key
                if self._token == token:
                    self._token = ""

    def _repeated(self, attempt: Callable[[], T]) -> T:
        """Repeat an attempt until it succeeds. Raises Unavailable after `retry_timeout_s`."""
        attempts = self.new_attempts()
        while True:
            try:
                return attempt()
            except LATER as problem:
                attempts.pause(problem)

    def new_attempts(self) -> "Attempts":
        return Attempts(self)

    def _valid_token(self) -> str:
        with self._token_lock:
            if not self._token or time.time() >= self._token_ends - RENEW_BEFORE_S:
                body = protocol.encode({"query": _OBTAIN, "variables": {"key": self._key}})
                headers = {"Content-Type": "application/json"}
                with self._http.stream("POST", protocol.TOKEN, content=body, headers=headers) as answer:
                    self._is_known = True
                    self._token, self._token_ends = _token_of(answer.status_code, joined_answer(answer.iter_bytes()))
            return self._token


class Attempts:
    """The attempts of one request.

    Pauses between attempts grow, and are random, so that many clients do not repeat requests at the same time.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._began = time.monotonic()
        self._was_known = transport._is_known
        self._count = 0

    def pause(self, problem: Exception) -> None:
        """Wait for the next attempt. Raises Unavailable after the time for retries, or when the transport is closed."""
        transport = self._transport
        if transport._is_known and not self._was_known:
            self._was_known, self._began = True, time.monotonic()
        pause_s = min(LONGEST_PAUSE_S, 0.1 * 2 ** min(self._count, 10)) * random.uniform(0.5, 1.0)
        self._count += 1
        retry_after = getattr(problem, "retry_after", None)
        if retry_after and retry_after.strip().isdigit():
            pause_s = max(pause_s, min(float(retry_after), LONGEST_RETRY_AFTER_S))
        retry_timeout_s = transport._retry_timeout_s if self._was_known else transport._first_retry_timeout_s
        why = f"{str(problem).rstrip('.') or type(problem).__name__}."
        if time.monotonic() + pause_s >= self._began + retry_timeout_s or transport._closing.is_set():
            hint = "" if transport._is_known else " " + _("Is the address right?")
            sentence = _("The service at {url} cannot be used: {why}", url=transport.url, why=why)
            raise Unavailable(sentence + hint)
        if transport._on_wait:
            transport._on_wait(why, pause_s)
        transport._closing.wait(pause_s)


def _token_of(status: int, content: bytes) -> tuple[str, float]:
    """Return a token and its expiry [seconds since 1970]. Raises NotAllowed for a key that is refused."""
    if status != 200:
        error = protocol.fault(status, content, None)
        if status in (404, 405) or (isinstance(error, ImportLedgerError) and not error.code):
            raise ImportLedgerError(_(NOT_UNDERSTOOD), status=status)
        raise error
    answer = decoded(_TokenAnswer, content)
    if answer.errors:
        raise NotAllowed(
            _("The service does not know this key: it must be one that the operator gave you and has not revoked."),
            code=str((answer.errors[0].extensions or {}).get("errorCode", "")),
            status=status,
        )
    obtained = (answer.data or {}).get("obtainToken")
    if obtained is None:
        raise ImportLedgerError(_(NOT_UNDERSTOOD))
    # the token is short-lived, or this clock is wrong: use the token anyway
    if obtained.payload.exp - time.time() < RENEW_BEFORE_S:
        return obtained.token, time.time() + 2 * RENEW_BEFORE_S
    return obtained.token, obtained.payload.exp


def _address(url: str | None, *, insecure_http: bool) -> str:
    url = url or os.environ.get("IMPORTLEDGER_URL")
    if not url:
        raise Misconfigured(_("The address of the service must be given: set IMPORTLEDGER_URL, or pass --url."))
    if not url.startswith(("http://", "https://")):
        raise Misconfigured(_("The address of the service must begin with http:// or https://."))
    if url.startswith("http://") and not (insecure_http or is_loopback(url)):
        raise Misconfigured(
            _(
                "The address of the service must begin with https://, because others can read the key and the accounts "
                "on their way. For http:// to another machine, pass --insecure-http, or insecure_http=True in Python."
            )
        )
    if not _can_be_called(url):
        raise Misconfigured(_("The address of the service must have a host, and a port must be between 1 and 65535."))
    return url.rstrip("/")


def _can_be_called(url: str) -> bool:
    try:
        return bool(httpx.URL(url).host) and urlsplit(url).port != 0
    except (ValueError, httpx.InvalidURL):
        return False


def _key(key: str | None) -> str:
    key = key or os.environ.get("IMPORTLEDGER_KEY")
    if not key:
        raise Misconfigured(_("A key must be given: set IMPORTLEDGER_KEY, or pass --key."))
    return key.strip()


def is_loopback(url: str) -> bool:
    """Return True for an address of this machine."""
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
