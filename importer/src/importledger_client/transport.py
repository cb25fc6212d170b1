"""Requests over httpx: a token on each, and again with pauses while it may work later. For any number of threads."""

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

import httpx

from importledger_client import protocol
from importledger_client.errors import Unavailable
from importledger_client.incoming import whole_of
from importledger_client.protocol import Answered, Patience, Settings, Token, TryLater

T = TypeVar("T")

LATER = (httpx.TransportError, TryLater)
TIMEOUT = httpx.Timeout(protocol.READ_S, connect=protocol.CONNECT_S)
LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=64)


class Transport:
    """One address and one key. Only what is safe to repeat may be sent with it: it repeats."""

    def __init__(self, settings: Settings, waits: "Waits") -> None:
        self._settings = settings
        self._waits = waits
        self._http = httpx.Client(
            base_url=settings.url, timeout=TIMEOUT, limits=LIMITS, trust_env=settings.uses_proxies
        )
        self._token = Token()
        self._token_lock = threading.Lock()
        self._closing = threading.Event()
        self._is_known = False

    def close(self) -> None:
        self._closing.set()
        self._http.close()

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> bytes:
        """The content of a good answer. Raises what any other stands for."""
        return self.answered(method, path, body, headers, query).content

    def answered(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> Answered:
        """A good answer. Raises what any other stands for."""

        def attempt() -> Answered:
            with self.once(method, path, body, headers, query) as answer:
                return Answered(answer.status_code, whole_of(answer.iter_bytes()))

        return self.patiently(attempt)

    @contextlib.contextmanager
    def stream(self, method: str, path: str, query: Mapping[str, str] | None = None) -> Iterator[httpx.Response]:
        """A good answer while it is still coming in."""
        with contextlib.ExitStack() as stack:
            yield self.patiently(lambda: stack.enter_context(self.once(method, path, query=query)))

    @contextlib.contextmanager
    def once(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> Iterator[httpx.Response]:
        """A good answer, as a stream. Raises TransportError or TryLater where it may work later, else its fault."""
        for is_last in (False, True):
            token = self._valid_token()
            sent = self._settings.fields(token, headers)
            with self._http.stream(method, path, content=body, headers=sent, params=query) as answer:
                self._is_known = True
                if answer.is_success:
                    yield answer
                    return
                content = whole_of(answer.iter_bytes())
            if answer.status_code != 401 or is_last:
                raise protocol.fault(answer.status_code, content, answer.headers.get("retry-after"))
            with self._token_lock:  # it has ended before its time, or the service has a new key
                if self._token.text == token:
                    self._token.forget()

    def patiently(self, attempt: Callable[[], T]) -> T:
        """What an attempt gives, once it gives anything. Raises Unavailable when patience is at its end."""
        patience = self.new_patience()
        while True:
            try:
                return attempt()
            except LATER as problem:
                self.pause(patience, problem)

    def new_patience(self) -> Patience:
        return self._waits.patience(is_stranger=not self._is_known)

    def pause(self, patience: Patience, problem: Exception) -> None:
        """Wait a little. Raises Unavailable when patience is at its end, or the transport is closed."""
        wait_s = patience.wait_s(problem, is_known=self._is_known)
        if wait_s is None or self._closing.is_set():
            raise unavailable(self._settings, problem)
        self._waits.told(problem, wait_s)
        self._closing.wait(wait_s)

    def _valid_token(self) -> str:
        with self._token_lock:
            if not self._token.is_good:
                body = protocol.token_request(self._settings.key)
                headers = {"Content-Type": "application/json"}
                with self._http.stream("POST", protocol.TOKEN, content=body, headers=headers) as answer:
                    self._is_known = True
                    self._token.take(answer.status_code, whole_of(answer.iter_bytes()))
            return self._token.text


class Waits:
    """How long to be patient, and whom to tell of pauses."""

    def __init__(self, known_s: float, stranger_s: float, on_wait: Callable[[str, float], None] | None) -> None:
        self._known_s, self._stranger_s, self._on_wait = known_s, stranger_s, on_wait

    def patience(self, *, is_stranger: bool) -> Patience:
        return Patience(is_stranger=is_stranger, known_s=self._known_s, stranger_s=self._stranger_s)

    def told(self, problem: Exception, wait_s: float) -> None:
        if self._on_wait:
            self._on_wait(sentence(problem), wait_s)


def unavailable(settings: Settings, problem: Exception) -> Unavailable:
    return Unavailable(f"The service at {settings.url} cannot be used: {sentence(problem)}")


def sentence(problem: Exception) -> str:
    """What went wrong, in a sentence."""
    return f"{str(problem).rstrip('.') or type(problem).__name__}."
