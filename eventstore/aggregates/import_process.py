"""The import process: one stream for one account of one supplier. Pure.

    (none) ──stage──▶ PENDING ──start──▶ IN_PROGRESS ──complete──▶ PROCESSED
                        │  ▲                  ├──fail──▶ ERRORED ──stage / retry──▶ PENDING
                        │  ├─stage again      ├──postpone──▶ PENDING
                        │  └──────────────────┤
                        └─cancel─▶ CANCELLED  └──dry run──▶ DRY_RUN_SUCCEEDED / DRY_RUN_ERRORED ──stage──▶ PENDING

    PROCESSED ──revert──▶ CANCELLED ──stage──▶ PENDING    while nothing has followed the account

Events carry digests and counts, never personal data.
"""

from datetime import datetime
from typing import Any, Literal, assert_never

import msgspec
from msgspec.structs import replace

from eventstore.aggregates.aggregate import Aggregate, Command, Count, Digest, Event, Events, Instant, State, event_of
from eventstore.errors import AccountErased, AccountFollowed, AlreadyImported, IllegalTransition, ImportInProgress

ERROR_DOMAIN = "account_import"


class Staging(msgspec.Struct, frozen=True, kw_only=True):
    """Digest of a payload to be processed.

    Processing may begin at `not_before` and should begin by `not_after`. `dropped` counts undocumented fields that were
    left out. `private` has the encrypted names of these fields, and `dropped_fields` the decrypted names
    (`eventstore.log.private`). `run` is the importer's name for accounts that were sent together. Names of runs are not
    encrypted, and must not contain personal data. `content_sha256` is the digest of the content's canonical form.
    """

    payload_sha256: Digest
    content_sha256: str
    payload_bytes: Count
    is_dry_run: bool = False
    not_before: Instant | None = None
    not_after: Instant | None = None
    rules_edition: str = ""
    warnings: tuple[str, ...] = ()
    dropped_fields: tuple[str, ...] = ()
    dropped: Count = 0
    private: str = ""
    run: str = ""


class ImportStaged(Staging, Event, frozen=True):
    """The importer's payload is stored."""


class ImportStarted(Event, frozen=True):
    """A worker has started an attempt. After `lease_until`, another worker may take over the import.

    The event's version is the fencing token of this start: no other start of the stream has it.
    """

    attempt: Count
    worker: Count
    lease_until: Instant


class ImportPostponed(Event, frozen=True):
    """The attempt has ended without outcome, for a temporary reason."""

    attempt: Count
    code: str
    due_at: Instant


class ImportProcessed(Event, frozen=True):
    """The platform's account exists since `created_at`."""

    attempt: Count
    account_number: str
    created_at: Instant
    rules_edition: str = ""
    warnings: tuple[str, ...] = ()


class Failure(Event, frozen=True):
    """Cause of a failed attempt. `problems` are code@path, without values."""

    attempt: Count
    code: str
    detail: str
    domain: str = ERROR_DOMAIN
    problems: tuple[str, ...] = ()
    rules_edition: str = ""


class ImportErrored(Failure, frozen=True):
    """The attempt has failed permanently."""


class DryRunSucceeded(Event, frozen=True):
    """The dry run has completed all steps of a real run, and was rolled back."""

    attempt: Count
    rules_edition: str = ""
    warnings: tuple[str, ...] = ()


class DryRunErrored(Failure, frozen=True):
    """The dry run has found an error that would make a real run fail."""


class ImportCancelled(Event, frozen=True):
    """The import will not be processed. `private` is the encrypted reason."""

    reason: str = ""
    private: str = ""


class ImportRetried(Event, frozen=True):
    """The stored payload is to be processed again. `private` is the encrypted reason."""

    reason: str = ""
    private: str = ""


class ImportReverted(Event, frozen=True):
    """The account was reverted: the platform has no account, and its number is never assigned again.

    `run` is the run that was reverted, "" for single accounts. `reason` is the operator's and holds no personal data.
    """

    account_number: str
    run: str = ""
    reason: str = ""


class SubjectErased(Event, frozen=True):
    """The person's data is deleted: payloads, key and platform records.

    `account_number` is empty for an import without account, which becomes CANCELLED. An import with an account stays
    PROCESSED, and its row has `erased_at`.
    """

    erased_at: Instant
    account_number: str = ""
    reason: str = ""


ImportEvent = (
    ImportStaged
    | ImportStarted
    | ImportPostponed
    | ImportProcessed
    | ImportErrored
    | DryRunSucceeded
    | DryRunErrored
    | ImportCancelled
    | ImportRetried
    | ImportReverted
    | SubjectErased
)

STATUS_AFTER: dict[type[Event], str] = {
    ImportStaged: "PENDING",
    ImportRetried: "PENDING",
    ImportPostponed: "PENDING",
    ImportStarted: "IN_PROGRESS",
    ImportProcessed: "PROCESSED",
    ImportErrored: "ERRORED",
    ImportCancelled: "CANCELLED",
    ImportReverted: "CANCELLED",
    DryRunSucceeded: "DRY_RUN_SUCCEEDED",
    DryRunErrored: "DRY_RUN_ERRORED",
}
"""Status after an event of a class. After an erasure, the status depends on the account: `status_after`."""

STATUSES = tuple(dict.fromkeys(STATUS_AFTER.values()))
"""Every status of an import, in the order of a process."""
WAITING = ("PENDING", "IN_PROGRESS")
"""Statuses of an import that has not ended."""


def status_after_erasure(has_account: bool) -> str:
    """Return PROCESSED for an import that has an account, CANCELLED for any other."""
    return "PROCESSED" if has_account else "CANCELLED"


def status_after(event: Event) -> str:
    """Return the status after an event of an import process."""
    if isinstance(event, SubjectErased):
        return status_after_erasure(bool(event.account_number))
    return STATUS_AFTER[type(event)]


class StageImport(Staging, Command, frozen=True):
    """Store this payload and process it."""


class StartImport(Command, frozen=True):
    """Start an attempt if the import is due. After `max_attempts` the import fails instead."""

    worker: int
    lease_until: datetime
    max_attempts: int


class PostponeImport(Command, frozen=True):
    """End the attempt of this start. The next attempt may begin at `due_at`."""

    start: int
    code: str
    due_at: datetime


class CompleteImport(Command, frozen=True):
    """Record that the account exists; in a dry run, that it could be created."""

    start: int
    account_number: str
    rules_edition: str = ""
    warnings: tuple[str, ...] = ()


class FailImport(Command, frozen=True):
    """Record that the account cannot be created from this payload."""

    start: int
    code: str
    detail: str
    problems: tuple[str, ...] = ()
    rules_edition: str = ""


class CancelImport(Command, frozen=True):
    """Do not process a pending import."""

    reason: str = ""
    private: str = ""


class RetryImport(Command, frozen=True):
    """Process the payload of a failed import again."""

    reason: str = ""
    private: str = ""


Following = Literal["", "post_account_data", "release", "reference"]
"""Reason in another stream that prevents a revert of an account: its records, its release, or a reference to it.

"" without such a reason.
"""


class RevertImport(Command, frozen=True):
    """Revert the account.

    With a `run`, revert the account only if this run has staged it. `followed_by` is the reason in other streams that
    prevents the revert. The caller has read `followed_by` under a lock, so that it cannot change.
    """

    run: str = ""
    reason: str = ""
    followed_by: Following = ""


class EraseSubject(Command, frozen=True):
    """Delete the person's data."""

    reason: str = ""


class ImportProcess(State, frozen=True):
    """State of one import process. `attempt` counts starts since the last staging or retry.

    `version` is the stream's version. `start` is the version of the last ImportStarted since the last staging or retry,
    or 0. A command that ends or postpones an attempt must name its start. A worker that wakes up late names an older
    start and is refused.
    """

    version: int = 0
    status: str = "NEW"
    staged: ImportStaged | None = None
    start: int = 0
    attempt: int = 0
    worker: int = 0
    due_at: datetime | None = None
    account_number: str = ""
    is_erased: bool = False

    @property
    def is_dry_run(self) -> bool:
        return self.staged is not None and self.staged.is_dry_run


def decide(command: Command, process: ImportProcess, at: datetime) -> ImportEvent | None:  # noqa: C901 - one match, a case for each command and state
    """Return the event that follows, or None. Raises a Refused error of the state."""
    match command, process.status:
        case StageImport(), "PROCESSED":
            raise AlreadyImported(process.account_number)
        case StageImport(), _ if process.is_erased:
            raise AccountErased
        case StageImport(), "PENDING" | "IN_PROGRESS" if _is_staged(command, process):
            return None  # the importer has sent the same content again
        case StageImport(), "IN_PROGRESS":
            raise ImportInProgress
        case StageImport(is_dry_run=True), "PENDING" if not process.is_dry_run:
            raise ImportInProgress(
                "A dry run changes nothing, and a creation is already scheduled.",
                "Ein Probelauf ändert nichts, und eine Anlage ist bereits vorgesehen.",
            )
        case StageImport(), _:
            return event_of(ImportStaged, command)

        case StartImport(), "PENDING" if process.due_at is None or process.due_at <= at:
            return _started(command, process)
        case StartImport(), _:
            return None  # started by another worker, ended, or not due

        case ((PostponeImport() | CompleteImport() | FailImport()), _) if command.start != process.start:
            raise IllegalTransition(process.status, type(command).__name__)  # the command names an older start
        case PostponeImport(), "IN_PROGRESS":
            return event_of(ImportPostponed, command, attempt=process.attempt)
        case PostponeImport(), "PENDING" if process.start:
            return None
        case CompleteImport(), "IN_PROGRESS" if process.is_dry_run:
            return event_of(DryRunSucceeded, command, attempt=process.attempt)
        case CompleteImport(), "IN_PROGRESS":
            return event_of(ImportProcessed, command, attempt=process.attempt, created_at=at)
        case CompleteImport(), "PROCESSED" if command.account_number == process.account_number:
            return None
        case CompleteImport(), "DRY_RUN_SUCCEEDED":
            return None
        case FailImport(), "IN_PROGRESS":
            kind: type[DryRunErrored | ImportErrored] = DryRunErrored if process.is_dry_run else ImportErrored
            return event_of(kind, command, attempt=process.attempt)
        case FailImport(), "ERRORED" | "DRY_RUN_ERRORED":
            return None

        case CancelImport(), "PENDING":
            return event_of(ImportCancelled, command)
        case CancelImport(), "CANCELLED":
            return None
        case RetryImport(), "ERRORED":
            return event_of(ImportRetried, command)
        case RetryImport(), "PENDING":
            return None
        case RevertImport(), "PROCESSED":
            if followed_by := _follower(command, process):
                raise AccountFollowed(followed_by)
            return event_of(ImportReverted, command, account_number=process.account_number)
        case RevertImport(), "CANCELLED":
            return None
        case EraseSubject(), _ if process.is_erased:
            return None
        case EraseSubject(), status if status not in ("NEW", "IN_PROGRESS"):
            return event_of(SubjectErased, command, erased_at=at, account_number=process.account_number)
    raise IllegalTransition(process.status, type(command).__name__)


def evolve(process: ImportProcess, event: ImportEvent) -> ImportProcess:
    """Return the state after the event."""
    match event:
        case ImportStaged():
            version = process.version + 1
            return ImportProcess(version=version, status=status_after(event), staged=event, due_at=event.not_before)
        case ImportStarted() if (
            process.status != "PENDING"
        ):  # `decide` returns no event after an erasure; a forged event must not block another erasure
            return replace(process, version=process.version + 1)
        case ImportStarted():
            return _moved(process, event, start=process.version + 1, attempt=event.attempt, worker=event.worker)
        case ImportPostponed():
            return _moved(process, event, due_at=event.due_at)
        case ImportProcessed():
            return _moved(process, event, account_number=event.account_number)
        case ImportErrored() | DryRunSucceeded() | DryRunErrored() | ImportCancelled() | ImportReverted():
            return _moved(process, event)
        case ImportRetried():
            return ImportProcess(version=process.version + 1, status=status_after(event), staged=process.staged)
        case SubjectErased():
            number = process.account_number
            status = status_after_erasure(bool(number))
            return ImportProcess(version=process.version + 1, status=status, account_number=number, is_erased=True)
        case _:
            assert_never(event)


def stream_of(supplier: str, external_account_number: str) -> str:
    """Return the stream id. Supplier codes contain no slash, so the first two slashes separate the parts."""
    return f"import/{supplier}/{external_account_number}"


def identity_of(stream: str) -> tuple[str, str]:
    """Return supplier code and external account number of an import stream."""
    _, supplier, external = stream.split("/", 2)
    return supplier, external


def is_same_content(staged: ImportStaged, command: StageImport) -> bool:
    """Return whether the command and the staged payload have the same content."""
    return staged.content_sha256 == command.content_sha256


def _is_staged(command: StageImport, process: ImportProcess) -> bool:
    staged = process.staged
    if staged is None or not is_same_content(staged, command):
        return False
    return (staged.is_dry_run, staged.not_before) == (command.is_dry_run, command.not_before)


def _follower(command: RevertImport, process: ImportProcess) -> str:
    """Return the reason that prevents a revert of the account, or ""."""
    if process.is_erased:
        return "erasure"
    if command.run and process.staged is not None and process.staged.run != command.run:
        return "other_run"
    return command.followed_by


def _started(command: StartImport, process: ImportProcess) -> ImportEvent:
    if process.attempt < command.max_attempts:
        return event_of(ImportStarted, command, attempt=process.attempt + 1)
    detail = f"Processing was given up after {process.attempt} attempts. Retry it when the cause is fixed."
    kind = DryRunErrored if process.is_dry_run else ImportErrored
    return kind(attempt=process.attempt, code="attempts_exhausted", detail=detail)


def _moved(process: ImportProcess, event: ImportEvent, **changes: Any) -> ImportProcess:
    """Return the process after the event, with its status; worker, due time and account are reset unless changed."""
    reset: dict[str, Any] = {"worker": 0, "due_at": None, "account_number": ""}
    return replace(process, version=process.version + 1, status=status_after(event), **reset | changes)


EVENTS: Events = {
    "import_staged.v1": (ImportStaged, StageImport),
    "import_started.v1": (ImportStarted, StartImport),
    "import_postponed.v1": (ImportPostponed, PostponeImport),
    "import_processed.v1": (ImportProcessed, CompleteImport),
    "import_errored.v1": (ImportErrored, FailImport),
    "dry_run_succeeded.v1": (DryRunSucceeded, CompleteImport),
    "dry_run_errored.v1": (DryRunErrored, FailImport),
    "import_cancelled.v1": (ImportCancelled, CancelImport),
    "import_retried.v1": (ImportRetried, RetryImport),
    "import_reverted.v1": (ImportReverted, RevertImport),
    "subject_erased.v1": (SubjectErased, EraseSubject),
}
STATUS_AFTER_TOPIC = {topic: STATUS_AFTER[event] for topic, (event, _) in EVENTS.items() if event in STATUS_AFTER}
"""Status after an event, by its topic."""

IMPORT_PROCESS = Aggregate("import", EVENTS, ImportProcess(), decide, evolve, parts=3)
