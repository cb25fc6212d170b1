"""The client for programs on an event loop: the same verbs as `Client`, awaited."""

import asyncio
import contextlib
import time
import uuid
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any, Self, TypeVar

import httpx

from importledger_client import protocol
from importledger_client.answers import Failure, ImportStatus, JobProgress, Receipt, Run
from importledger_client.batches import Batch, Batcher, Underway
from importledger_client.client import Account
from importledger_client.errors import TimedOut
from importledger_client.incoming import Lines, Whole, understood
from importledger_client.protocol import Answered, Patience, Settings, Token, place
from importledger_client.transport import LATER, LIMITS, TIMEOUT, Waits, unavailable

T = TypeVar("T")


class AsyncClient:
    """The import ledger, for one key: `async with AsyncClient() as client`. See `Client` for what each verb does."""

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        patience_s: float = protocol.PATIENCE_S,
        first_patience_s: float = protocol.FIRST_PATIENCE_S,
        on_wait: Callable[[str, float], None] | None = None,
        traceparent: protocol.TraceParent = None,
        insecure_http: bool = False,
    ) -> None:
        self._transport = AsyncTransport(
            Settings.of(url, key, traceparent, insecure_http=insecure_http),
            Waits(patience_s, first_patience_s, on_wait),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._transport.close()

    async def create(self, account: Account, *, run: str | None = None, idempotency_key: str | None = None) -> Receipt:
        """Hand an account in: afterwards it is durably taken in, PENDING. Raises Refused, AlreadyImported."""
        body = protocol.body_of(account)
        headers = {"Idempotency-Key": idempotency_key or uuid.uuid4().hex}
        await self._transport.request("POST", protocol.CREATE, body, headers, {"run": run} if run else None)
        return protocol.receipt_of(body, "PENDING")

    async def validate(self, account: Account) -> Receipt:
        """Ask what the service would refuse, and leave nothing behind. Raises Refused with every `.errors`."""
        body = protocol.body_of(account)
        await self._transport.request("POST", protocol.VALIDATE, body)
        return protocol.receipt_of(body, "VALID")

    async def status(self, supplier: str, number: str) -> ImportStatus:
        """What has become of an account. Raises NotFound."""
        return understood(protocol.STATUS, await self._transport.request("GET", place("accounts", supplier, number)))

    async def wait(self, supplier: str, number: str, *, timeout_s: float = 300.0) -> ImportStatus:
        """The status once the import has ended, well or badly. Raises TimedOut after so many seconds."""
        ends, pause_s = time.monotonic() + timeout_s, 0.1
        while not (status := await self.status(supplier, number)).has_ended:
            if time.monotonic() > ends:
                raise TimedOut(f"{number} is still {status.status} after {timeout_s:g} s.")
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 1.5, 2.0)
        return status

    async def push(
        self,
        accounts: Iterable[Account] | AsyncIterable[Account],
        *,
        mode: str = "create",
        run: str | None = None,
        connections: int = 4,
    ) -> AsyncIterator[Receipt]:
        """Send any number of accounts; receipts come in their order. Never raises for a refusal. See `Client.push`."""
        query = protocol.run_query(mode, run)
        batcher, gate = Batcher(), asyncio.Semaphore(connections)
        underway = Underway[asyncio.Task[Batch]](connections)
        try:
            async for batch in batcher.batches_of(accounts):
                while underway.is_full or underway.has_first(asyncio.Task.done):
                    for receipt in batcher.learn(await underway.first()).receipts:
                        yield receipt
                underway.add(asyncio.create_task(self._send(batch, query, gate)), batch)
            while underway:
                for receipt in batcher.learn(await underway.first()).receipts:
                    yield receipt
        finally:
            for task in underway:
                task.cancel()

    async def run(self, supplier: str, run: str) -> Run:
        """A run as it is now. Raises NotFound."""
        return understood(protocol.RUN, await self._transport.request("GET", place("runs", supplier, run)))

    async def runs(self, supplier: str) -> tuple[Run, ...]:
        """All runs of a supplier."""
        return understood(protocol.RUNS, await self._transport.request("GET", place("runs", supplier)))

    async def failures(self, supplier: str, run: str, *, status: str = "ERRORED") -> AsyncIterator[Failure]:
        """The accounts of a run that have ended in this status, with number and error, streamed."""
        path = place("runs", supplier, run, "imports")
        async with self._transport.stream("GET", path, {"status": status}) as answer:
            async for line in _lines_of(answer):
                if line.strip():
                    yield understood(protocol.FAILURE, line)

    async def totals(
        self, supplier: str, run: str, *, on_progress: Callable[[JobProgress], None] | None = None
    ) -> dict[str, Any]:
        """Counts and exact sums of what the platform's tables hold of a run. See `Client.totals`."""
        return await self._added_up("GET", place("runs", supplier, run, "totals"), None, on_progress)

    async def cancel_totals(self, supplier: str, run: str) -> JobProgress:
        """Stop adding up a run. Raises NotFound when nobody does."""
        path = place("runs", supplier, run, "totals", "cancel")
        return understood(protocol.JOB_PROGRESS, await self._transport.request("POST", path))

    async def certificate(
        self,
        supplier: str,
        run: str,
        manifest: Mapping[str, Any],
        *,
        on_progress: Callable[[JobProgress], None] | None = None,
    ) -> dict[str, Any]:
        """The signed statement that the platform holds what the manifest counts. Raises Refused: not_balanced."""
        path, body = place("runs", supplier, run, "certificate"), protocol.encode(manifest)
        return await self._added_up("POST", path, body, on_progress)

    async def _added_up(
        self,
        method: str,
        path: str,
        body: bytes | None,
        on_progress: Callable[[JobProgress], None] | None,
    ) -> dict[str, Any]:
        while True:
            answered = await self._transport.answered(method, path, body)
            if (progress := answered.progress) is None:
                return answered.body
            if on_progress:
                on_progress(progress)
            await asyncio.sleep(protocol.ASK_AGAIN_S)

    async def _send(self, batch: Batch, query: Mapping[str, str], gate: asyncio.Semaphore) -> Batch:
        async with gate:
            patience = self._transport.new_patience()
            while not batch.is_complete:
                before = len(batch.receipts)
                try:
                    sending = self._transport.once("POST", protocol.BULK, batch.content(), batch.headers, query)
                    async with sending as answer:
                        async for line in _lines_of(answer):
                            batch.take(line)
                    batch.check()
                except LATER as problem:
                    if len(batch.receipts) > before:
                        patience = self._transport.new_patience()
                    await self._transport.pause(patience, problem)
        return batch


class AsyncTransport:
    """What `Transport` is, on an event loop."""

    def __init__(self, settings: Settings, waits: Waits) -> None:
        self._settings = settings
        self._waits = waits
        self._http = httpx.AsyncClient(
            base_url=settings.url, timeout=TIMEOUT, limits=LIMITS, trust_env=settings.uses_proxies
        )
        self._token = Token()
        self._token_lock = asyncio.Lock()
        self._is_known = False

    async def close(self) -> None:
        await self._http.aclose()

    async def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> bytes:
        return (await self.answered(method, path, body, headers, query)).content

    async def answered(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> Answered:
        async def attempt() -> Answered:
            async with self.once(method, path, body, headers, query) as answer:
                return Answered(answer.status_code, await _whole(answer))

        return await self.patiently(attempt)

    @contextlib.asynccontextmanager
    async def stream(
        self, method: str, path: str, query: Mapping[str, str] | None = None
    ) -> AsyncIterator[httpx.Response]:
        async with contextlib.AsyncExitStack() as stack:

            async def attempt() -> httpx.Response:
                return await stack.enter_async_context(self.once(method, path, query=query))

            yield await self.patiently(attempt)

    @contextlib.asynccontextmanager
    async def once(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> AsyncIterator[httpx.Response]:
        for is_last in (False, True):
            token = await self._valid_token()
            sent = self._settings.fields(token, headers)
            async with self._http.stream(method, path, content=body, headers=sent, params=query) as answer:
                self._is_known = True
                if answer.is_success:
                    yield answer
                    return
                content = await _whole(answer)
            if answer.status_code != 401 or is_last:
                raise protocol.fault(answer.status_code, content, answer.headers.get("retry-after"))
            if self._token.text == token:
                self._token.forget()

    async def patiently(self, attempt: Callable[[], Awaitable[T]]) -> T:
        patience = self.new_patience()
        while True:
            try:
                return await attempt()
            except LATER as problem:
                await self.pause(patience, problem)

    def new_patience(self) -> Patience:
        return self._waits.patience(is_stranger=not self._is_known)

    async def pause(self, patience: Patience, problem: Exception) -> None:
        wait_s = patience.wait_s(problem, is_known=self._is_known)
        if wait_s is None:
            raise unavailable(self._settings, problem)
        self._waits.told(problem, wait_s)
        await asyncio.sleep(wait_s)

    async def _valid_token(self) -> str:
        async with self._token_lock:
            if not self._token.is_good:
                body = protocol.token_request(self._settings.key)
                headers = {"Content-Type": "application/json"}
                async with self._http.stream("POST", protocol.TOKEN, content=body, headers=headers) as answer:
                    self._is_known = True
                    self._token.take(answer.status_code, await _whole(answer))
            return self._token.text


async def _lines_of(answer: httpx.Response) -> AsyncIterator[bytes]:
    lines = Lines()
    async for part in answer.aiter_bytes():
        for line in lines.feed(part):
            yield line
    for line in lines.end():
        yield line


async def _whole(answer: httpx.Response) -> bytes:
    whole = Whole()
    async for part in answer.aiter_bytes():
        whole.feed(part)
    return bytes(whole.content)
