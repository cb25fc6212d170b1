"""The client for programs that wait: one object for any number of threads."""

import collections
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, Self

from importledger_client import protocol
from importledger_client.answers import Failure, ImportStatus, JobProgress, Receipt, Run
from importledger_client.batches import Batch, Batcher, Underway
from importledger_client.errors import TimedOut
from importledger_client.incoming import lines_of, understood
from importledger_client.protocol import Settings, place
from importledger_client.transport import LATER, Transport, Waits

Account = Any
"""A dict, a `wire.Account`, or JSON as text or bytes; with how to process it: `{"payload": …, "task_params": …}`."""


class Client:
    """The import ledger, for one key.

    `url` and `key` are taken from IMPORTLEDGER_URL and IMPORTLEDGER_KEY where they are not given. Tokens are obtained
    and renewed. What may work later is tried again, with growing, random pauses, for `patience_s` seconds (for
    `first_patience_s` while the service has never answered). All of it is safe to repeat: a create carries an
    idempotency key, and the service knows an account by its number and content. `on_wait` hears of each pause: why,
    and how many seconds. `traceparent` goes along with every request: a text, or what gives one.
    Plain HTTP to another machine needs `insecure_http`: others can read the key on its way. Redirects are not followed.
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
        self._transport = Transport(
            Settings.of(url, key, traceparent, insecure_http=insecure_http),
            Waits(patience_s, first_patience_s, on_wait),
        )

    def close(self) -> None:
        """End all connections; what is waiting ends with Unavailable."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def create(self, account: Account, *, run: str | None = None, idempotency_key: str | None = None) -> Receipt:
        """Hand an account in: when this returns it is durably taken in, PENDING.

        Raises Refused with every `.errors`, AlreadyImported with `.service_identifier` for one that is on the platform.
        """
        body = protocol.body_of(account)
        headers = {"Idempotency-Key": idempotency_key or uuid.uuid4().hex}
        self._transport.request("POST", protocol.CREATE, body, headers, {"run": run} if run else None)
        return protocol.receipt_of(body, "PENDING")

    def validate(self, account: Account) -> Receipt:
        """Ask what the service would refuse, and leave nothing behind. Raises Refused with every `.errors`."""
        body = protocol.body_of(account)
        self._transport.request("POST", protocol.VALIDATE, body)
        return protocol.receipt_of(body, "VALID")

    def status(self, supplier: str, number: str) -> ImportStatus:
        """What has become of an account, by its number in the old system. Raises NotFound."""
        return understood(protocol.STATUS, self._transport.request("GET", place("accounts", supplier, number)))

    def wait(self, supplier: str, number: str, *, timeout_s: float = 300.0) -> ImportStatus:
        """The status once the import has ended, well or badly. Raises TimedOut after so many seconds."""
        ends, pause_s = time.monotonic() + timeout_s, 0.1
        while not (status := self.status(supplier, number)).has_ended:
            if time.monotonic() > ends:
                raise TimedOut(f"{number} is still {status.status} after {timeout_s:g} s.")
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.5, 2.0)
        return status

    def push(
        self, accounts: Iterable[Account], *, mode: str = "create", run: str | None = None, connections: int = 4
    ) -> Iterator[Receipt]:
        """Send any number of accounts; receipts come in the accounts' order, while others are still on their way.

        Never raises for a refusal: that is a receipt with status REFUSED. Empty lines count, and have no receipt.
        `mode` is create, validate or dry_run; `run` is a name for all of them. Memory stays flat. Raises NotAllowed for
        the key, and Unavailable when patience is at its end; the same push again is then cheap, and says `replayed` of
        what was there.
        """
        for batch in self.push_batches(map(protocol.body_of, accounts), mode=mode, run=run, connections=connections):
            yield from batch.receipts

    def push_batches(
        self,
        lines: Iterable[bytes],
        *,
        mode: str = "create",
        run: str | None = None,
        connections: int = 4,
        most_lines: int | None = None,
    ) -> Generator[Batch, None, None]:
        """The same by batches: lines, without line breaks in them, beside their receipts."""
        query = protocol.run_query(mode, run)
        batcher = Batcher(most_lines)
        pool = ThreadPoolExecutor(connections, thread_name_prefix="push")
        underway = Underway(connections)
        try:
            for batch in batcher.batches(lines):
                while underway.is_full or underway.has_first:
                    yield batcher.learn(underway.first())
                underway.add(pool.submit(copy_context().run, self._send, batch, query), batch)
            while underway:
                yield batcher.learn(underway.first())
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def run(self, supplier: str, run: str) -> Run:
        """A run as it is now. Raises NotFound."""
        return understood(protocol.RUN, self._transport.request("GET", place("runs", supplier, run)))

    def runs(self, supplier: str) -> tuple[Run, ...]:
        """All runs of a supplier."""
        return understood(protocol.RUNS, self._transport.request("GET", place("runs", supplier)))

    def failures(self, supplier: str, run: str, *, status: str = "ERRORED") -> Generator[Failure, None, None]:
        """The accounts of a run that have ended in this status, with number and error, streamed."""
        with self._transport.stream("GET", place("runs", supplier, run, "imports"), {"status": status}) as answer:
            for line in lines_of(answer.iter_bytes()):
                if line.strip():
                    yield understood(protocol.FAILURE, line)

    def totals(
        self, supplier: str, run: str, *, on_progress: Callable[[JobProgress], None] | None = None
    ) -> dict[str, Any]:
        """Counts and exact sums of what the platform's tables hold of a run.

        A worker adds them up. `on_progress` is called with its progress every few seconds. After an interruption, the
        same call continues.
        """
        return self._added_up("GET", place("runs", supplier, run, "totals"), None, on_progress)

    def cancel_totals(self, supplier: str, run: str) -> JobProgress:
        """Stop adding up a run. Raises NotFound when nobody does."""
        path = place("runs", supplier, run, "totals", "cancel")
        return understood(protocol.JOB_PROGRESS, self._transport.request("POST", path))

    def certificate(
        self,
        supplier: str,
        run: str,
        manifest: Mapping[str, Any],
        *,
        on_progress: Callable[[JobProgress], None] | None = None,
    ) -> dict[str, Any]:
        """The signed statement that the platform holds what the manifest counts. Raises Refused: not_balanced.

        `on_progress` as in `totals`, which the certificate holds as well.
        """
        path, body = place("runs", supplier, run, "certificate"), protocol.encode(manifest)
        return self._added_up("POST", path, body, on_progress)

    def _added_up(
        self,
        method: str,
        path: str,
        body: bytes | None,
        on_progress: Callable[[JobProgress], None] | None,
    ) -> dict[str, Any]:
        """Ask until the answer is there. While a worker is at it, the answer is its progress."""
        while True:
            answered = self._transport.answered(method, path, body)
            if (progress := answered.progress) is None:
                return answered.body
            if on_progress:
                on_progress(progress)
            time.sleep(protocol.ASK_AGAIN_S)

    def _send(self, batch: Batch, query: Mapping[str, str]) -> Batch:
        """Send lines until each has its receipt; what had one when a connection broke is not sent again."""
        patience = self._transport.new_patience()
        while not batch.is_complete:
            before = len(batch.receipts)
            try:
                with self._transport.once("POST", protocol.BULK, batch.content(), batch.headers, query) as answer:
                    collections.deque(map(batch.take, lines_of(answer.iter_bytes())), maxlen=0)
                batch.check()
            except LATER as problem:
                if len(batch.receipts) > before:
                    patience = self._transport.new_patience()
                self._transport.pause(patience, problem)
        return batch
