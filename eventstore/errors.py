"""What can go wrong in the log. Errors carry fields and know no HTTP.

LedgerError
├── Refused                     the command is not allowed now; `code` is permanent
│   ├── AlreadyImported
│   ├── ImportInProgress
│   ├── AccountErased
│   ├── StreamUnreadable
│   └── IllegalTransition
├── VersionConflict             somebody else appended first
│   └── RolledBack              the database gave way to another transaction; nothing was stored
├── StoreUnavailable            Postgres is away; it may or may not have stored what was asked
│   ├── IntakeStopped           the log does not continue what was signed; nothing was stored
│   └── NotCompared             the log was not compared with its checkpoints yet; nothing was stored
├── LedgerBusy                  the queue of appends is full; nothing was stored
└── DamagedInstallation         a file of the software is not as it was made; nothing is started
"""

from collections.abc import Sequence


class OperatorError(Exception):
    """Why a command of an operator cannot be carried out. Its message is the sentence that the command line prints."""


class LedgerError(Exception):
    """The base of all errors of the log."""


class Refused(LedgerError):
    """The command is not allowed in the stream's present state."""

    code = "illegal_transition"
    sentences = ("", "")
    """In English and in German, where they are always the same."""

    def __init__(self, english: str = "", german: str = "") -> None:
        super().__init__(english or self.sentences[0])
        self.german = german or self.sentences[1]


class AlreadyImported(Refused):
    """The account was already imported."""

    code = "account_import_process_already_imported"
    sentences = ("This account has already been imported.", "Dieses Konto wurde bereits importiert.")

    def __init__(self, account_number: str) -> None:
        super().__init__()
        self.account_number = account_number


class ImportInProgress(Refused):
    """The import is being processed, or is to be: what is asked for now has to wait until that has ended."""

    code = "account_import_process_in_progress"
    sentences = ("This account import is being processed at the moment.", "Dieser Import wird gerade verarbeitet.")


class AccountErased(Refused):
    """The person was erased; nothing about them is taken in again."""

    code = "account_erased"
    sentences = (
        "The data of this account was erased; nothing about it is taken in again.",
        "Die Daten dieses Kontos wurden gelöscht; nichts davon wird wieder aufgenommen.",
    )


class StreamUnreadable(Refused):
    """An event of the stream cannot be read, by this version of the code at least; other streams go on."""

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
            f"{command} ist im Zustand {status} nicht erlaubt.",
        )
        self.status = status
        self.command = command


class VersionConflict(LedgerError):
    """Another writer has appended to the stream since it was read.

    `numbers` are those of the events, from 1 in their append, that conflicted; none where that is not known.
    """

    def __init__(self, stream: str = "", numbers: Sequence[int] = ()) -> None:
        super().__init__(stream)
        self.numbers = frozenset(numbers)


class RolledBack(VersionConflict):
    """The database has ended the transaction in favour of another one; nothing was stored."""


class StoreUnavailable(LedgerError):
    """The database does not answer, or cannot write. The outcome is unknown; repeating the command is safe."""


class IntakeStopped(StoreUnavailable):
    """Nothing is appended until an operator has decided about a log that does not continue what was signed."""


class NotCompared(StoreUnavailable):
    """Nothing is appended until the relay has compared the log with its checkpoints, when the database has started."""


class LedgerBusy(LedgerError):
    """More appends are waiting than the ledger takes on."""


class DamagedInstallation(LedgerError):
    """A file that belongs to the software is not as it was made; the message says which."""


def first_line(error: Exception) -> str:
    """What an error says in its first line: drivers add hints and addresses below it."""
    return next(iter(str(error).strip().splitlines()), "")


def reason_of(error: Exception) -> str:
    """Why a connection failed: the driver's last words, without the address, on one line."""
    lines = [line.strip() for line in str(error).splitlines() if "failed: " in line]
    reason = (lines[-1] if lines else first_line(error) or type(error).__name__).rpartition("failed: ")[2]
    return reason.removeprefix("FATAL:").strip().rstrip(".")
