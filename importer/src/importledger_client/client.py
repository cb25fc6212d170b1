"""The client for Python programs: one object for any number of threads."""

import collections
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, Self, TypeVar

from importledger_client import protocol
from importledger_client.answers import (
    AccountDifference,
    Content,
    Failure,
    ImportStatus,
    JobProgress,
    Receipt,
    Run,
    SupplierProgress,
)
from importledger_client.batches import Batch, Batcher, Sent, is_to_be_awaited, received
from importledger_client.errors import Misconfigured, TimedOut
from importledger_client.language import _
from importledger_client.protocol import BULK, BULK_TYPE, decoded, lines_of, path_of
from importledger_client.transport import LATER, TraceParent, Transport

T = TypeVar("T")

Account = Any
"""An account as a dict, or as JSON text or bytes; also in the form `{"payload": …, "task_params": …}`."""

ADDING_UP = 202
"""HTTP status while a job computes the totals of a run."""
POLL_S = 0.1
"""Pause between two requests for the progress of a job [seconds]. The service delays each answer itself."""


class Client:
    """A client of the import ledger with one key. Threads may share it.

    `url` and `key` default to IMPORTLEDGER_URL and IMPORTLEDGER_KEY. The client obtains and renews tokens. It repeats a
    request that may succeed later, with growing, random pauses, for `retry_timeout_s` seconds (`first_retry_timeout_s`
    before the first answer of the service). Repeating is safe, because a create has an idempotency key, and the service
    recognises an account by its number and content. `on_wait` is called before each pause with the reason and the
    seconds. `traceparent` is sent with every request: a text, or a function that returns it. Plain HTTP to another
    machine needs `insecure_http`, since others can read the key. Redirects are not followed. Sentences of the service
    are in `language`, en or de.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        retry_timeout_s: float = 1800.0,
        first_retry_timeout_s: float = 20.0,
        on_wait: Callable[[str, float], None] | None = None,
        traceparent: TraceParent = None,
        insecure_http: bool = False,
        language: str = "en",
    ) -> None:
        self._transport = Transport(
            url,
            key,
            retry_timeout_s=retry_timeout_s,
            first_retry_timeout_s=first_retry_timeout_s,
            on_wait=on_wait,
            traceparent=traceparent,
            insecure_http=insecure_http,
            language=language,
        )

    def close(self) -> None:
        """Close all connections. Requests that are waiting raise Unavailable."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def create(self, account: Account, *, run: str | None = None, idempotency_key: str | None = None) -> Receipt:
        """Send an account, and return when the service has stored it durably with status PENDING.

        Raises Refused with all `.errors`, AlreadyImported with `.service_identifier` for an account that is on the
        platform.
        """
        body = protocol.body_of(account)
        headers = {"Idempotency-Key": idempotency_key or uuid.uuid4().hex}
        params = {"run": run} if run else None
        self._transport.request("POST", protocol.CREATE, content=body, headers=headers, params=params)
        return protocol.receipt_of(body, "PENDING")

    def validate(self, account: Account) -> Receipt:
        """Check an account without storing it. Raises Refused with all `.errors`."""
        body = protocol.body_of(account)
        self._transport.request("POST", protocol.VALIDATE, content=body)
        return protocol.receipt_of(body, "VALID")

    def status(self, supplier: str, number: str) -> ImportStatus:
        """Return the status of an account, by its number in the old system. Raises NotFound."""
        return self._read(ImportStatus, "accounts", supplier, number)

    def wait(self, supplier: str, number: str, *, timeout_s: float = 300.0) -> ImportStatus:
        """Return the status when the import has ended, with success or not. Raises TimedOut after `timeout_s`."""
        ends, pause_s = time.monotonic() + timeout_s, 0.1
        while not (status := self.status(supplier, number)).has_ended:
            if time.monotonic() > ends:
                raise TimedOut(
                    _(
                        "{number} is still {status} after {time} s.",
                        number=number,
                        status=status.status,
                        time=f"{timeout_s:g}",
                    )
                )
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.5, 2.0)
        return status

    def push(
        self, accounts: Iterable[Account], *, mode: str = "create", run: str | None = None, connections: int = 4
    ) -> Iterator[Receipt]:
        """Send any number of accounts, and yield their receipts in the same order while further accounts are being
        sent.

        A refused account is a receipt with status REFUSED, not an exception. Empty lines are counted, but have no
        receipt. `mode` is create, validate or dry_run; `run` is the name of their run. Memory does not grow with the
        accounts. Raises NotAllowed for the key, and Unavailable after `retry_timeout_s`. Repeating a push takes little
        time: accounts that the service already has are `replayed`.
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
        """Send accounts like `push`, and yield whole batches with their receipts.

        A line must not contain a line break. An exception, also of `lines`, follows after all receipts that arrive: a
        batch may lack some then.
        """
        if mode not in protocol.MODES:
            modes = ", ".join(protocol.MODES)
            raise Misconfigured(_("The mode must be one of {modes}, not {mode}.", modes=modes, mode=mode))
        query = {"mode": mode, "suggest": "1"} | ({"run": run} if run else {})
        batcher = Batcher(most_lines)
        pool = ThreadPoolExecutor(connections, thread_name_prefix="push")
        sent = collections.deque[Sent]()
        problems: list[Exception] = []
        ended: list[Exception] = []
        try:
            for batch in batcher.batches(_until_exception(lines, ended)):
                while is_to_be_awaited(sent, connections):
                    yield batcher.adjust(received(sent.popleft(), problems))
                if problems:
                    break
                sent.append((pool.submit(copy_context().run, self._send, batch, query), batch))
            while sent:
                yield batcher.adjust(received(sent.popleft(), problems))
            for error in (*problems, *ended):
                raise error
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def run(self, supplier: str, run: str) -> Run:
        """Return the present state of a run. Raises NotFound."""
        return self._read(Run, "runs", supplier, run)

    def runs(self, supplier: str) -> tuple[Run, ...]:
        """Return all runs of a supplier."""
        return self._read(tuple[Run, ...], "runs", supplier)

    def failures(self, supplier: str, run: str, *, status: str = "ERRORED") -> Generator[Failure, None, None]:
        """Yield the accounts of a run that have ended in this status, with number and error."""
        with self._transport.stream(path_of("runs", supplier, run, "imports"), params={"status": status}) as answer:
            for line in lines_of(answer.iter_bytes()):
                if line.strip():
                    yield decoded(Failure, line)

    def totals(
        self, supplier: str, run: str, *, on_progress: Callable[[JobProgress], None] | None = None
    ) -> dict[str, Any]:
        """Return counts and exact sums of the platform's records of a run.

        A worker computes the totals. `on_progress` is called with the worker's progress every few seconds. After an
        interruption, repeat the call to continue.
        """
        return self._added_up("GET", path_of("runs", supplier, run, "totals"), None, on_progress)

    def cancel_totals(self, supplier: str, run: str) -> JobProgress:
        """Cancel the job that computes the totals of a run. Raises NotFound without a job."""
        answer = self._transport.request("POST", path_of("runs", supplier, run, "totals", "cancel"))
        return decoded(JobProgress, answer.content)

    def certificate(
        self,
        supplier: str,
        run: str,
        manifest: Mapping[str, Any],
        *,
        on_progress: Callable[[JobProgress], None] | None = None,
    ) -> dict[str, Any]:
        """Return the signed certificate that the platform's totals equal the manifest. Raises Refused: not_balanced.

        `on_progress` is the same as for `totals`. The certificate contains the totals.
        """
        path, body = path_of("runs", supplier, run, "certificate"), protocol.encode(manifest)
        return self._added_up("POST", path, body, on_progress)

    def differences(
        self, supplier: str, run: str, source: Mapping[str, Any], *, shows: bool = False
    ) -> list[AccountDifference]:
        """Return the accounts that differ from the accounts of a source, given by digests.

        `shows` requests unmasked values.
        """
        path, body = path_of("runs", supplier, run, "differences"), protocol.encode(source)
        params = {"show": "true"} if shows else {}
        return decoded(
            list[AccountDifference], self._transport.request("POST", path, content=body, params=params).content
        )

    def progress(self, supplier: str) -> SupplierProgress:
        """Return the number of a supplier's imports, in total and by status. Raises NotFound."""
        return self._read(SupplierProgress, "suppliers", supplier, "progress")

    def pull(self, supplier: str) -> Generator[list[Content], None, None]:
        """Yield each import of a supplier: account and records in the format of an import, or the status of an import
        without an account.

        After a broken connection, the next request continues after the last import that was yielded. Raises NotFound.
        """
        path, after, attempts = path_of("suppliers", supplier, "content"), 0, self._transport.new_attempts()
        while True:
            contents: list[Content] = []
            try:
                with self._transport.once("GET", path, params={"continue_after": str(after)}) as answer:
                    for line in lines_of(answer.iter_bytes()):
                        content = decoded(Content, line)
                        if contents and content.position != contents[0].position:
                            yield contents
                            after, attempts, contents = contents[0].position, self._transport.new_attempts(), []
                        contents.append(content)
                if contents:
                    yield contents
                return
            except LATER as problem:
                attempts.pause(problem)

    def retry(self, supplier: str, external: str) -> None:
        """Process a failed account again. Raises Refused if it has not failed."""
        self._transport.request("POST", path_of("accounts", supplier, external, "retry"), content=b"{}")

    def heal(self, supplier: str, external: str) -> None:
        """Request that the platform's rows of an account are made again from the log. Needs an operator's key."""
        self._transport.request("POST", path_of("accounts", supplier, external, "heal"), content=b"{}")

    def _read(self, kind: type[T], *parts: str) -> T:
        return decoded(kind, self._transport.request("GET", path_of(*parts)).content)

    def _added_up(
        self, method: str, path: str, body: bytes | None, on_progress: Callable[[JobProgress], None] | None
    ) -> dict[str, Any]:
        """Repeat a request until the job has ended. Until then, the answers have the job's progress."""
        while (answer := self._transport.request(method, path, content=body)).status == ADDING_UP:
            progress = decoded(JobProgress, answer.content)
            if on_progress:
                on_progress(progress)
            time.sleep(POLL_S)
        return decoded(dict[str, Any], answer.content)

    def _send(self, batch: Batch, query: Mapping[str, str]) -> Batch:
        """Send lines until each line has a receipt. After a broken connection, send only lines without a receipt."""
        attempts = self._transport.new_attempts()
        while not batch.is_complete:
            before = len(batch.receipts)
            try:
                content = batch.content()
                with self._transport.once("POST", BULK, content=content, headers=BULK_TYPE, params=query) as answer:
                    collections.deque(map(batch.add_receipt, lines_of(answer.iter_bytes())), maxlen=0)
                batch.check()
            except LATER as problem:
                if len(batch.receipts) > before:
                    attempts = self._transport.new_attempts()
                attempts.pause(problem)
        return batch


def _until_exception(lines: Iterable[bytes], ended: list[Exception]) -> Iterator[bytes]:
    """Yield lines until they raise an exception, which is added to `ended`."""
    try:
        yield from lines
    except Exception as error:
        ended.append(error)
