"""Errors of the log. The API maps each error class to an HTTP status.

LedgerError
├── Refused                     the command is not allowed now
│   ├── AlreadyImported
│   ├── ImportInProgress
│   ├── AccountErased
│   ├── AccountFollowed
│   ├── StreamUnreadable
│   └── IllegalTransition
├── VersionConflict             another writer appended first
│   └── RolledBack              the database rolled back the transaction; nothing was stored
├── StoreUnavailable            Postgres is not available; the outcome is unknown
│   ├── IntakeStopped           the log differs from its checkpoints; nothing was stored
│   └── NotCompared             the log was not yet compared with its checkpoints; nothing was stored
├── LedgerBusy                  the queue of appends is full; nothing was stored
└── DamagedInstallation         a file of the software was changed; nothing is started
"""

from collections.abc import Sequence


class OperatorError(Exception):
    """Reason why an operator's command cannot be carried out. The command line prints its message."""


class LedgerError(Exception):
    """Base of all errors of the log."""


class Refused(LedgerError):
    """The command is not allowed in the stream's present state."""

    code = "illegal_transition"
    sentences = ("", "")
    """Message in English and German, for errors with a constant message."""

    def __init__(self, english: str = "", german: str = "") -> None:
        super().__init__(english or self.sentences[0])
        self.german = german or self.sentences[1]


class AlreadyImported(Refused):
    """The account was imported before."""

    code = "account_import_process_already_imported"
    sentences = ("This account has already been imported.", "Dieses Konto wurde bereits importiert.")

    def __init__(self, account_number: str) -> None:
        super().__init__()
        self.account_number = account_number


class ImportInProgress(Refused):
    """The import is in progress or scheduled. The command is allowed after the import has ended."""

    code = "account_import_process_in_progress"
    sentences = ("This account import is being processed at the moment.", "Dieser Import wird gerade verarbeitet.")


class AccountErased(Refused):
    """The person was erased. No data about them is accepted again."""

    code = "account_erased"
    sentences = (
        "The data of this account was erased. Data about this person must not be sent again.",
        "Die Daten dieses Kontos wurden gelöscht. Daten zu dieser Person dürfen nicht erneut gesendet werden.",
    )


class AccountFollowed(Refused):
    """The account cannot be reverted: it has records, was released, or another account refers to it."""

    def __init__(self, followed_by: str) -> None:
        super().__init__(
            f"The account must not be reverted after this: {followed_by}.",
            f"Das Konto darf danach nicht mehr zurückgenommen werden: {followed_by}.",
        )
        self.followed_by = followed_by


class StreamUnreadable(Refused):
    """An event of the stream cannot be read by this version. Other streams are not affected."""

    code = "stream_unreadable"

    def __init__(self, stream: str, position: int) -> None:
        super().__init__(
            f"The event at position {position} of {stream} cannot be read.",
            f"Das Ereignis an Position {position} von {stream} ist nicht lesbar.",
        )
        self.stream = stream
        self.position = position


class IllegalTransition(Refused):
    """The stream does not allow this command in its present state."""

    def __init__(self, status: str, command: str) -> None:
        super().__init__(
            f"{command} is not allowed while the state is {status}.",
            f"{command} ist im Status {status} nicht erlaubt.",
        )
        self.status = status
        self.command = command


class VersionConflict(LedgerError):
    """Another writer has appended to the stream since it was read.

    `numbers` are the conflicting events, counted from 1 in their append; empty if unknown.
    """

    def __init__(self, stream: str = "", numbers: Sequence[int] = ()) -> None:
        super().__init__(stream)
        self.numbers = frozenset(numbers)


class RolledBack(VersionConflict):
    """The database has rolled back the transaction because of a deadlock or a serialization failure."""


class StoreUnavailable(LedgerError):
    """The database does not answer or cannot write. The outcome is unknown; repeating the command is safe."""


class IntakeStopped(StoreUnavailable):
    """The log differs from its signed checkpoints. Nothing is appended until an operator decides."""


class NotCompared(StoreUnavailable):
    """The relay has not compared the log with its checkpoints since the database started.

    Until then, nothing is appended.
    """


class LedgerBusy(LedgerError):
    """Too many appends are waiting."""


class DamagedInstallation(LedgerError):
    """A file of the software was changed or is missing; the message names it."""


def first_line(error: Exception) -> str:
    """Return the first line of an error's message. Drivers add hints and addresses in further lines."""
    return next(iter(str(error).strip().splitlines()), "")


def reason_of(error: Exception) -> str:
    """Return the reason of a failed connection on one line: the driver's last message without the address."""
    lines = [line.strip() for line in str(error).splitlines() if "failed: " in line]
    reason = (lines[-1] if lines else first_line(error) or type(error).__name__).rpartition("failed: ")[2]
    return reason.removeprefix("FATAL:").strip().rstrip(".")
