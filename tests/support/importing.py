"""A client that returns all answers unchanged, also refusals, over any number of connections."""

import http.client
import json
import queue
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec

TRIES = 6
TIMEOUT_S = 30.0
_OBTAIN = "mutation($key: String!) { obtainToken(input: {organizationSecretKey: $key}) { token } }"


class Answer(msgspec.Struct, frozen=True):
    """A status code and the JSON that came with it."""

    status: int
    body: Any

    @property
    def codes(self) -> tuple[str, ...]:
        """The error codes in the body."""
        if not isinstance(self.body, dict):
            return ()
        errors = self.body.get("errors") or [self.body.get("non_field_errors") or self.body]
        return tuple(error["code"] for error in errors if isinstance(error, dict) and "code" in error)


class ImportClient:
    """One importer's client. Safe to use from several threads; each request takes an idle connection, or a new one."""

    def __init__(self, base_url: str, api_key: str, *, tries: int = TRIES, timeout_s: float = TIMEOUT_S) -> None:
        parts = urlsplit(base_url)
        assert parts.hostname is not None
        self._address = (parts.hostname, parts.port or 80)
        self._api_key = api_key
        self._tries = tries
        self._timeout_s = timeout_s
        self._idle: queue.LifoQueue[http.client.HTTPConnection] = queue.LifoQueue()

    def close(self) -> None:
        """Close the idle connections; the client may be used again."""
        while not self._idle.empty():
            self._idle.get_nowait().close()

    def create(self, account: bytes, run: str = "") -> Answer:
        """Submit an account. Repeated on 503 and lost connections, which is safe: content decides, not count."""
        return self._request("POST", "/v2/data-import/accounts/" + (f"?run={run}" if run else ""), account)

    def validate(self, account: bytes) -> Answer:
        return self._request("POST", "/v2/data-import/accounts/validate/", account)

    def status(self, supplier: str, external: str) -> Answer:
        return self._request("GET", f"/v2/data-import/accounts/{quote(supplier, '')}/{quote(external, '')}/")

    def imported(self, supplier: str) -> Answer:
        return self._request("GET", f"/v1/data-import/imported-account-import-processes/{quote(supplier, '')}/")

    def all(self, supplier: str) -> Answer:
        return self._request("GET", f"/v1/data-import/all-account-import-processes/{quote(supplier, safe='')}/")

    def pending(self, supplier: str) -> Answer:
        return self._request("GET", f"/v1/data-import/pending-account-import-processes/{quote(supplier, '')}/")

    def create_all(self, accounts: Iterable[bytes], *, connections: int = 8) -> Iterator[Answer]:
        """Submit a book over several connections; answers come in the book's order."""
        with ThreadPoolExecutor(connections) as pool:
            yield from pool.map(self.create, accounts)

    def token(self) -> str:
        """Return a fresh token."""
        body = msgspec.json.encode({"query": _OBTAIN, "variables": {"key": self._api_key}})
        answer = self._exchange("POST", "/v1/graphql/", body, {})
        if answer.status != 200 or answer.body.get("errors"):
            raise PermissionError(f"no token was given: {answer.body}")
        return str(answer.body["data"]["obtainToken"]["token"])

    def _request(self, method: str, path: str, body: bytes | None = None) -> Answer:
        def attempt() -> Answer:
            return self._exchange(method, path, body, {"Authorization": f"Token {self._api_key}"})

        return _repeated(attempt, self._tries)

    def _exchange(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        try:
            connection = self._idle.get_nowait()
        except queue.Empty:
            connection = http.client.HTTPConnection(*self._address, timeout=self._timeout_s)
        try:
            connection.request(method, path, body, headers | {"Content-Type": "application/json"})
            response = connection.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException):
            connection.close()
            raise
        self._idle.put(connection)
        return Answer(response.status, json.loads(text) if text else None)


def _repeated(attempt: Callable[[], Answer], tries: int) -> Answer:
    delay_s = 0.1
    for turn in range(1, tries + 1):
        try:
            answer = attempt()
            if answer.status != 503 or turn == tries:
                return answer
        except (OSError, http.client.HTTPException):
            if turn == tries:
                raise
        time.sleep(delay_s)
        delay_s *= 2
    raise AssertionError("unreachable")
