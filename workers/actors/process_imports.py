"""Processing imports: payload → typed account → platform records, account number and event, in one transaction.

The imports of one message are done together, or as many of them as their payloads' size allows: one transaction to
start them, one to complete them. If anything in the batch fails, its halves are redone, and theirs, so that a bad
import hurts only itself, and its neighbours take a few transactions instead of one each.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TypeVar

import msgspec
import psycopg
import structlog

import market
from eventstore.aggregates import customer_mail
from eventstore.aggregates.aggregate import Command
from eventstore.aggregates.import_process import (
    CompleteImport,
    FailImport,
    ImportProcess,
    ImportStaged,
    ImportStarted,
    PostponeImport,
    StartImport,
    identity_of,
    stream_of,
)
from eventstore.clock import now
from eventstore.errors import LedgerError, Refused, StoreUnavailable, StreamUnreadable, first_line
from eventstore.events import NO_METADATA, Metadata
from eventstore.log.archived import archived_place
from eventstore.log.ledger import Ledger, Loaded
from eventstore.log.origin import origin
from eventstore.log.payloads import MAX_OPEN_BYTES, in_pieces
from market.judging import Occasion, Terms, judge, problem_names
from market.plausibility import today_in_germany
from projections.platform.rows import UndatedRows, undated_rows_of
from projections.platform.writing import copying
from projections.views.import_status import leased_imports
from projections.views.import_supplier import KnownSupplier
from schemas.account import Account
from schemas.base import Problem
from schemas.reading.duplicate_names import REPEATED_FIELD
from schemas.reading.problems import UNKNOWN_FIELD
from schemas.reading.shape import NotJson
from schemas.submission import stored_account, stored_submission
from telemetry.measures import measures
from telemetry.spans import spans
from workers.actors.account_number import draw_account_numbers
from workers.actors.references import References, Referring, Treatments, referring
from workers.actors.sandbox import command_for, slowness_s
from workers.backoff import backoff
from workers.traces import traceparents

MAX_ATTEMPTS = 5
LEASE = timedelta(seconds=60)
TRY_AGAIN_AFTER_S = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Pauses of a worker that has taken imports up and cannot reach the database; together shorter than the lease."""

_ARCHIVED = ("payload_archived", "The payload lies in the supplier's archive; attach it, then retry the import.")

T = TypeVar("T")

logger = structlog.get_logger()


class Started(msgspec.Struct, frozen=True):
    """An import that this worker has taken up; `process.start` is the token of the start, and the stream's version."""

    stream: str
    process: ImportProcess


class Ready(msgspec.Struct, frozen=True):
    """An import whose account is read, with the rows that it becomes; `warnings` are code@path.

    The account itself is let go: four hundred of them at a time are more than the processor's caches hold, and to read
    them, go through them and let go of them took a third longer.
    """

    started: Started
    number: str
    rows: UndatedRows
    referring: Referring
    warnings: tuple[str, ...] = ()
    treatment: KnownSupplier | None = None


class ImportProcessor:
    """Takes imports up and brings each to its end. `worker` gives the id whose advisory lock says that it lives."""

    def __init__(
        self,
        ledger: Ledger,
        *,
        worker: Callable[[], int],
        is_sandbox: bool = False,
        places: Mapping[str, Sequence[str]] = MappingProxyType({}),
    ) -> None:
        """`places`: where the documents of each organisation may lie."""
        self._ledger = ledger
        self._is_sandbox = is_sandbox
        self._worker = worker
        self._newest_lease = datetime.min.replace(tzinfo=UTC)
        self._lease_lock = threading.Lock()
        self._references = References(ledger, places)

    def process(self, streams: list[str]) -> None:
        """Bring these imports to their end. Streams that are not due, taken by others, or of paused suppliers are left.

        Never raises for a bad import. A database that is away for a moment is waited for; when it stays away nothing
        is lost: the sweeper rings again.
        """
        try:
            known = _in_the_end(lambda: traceparents(self._ledger, streams), len(streams))
            with spans().of_work("process imports", known) as traceparent:
                token = origin.set(Metadata(traceparent=traceparent) if traceparent else NO_METADATA)
                try:
                    self._process(streams)
                finally:
                    origin.reset(token)
        except StoreUnavailable as error:
            logger.warning("imports left to the sweeper", streams=len(streams), reason=str(error))

    def _process(self, streams: list[str]) -> None:
        suppliers = {identity_of(stream)[0] for stream in streams}
        treatments = _in_the_end(lambda: self._references.treatments(suppliers), len(streams))
        due = [stream for stream in streams if not treatments[identity_of(stream)[0]].is_paused]
        loaded = _in_the_end(lambda: self._ledger.look_at(due), len(due))
        states = {stream: one.state for stream, one in loaded.items() if isinstance(one, Loaded)}
        for piece in in_pieces(due, lambda stream: _payload_bytes(states.get(stream)), MAX_OPEN_BYTES):
            started = self._start(piece, loaded)
            if self._is_sandbox:
                started = self._not_asked_otherwise(started, treatments)
            for part in in_pieces(
                started, lambda one: _payload_bytes(one.process), MAX_OPEN_BYTES
            ):  # some were replaced
                began = time.perf_counter()
                self._finish_or_postpone(part, treatments)
                measures().processed(len(part), time.perf_counter() - began)

    def _finish_or_postpone(self, started: list[Started], treatments: Treatments) -> None:
        """To try again is safe: what was done has its effect already, and what others have taken over is refused."""
        try:
            _in_the_end(lambda: self._finish(started, treatments), len(started))
        except StoreUnavailable:
            raise
        except Exception:
            logger.exception("imports are postponed", imports=len(started))
            self._postpone(started)

    def _not_asked_otherwise(self, started: Sequence[Started], treatments: Treatments) -> list[Started]:
        """The imports to process now. In the sandbox a timer finishes the slow ones, so no others wait."""
        at = self._ledger.time()
        asked = {one.stream: command_for(one.stream, one.process, at) for one in started}
        commands = {stream: command for stream, command in asked.items() if command is not None}
        if commands:
            self._ledger.execute_many(commands, at=at, by=self._by)
        at_once = []
        for one in started:
            if one.stream in commands:
                continue
            if seconds := slowness_s(one.stream):
                timer = threading.Timer(seconds, self._finish_late, ([one], treatments))
                timer.daemon = True
                timer.start()
            else:
                at_once.append(one)
        return at_once

    def _finish_late(self, started: list[Started], treatments: Treatments) -> None:
        try:
            self._finish_or_postpone(started, treatments)
        except StoreUnavailable as error:
            logger.warning("imports left to the sweeper", streams=len(started), reason=str(error))

    def _start(self, streams: Sequence[str], loaded: Mapping[str, Loaded | StreamUnreadable]) -> list[Started]:
        at = _in_the_end(self._ledger.time, len(streams))
        command = StartImport(worker=self._worker(), lease_until=self._lease_from(at), max_attempts=MAX_ATTEMPTS)
        tries = 0

        def start() -> list[Started]:
            nonlocal tries
            tries += 1
            outcomes = self._ledger.execute_many(
                dict.fromkeys(streams, command),
                at=at,
                by=f"worker:{command.worker}",
                loaded={stream: loaded[stream] for stream in streams},
            )
            before = self._taken_under(command) if tries > 1 else set()
            return [
                Started(outcome.stream, outcome.state)
                for outcome in outcomes
                if outcome.stream in before or (outcome.recorded and isinstance(outcome.recorded.event, ImportStarted))
            ]

        return _in_the_end(start, len(streams))

    def _lease_from(self, at: datetime) -> datetime:
        """The end of a lease, which no other start of this process has: threads share the worker's number."""
        with self._lease_lock:
            self._newest_lease = max(at + LEASE, self._newest_lease + timedelta(microseconds=1))
            return self._newest_lease

    def _taken_under(self, command: StartImport) -> set[str]:
        """The imports that this very command has taken up, also where the database could not say so any more."""
        with self._ledger.connection() as connection:
            return {stream_of(*one) for one in leased_imports(connection, command.worker, command.lease_until)}

    @property
    def _by(self) -> str:
        return f"worker:{self._worker()}"

    def _postpone(self, started: Sequence[Started]) -> None:
        """Give back what has not ended; what has ended refuses, which is as it should be."""
        at = self._ledger.time()
        commands = {one.stream: _later(one, "processing_failed", at) for one in started}
        self._ledger.execute_many(commands, at=at, by=self._by)

    def _finish(self, started: Sequence[Started], treatments: Treatments) -> None:
        if not started:
            return
        read, failures = self._read(started, treatments)
        ready, refused = self._checked(read, treatments)
        failures |= refused
        if failures:
            self._ledger.execute_many(failures, at=now(), by=self._by)
        for is_dry_run in (False, True):
            self._finish_together(
                [one for one in ready if one.started.process.is_dry_run is is_dry_run], is_dry_run=is_dry_run
            )

    def _finish_together(self, batch: Sequence[Ready], *, is_dry_run: bool) -> None:
        """Complete these in one transaction; where that fails, those that nobody has taken over, or each half."""
        if len(batch) == 1:
            self._finish_alone(batch[0], is_dry_run=is_dry_run)
        elif batch and not self._completed(batch, is_dry_run=is_dry_run):
            left, middle = self._in_hand(batch), len(batch) // 2
            for part in (left,) if len(left) < len(batch) else (batch[:middle], batch[middle:]):
                self._finish_together(part, is_dry_run=is_dry_run)

    def _in_hand(self, batch: Sequence[Ready]) -> list[Ready]:
        """Those that nobody has ended or taken over meanwhile."""
        present = self._ledger.look_at([one.started.stream for one in batch])
        return [one for one in batch if _is_in_hand(present[one.started.stream], one.started.process)]

    def _read(self, started: Sequence[Started], treatments: Treatments) -> tuple[list[Ready], dict[str, Command]]:
        digests = {one.stream: one.process.staged.payload_sha256 for one in started if one.process.staged}
        payloads = self._ledger.payloads(digests)
        archived = self._archived([stream for stream in digests if stream not in payloads])
        with self._ledger.connection() as connection:  # rising: rows of accounts that are made together lie together
            numbers = iter(sorted(draw_account_numbers(connection, len(payloads))))
        at = now()
        today = today_in_germany(at)
        ready: list[Ready] = []
        failures: dict[str, Command] = {}
        for one in started:
            terms, body = treatments[identity_of(one.stream)[0]].terms, payloads.get(one.stream)
            account = account_of(body, one.process, terms, at, is_archived=one.stream in archived)
            if isinstance(account, FailImport):
                failures[one.stream] = account
                continue
            number = next(numbers)
            try:
                referred = referring(account, today, is_dry_run=one.process.is_dry_run)
                ready.append(Ready(one, number, undated_rows_of(account, number), referred))
            except Exception:  # whatever it is, it concerns this import, and others of the batch have their rows
                logger.exception("import is postponed", stream=one.stream, attempt=one.process.attempt)
                failures[one.stream] = _later(one, "processing_failed", self._ledger.time())
        return ready, failures

    def _archived(self, streams: Sequence[str]) -> set[str]:
        """Those of the streams whose payloads lie in an archive."""
        if not streams:
            return set()
        with self._ledger.connection() as connection:
            return {
                stream for stream in streams if archived_place(connection, identity_of(stream)[0], stream) is not None
            }

    def _checked(self, read: Sequence[Ready], treatments: Treatments) -> tuple[list[Ready], dict[str, Command]]:
        """The imports whose references hold, and for each of the others the command that ends it."""
        if not read:
            return [], {}
        ready: list[Ready] = []
        others: dict[str, Command] = {}
        for one, findings in zip(
            read, self._references.findings([one.referring for one in read], treatments), strict=True
        ):
            if findings.errors:
                others[one.started.stream] = _invalid(one.started.process.start, findings.errors)
            elif findings.is_unknown:
                others[one.started.stream] = _later(one.started, "document_store_unavailable", self._ledger.time())
            else:
                treatment = treatments[one.referring.supplier]
                ready.append(
                    msgspec.structs.replace(one, warnings=problem_names(findings.warnings), treatment=treatment)
                )
        return ready, others

    def _completed(self, batch: Sequence[Ready], *, is_dry_run: bool) -> bool:
        """Complete the batch in one transaction; False when anything in it failed and all was rolled back."""
        try:
            self._complete(batch, is_dry_run=is_dry_run)
        except StoreUnavailable:
            raise
        except (LedgerError, psycopg.Error, ValueError) as error:
            logger.info("batch is redone in halves", imports=len(batch), reason=type(error).__name__)
            return False
        return True

    def _complete(self, batch: Sequence[Ready], *, is_dry_run: bool) -> None:
        at = self._ledger.time()
        rows: dict[str, list[bytes]] = {}
        commands: dict[str, Command] = {}
        for one in batch:
            for table, values in one.rows.at(at).items():
                rows.setdefault(table, []).extend(values)
            commands[one.started.stream] = CompleteImport(
                start=one.started.process.start,
                account_number="" if is_dry_run else one.number,
                rules_edition=market.EDITION,
                warnings=one.warnings,
            )
            if one.treatment is not None and one.treatment.sends_customer_emails and not is_dry_run:
                commands |= _mail_request(one, one.treatment.email_language)
        known = {one.started.stream: Loaded(one.started.process, one.started.process.start) for one in batch}
        if is_dry_run:
            self._ledger.rehearse(copying(rows))
            self._ledger.execute_many(commands, at=at, by=self._by, loaded=known)
        else:
            self._ledger.execute_many(commands, at=at, by=self._by, loaded=known, beside=copying(rows), needs_all=True)

    def _finish_alone(self, one: Ready, *, is_dry_run: bool) -> None:
        stream, process = one.started.stream, one.started.process
        try:
            self._complete([one], is_dry_run=is_dry_run)
            return
        except StoreUnavailable:
            raise
        except Refused as refusal:
            logger.info("import was taken over", stream=stream, reason=refusal.code)
            return
        except (psycopg.DataError, psycopg.IntegrityError) as error:
            detail = "The platform's tables refuse this account: " + type(error).__name__
            command = FailImport(start=process.start, code="account_not_accepted_by_platform", detail=detail)
        except Exception:
            logger.exception("import is postponed", stream=stream, attempt=process.attempt)
            self._postpone([one.started])
            return
        self._ledger.execute_many({stream: command}, at=now(), by=self._by)


def _in_the_end(work: Callable[[], T], imports: int) -> T:
    """What the work gives. A database that is away for a moment is waited for: nobody else may take up what was taken
    up before its lease ends, and what was rung for is rung for again only when little waits.

    Raises StoreUnavailable when it does not come back."""
    pauses_s = iter(TRY_AGAIN_AFTER_S)
    while True:
        try:
            return work()
        except StoreUnavailable as error:
            pause_s = next(pauses_s, None)
            if pause_s is None:
                raise
            logger.warning("imports wait for the database", imports=imports, reason=first_line(error))
            time.sleep(pause_s)


def _payload_bytes(state: object) -> int:
    """How large the payload is that an import was staged with; 0 where that cannot be told."""
    return state.staged.payload_bytes if isinstance(state, ImportProcess) and state.staged is not None else 0


def _is_in_hand(present: Loaded | StreamUnreadable, process: ImportProcess) -> bool:
    return isinstance(present, Loaded) and (present.state.status, present.state.start) == ("IN_PROGRESS", process.start)


def _later(one: Started, code: str, at: datetime) -> PostponeImport:
    return PostponeImport(start=one.process.start, code=code, due_at=at + backoff(one.process.attempt))


def _mail_request(one: Ready, language: str) -> dict[str, Command]:
    """The request for the customer's e-mail, which is stored in the transaction that makes the account."""
    staged = one.started.process.staged
    assert staged is not None
    stream = customer_mail.stream_of(*identity_of(one.started.stream))
    request = customer_mail.RequestMail(
        account_number=one.number, payload_sha256=staged.payload_sha256, language=language
    )
    return {stream: request}


def account_of(
    body: bytes | None, process: ImportProcess, terms: Terms, at: datetime, *, is_archived: bool = False
) -> Account | FailImport:
    """The account in a stored payload, or why it cannot become one: judged again where the rules may say otherwise."""
    staged = process.staged
    if body is None:
        code, detail = _ARCHIVED if is_archived else ("payload_erased", "The payload was erased; send it again.")
        return FailImport(start=process.start, code=code, detail=detail)
    if staged is None or not _is_judged(staged, terms):
        return judged_account(body, process, terms, at)
    try:
        return stored_account(body)
    except NotJson as error:
        return _invalid(process.start, [Problem("non_field_errors", "parse_error", error.detail)])


def judged_account(body: bytes, process: ImportProcess, terms: Terms, at: datetime) -> Account | FailImport:
    """The same, judged by today's rules whatever has taken it before.

    Fields that were dropped when the payload was staged are dropped again, whatever the terms say by now.
    """
    start, staged = process.start, process.staged
    try:
        submission = stored_submission(body)
    except NotJson as error:
        return _invalid(start, [Problem("non_field_errors", "parse_error", error.detail)])
    if staged is not None and staged.dropped:
        terms = msgspec.structs.replace(terms, unknown_fields="ignore")
    problems = judge(submission, terms, at, Occasion.PROCESS).problems
    return _invalid(start, problems) if problems else submission.account


def _is_judged(staged: ImportStaged, terms: Terms) -> bool:
    """Whether the same rules and shapes have taken the payload when it was staged, and these terms take it as well."""
    has_warnings = bool(staged.warnings)
    return staged.rules_edition == market.EDITION and not staged.dropped and not (terms.is_strict and has_warnings)


def _without_chosen_names(problem: Problem) -> Problem:
    """The problem, at `*` where its field is not documented: the log keeps no name that an importer has chosen."""
    return Problem("*", problem.code, "") if problem.code in (UNKNOWN_FIELD, REPEATED_FIELD) else problem


def _invalid(start: int, problems: Sequence[Problem]) -> FailImport:
    names = problem_names([_without_chosen_names(problem) for problem in problems])
    return FailImport(
        start=start,
        code="account_failed_validation",
        detail="The account could not be validated: " + ", ".join(names[:5]),
        problems=names,
        rules_edition=market.EDITION,
    )
