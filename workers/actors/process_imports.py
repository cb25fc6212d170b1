"""The actor that processes imports: payload → typed account → platform records, account number and event.

The imports of a message are processed together, in pieces of a bounded size: a transaction starts a piece (`starting`),
and another transaction completes the piece (`completing`).
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import msgspec
import structlog

from eventstore.aggregates.aggregate import Command
from eventstore.aggregates.import_process import FailImport, ImportProcess, identity_of
from eventstore.clock import now
from eventstore.errors import StoreUnavailable
from eventstore.events import NO_METADATA, Metadata, metadata_of, origin
from eventstore.log.ledger import Ledger, Loaded
from eventstore.log.payloads import MAX_OPEN_BYTES, archive_url, in_batches
from market.plausibility import today_in_germany
from market.submission_check import problem_names
from projections.platform.rows import undated_rows_of
from telemetry.measures import measures
from telemetry.spans import spans
from workers.actors.account_number import draw_account_numbers
from workers.actors.completing import Completer, Ready
from workers.actors.references import References, SettingsByCode, references_of
from workers.actors.sandbox import command_for, slowness_s
from workers.actors.starting import Started, Starter, until_available
from workers.actors.stored_account import account_of, invalid

logger = structlog.get_logger()

_SELECT_STAGED = """
SELECT DISTINCT ON (stream) state FROM events
WHERE stream = ANY(%s) AND topic = 'import_staged.v1'
ORDER BY stream, version DESC
"""


class ImportProcessor:
    """Processes imports to their end. `worker` returns the number whose advisory lock this process holds."""

    def __init__(
        self,
        ledger: Ledger,
        *,
        worker: Callable[[], int],
        is_sandbox: bool = False,
        allowed_urls: Mapping[str, Sequence[str]] = MappingProxyType({}),
    ) -> None:
        """`allowed_urls`: by organisation, the URLs below which its documents may be."""
        self._ledger = ledger
        self._is_sandbox = is_sandbox
        self._worker = worker
        self._starter = Starter(ledger, worker)
        self._completer = Completer(ledger, self._by)
        self._references = References(ledger, allowed_urls)

    def process(self, streams: list[str]) -> None:
        """Process imports to their end, except imports that are not due, that another worker has taken, or that belong
        to paused suppliers. Never raises for a bad import. Waits while the database is unavailable; after the last try,
        the sweeper sends the imports again in another message.
        """
        try:
            known = until_available(lambda: traceparents(self._ledger, streams), len(streams))
            with spans().of_work("process imports", known) as traceparent:
                token = origin.set(Metadata(traceparent=traceparent) if traceparent else NO_METADATA)
                try:
                    self._process(streams)
                finally:
                    origin.reset(token)
        except StoreUnavailable as error:
            logger.warning("imports will be retried by the sweeper", streams=len(streams), reason=str(error))

    def _process(self, streams: list[str]) -> None:
        suppliers = {identity_of(stream)[0] for stream in streams}
        settings = until_available(lambda: self._references.settings(suppliers), len(streams))
        due = [stream for stream in streams if not settings[identity_of(stream)[0]].is_paused]
        loaded = until_available(lambda: self._ledger.try_load(due), len(due))
        states = {stream: found.state for stream, found in loaded.items() if isinstance(found, Loaded)}
        for piece in in_batches(due, lambda stream: _payload_bytes(states.get(stream)), MAX_OPEN_BYTES):
            started = self._starter.start(piece, loaded)
            if self._is_sandbox:
                started = self._without_sandbox_outcomes(started, settings)
            # Smaller pieces again: some payloads were replaced after the streams were read.
            for part in in_batches(started, lambda attempt: _payload_bytes(attempt.process), MAX_OPEN_BYTES):
                began = time.perf_counter()
                self._finish_or_postpone(part, settings)
                measures().processed(len(part), time.perf_counter() - began)

    def _finish_or_postpone(self, started: list[Started], settings: SettingsByCode) -> None:
        """Finish or postpone imports.

        This call may be repeated: the log refuses a step that was done before, or by another worker.
        """
        try:
            until_available(lambda: self._finish(started, settings), len(started))
        except StoreUnavailable:
            raise
        except Exception:
            logger.exception("imports are postponed", imports=len(started))
            self._completer.postpone(started)

    def _without_sandbox_outcomes(self, started: Sequence[Started], settings: SettingsByCode) -> list[Started]:
        """End the imports whose account number selects an outcome, and return the imports to finish now.

        A timer finishes each slow import, so that other imports do not wait.
        """
        at = self._ledger.time()
        outcomes = {attempt.stream: command_for(attempt.stream, attempt.process, at) for attempt in started}
        commands = {stream: command for stream, command in outcomes.items() if command is not None}
        if commands:
            self._ledger.execute_many(commands, at=at, by=self._by())
        at_once = []
        for attempt in started:
            if attempt.stream in commands:
                continue
            if seconds := slowness_s(attempt.stream):
                timer = threading.Timer(seconds, self._finish_late, ([attempt], settings))
                timer.daemon = True
                timer.start()
            else:
                at_once.append(attempt)
        return at_once

    def _finish_late(self, started: list[Started], settings: SettingsByCode) -> None:
        try:
            self._finish_or_postpone(started, settings)
        except StoreUnavailable as error:
            logger.warning("imports will be retried by the sweeper", streams=len(started), reason=str(error))

    def _by(self) -> str:
        return f"worker:{self._worker()}"

    def _finish(self, started: Sequence[Started], settings: SettingsByCode) -> None:
        if not started:
            return
        read, failures = self._read(started, settings)
        ready = self._checked(read, settings, failures)
        if failures:
            self._ledger.execute_many(failures, at=now(), by=self._by())
        for is_dry_run in (False, True):
            batch = [prepared for prepared in ready if prepared.started.process.is_dry_run is is_dry_run]
            self._completer.complete(batch, is_dry_run=is_dry_run)

    def _read(self, started: Sequence[Started], settings: SettingsByCode) -> tuple[list[Ready], dict[str, Command]]:
        """Return the imports whose accounts could be read, and for each other import the command that ends it."""
        digests = {
            attempt.stream: attempt.process.staged.payload_sha256 for attempt in started if attempt.process.staged
        }
        payloads = self._ledger.payloads(digests)
        archived = self._archived([stream for stream in digests if stream not in payloads])
        # sorted, so that rows of accounts that are created together are neighbours
        with self._ledger.connection() as connection:
            numbers = iter(sorted(draw_account_numbers(connection, len(payloads))))
        at = now()
        today = today_in_germany(at)
        ready: list[Ready] = []
        failures: dict[str, Command] = {}
        for attempt in started:
            terms, body = settings[identity_of(attempt.stream)[0]].terms, payloads.get(attempt.stream)
            try:
                account = account_of(body, attempt.process, terms, at, is_archived=attempt.stream in archived)
                if isinstance(account, FailImport):
                    failures[attempt.stream] = account
                    continue
                number = next(numbers)
                references = references_of(account, today, is_dry_run=attempt.process.is_dry_run)
                ready.append(Ready(attempt, number, undated_rows_of(account, number), references))
            except Exception:  # other imports continue
                logger.exception("import is postponed", stream=attempt.stream, attempt=attempt.process.attempt)
                failures[attempt.stream] = attempt.postponed("processing_failed", self._ledger.time())
        return ready, failures

    def _archived(self, streams: Sequence[str]) -> set[str]:
        """Return the streams whose payloads are in an archive."""
        if not streams:
            return set()
        with self._ledger.connection() as connection:
            return {stream for stream in streams if archive_url(connection, identity_of(stream)[0], stream) is not None}

    def _checked(self, read: Sequence[Ready], settings: SettingsByCode, failures: dict[str, Command]) -> list[Ready]:
        """Return the imports whose references are valid. For each other import, add a command to `failures`."""
        ready: list[Ready] = []
        found = self._references.findings([prepared.references for prepared in read], settings) if read else []
        for prepared, findings in zip(read, found, strict=True):
            if findings.errors:
                failures[prepared.started.stream] = invalid(prepared.started.process.start, findings.errors)
            elif findings.is_unknown:
                later = prepared.started.postponed("document_store_unavailable", self._ledger.time())
                failures[prepared.started.stream] = later
            else:
                supplier_settings, warnings = settings[prepared.references.supplier], problem_names(findings.warnings)
                ready.append(msgspec.structs.replace(prepared, warnings=warnings, supplier_settings=supplier_settings))
        return ready


def _payload_bytes(state: object) -> int:
    """Return the size of an import's staged payload; 0 if `state` is not the state of an import."""
    return state.staged.payload_bytes if isinstance(state, ImportProcess) and state.staged is not None else 0


def traceparents(ledger: Ledger, streams: Sequence[str]) -> list[str]:
    """Return the trace contexts of the last requests that staged these imports, if traced. Raises StoreUnavailable."""
    if not spans().is_on:
        return []
    with ledger.connection() as connection:
        rows = connection.execute(_SELECT_STAGED, (list(streams),))
        known = [metadata_of(row["state"]).traceparent for row in rows]
    return [traceparent for traceparent in known if traceparent]
