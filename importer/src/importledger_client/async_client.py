"""The client for programs on an event loop: the verbs of `Client`, each in a thread, awaited."""

import asyncio
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any, ParamSpec, Self, TypeVar

from importledger_client import protocol
from importledger_client.answers import Failure, ImportStatus, JobProgress, Receipt, Run
from importledger_client.client import Account, Client
from importledger_client.errors import TimedOut

P = ParamSpec("P")
T = TypeVar("T")

THREADS = 64
"""Requests at a time. Others wait for a thread."""


class AsyncClient:
    """The import ledger, for one key: `async with AsyncClient() as client`. See `Client` for what each verb does.

    Callbacks and sources of accounts run in the event loop. A cancelled request may still be sent.
    """

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
        self._client = Client(
            url,
            key,
            patience_s=patience_s,
            first_patience_s=first_patience_s,
            on_wait=self._in_loop(on_wait),
            traceparent=traceparent,
            insecure_http=insecure_http,
        )
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="importledger")
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End all connections; what is waiting ends with Unavailable."""
        self._client.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def create(self, account: Account, *, run: str | None = None, idempotency_key: str | None = None) -> Receipt:
        """Hand an account in: afterwards it is durably taken in, PENDING. Raises Refused, AlreadyImported."""
        return await self._awaited(self._client.create, account, run=run, idempotency_key=idempotency_key)

    async def validate(self, account: Account) -> Receipt:
        """Ask what the service would refuse, and leave nothing behind. Raises Refused with every `.errors`."""
        return await self._awaited(self._client.validate, account)

    async def status(self, supplier: str, number: str) -> ImportStatus:
        """What has become of an account. Raises NotFound."""
        return await self._awaited(self._client.status, supplier, number)

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
        lines = map(protocol.body_of, _pulled(accounts, asyncio.get_running_loop()))
        batches = self._client.push_batches(lines, mode=mode, run=run, connections=connections)
        async for batch in self._each(batches):
            for receipt in batch.receipts:
                yield receipt

    async def run(self, supplier: str, run: str) -> Run:
        """A run as it is now. Raises NotFound."""
        return await self._awaited(self._client.run, supplier, run)

    async def runs(self, supplier: str) -> tuple[Run, ...]:
        """All runs of a supplier."""
        return await self._awaited(self._client.runs, supplier)

    async def failures(self, supplier: str, run: str, *, status: str = "ERRORED") -> AsyncIterator[Failure]:
        """The accounts of a run that have ended in this status, with number and error, streamed."""
        async for failure in self._each(self._client.failures(supplier, run, status=status)):
            yield failure

    async def totals(
        self, supplier: str, run: str, *, on_progress: Callable[[JobProgress], None] | None = None
    ) -> dict[str, Any]:
        """Counts and exact sums of what the platform's tables hold of a run. See `Client.totals`."""
        heard = self._in_loop(on_progress)
        return await self._awaited(self._client.totals, supplier, run, on_progress=heard)

    async def cancel_totals(self, supplier: str, run: str) -> JobProgress:
        """Stop adding up a run. Raises NotFound when nobody does."""
        return await self._awaited(self._client.cancel_totals, supplier, run)

    async def certificate(
        self,
        supplier: str,
        run: str,
        manifest: Mapping[str, Any],
        *,
        on_progress: Callable[[JobProgress], None] | None = None,
    ) -> dict[str, Any]:
        """The signed statement that the platform holds what the manifest counts. Raises Refused: not_balanced."""
        heard = self._in_loop(on_progress)
        return await self._awaited(self._client.certificate, supplier, run, manifest, on_progress=heard)

    async def _awaited(self, verb: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Run a verb in a thread, with the caller's context variables."""
        self._loop = asyncio.get_running_loop()
        return await self._loop.run_in_executor(self._threads, partial(copy_context().run, verb, *arguments, **named))

    async def _each(self, items: Generator[T, None, None]) -> AsyncIterator[T]:
        """The items of a generator that runs in a thread of its own, where it is closed after its last step."""
        self._loop = asyncio.get_running_loop()
        thread = ThreadPoolExecutor(1, thread_name_prefix="importledger")
        step = partial(copy_context().run, next, items, None)
        try:
            while (item := await self._loop.run_in_executor(thread, step)) is not None:
                yield item
        finally:
            thread.submit(items.close)
            thread.shutdown(wait=False)

    def _in_loop(self, callback: Callable[P, None] | None) -> Callable[P, None] | None:
        """The callback for threads: it is called in the event loop."""
        if callback is None:
            return None

        def call(*arguments: P.args, **named: P.kwargs) -> None:
            assert self._loop is not None, "a verb runs"
            self._loop.call_soon_threadsafe(partial(callback, *arguments, **named))

        return call


_END = object()


def _pulled(accounts: Iterable[Account] | AsyncIterable[Account], loop: asyncio.AbstractEventLoop) -> Iterator[Account]:
    """The accounts for a thread. Each is taken from its source by the event loop."""
    source = aiter(accounts) if isinstance(accounts, AsyncIterable) else iter(accounts)

    async def account() -> Account:
        return next(source, _END) if isinstance(source, Iterator) else await anext(source, _END)

    while (taken := asyncio.run_coroutine_threadsafe(account(), loop).result()) is not _END:
        yield taken
