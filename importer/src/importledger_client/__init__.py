"""Client of the import ledger for importers: the class `Client`, and the command `importbook`."""

from typing import TYPE_CHECKING, Any

from importledger_client.answers import (
    Failure,
    FieldError,
    ImportStatus,
    JobProgress,
    LatestError,
    Receipt,
    Run,
    RunError,
    Summary,
)
from importledger_client.errors import (
    AlreadyImported,
    ImportLedgerError,
    Misconfigured,
    NotAllowed,
    NotFound,
    Refused,
    TimedOut,
    Unavailable,
)

if TYPE_CHECKING:
    from importledger_client.client import Client

__all__ = [
    "AlreadyImported",
    "Client",
    "Failure",
    "FieldError",
    "ImportLedgerError",
    "ImportStatus",
    "JobProgress",
    "LatestError",
    "Misconfigured",
    "NotAllowed",
    "NotFound",
    "Receipt",
    "Refused",
    "Run",
    "RunError",
    "Summary",
    "TimedOut",
    "Unavailable",
]


def __getattr__(name: str) -> Any:
    """Load `Client` at its first use: importing httpx takes most of a start, and many verbs send nothing."""
    if name != "Client":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importledger_client.client import Client

    return Client
