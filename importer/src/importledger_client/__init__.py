"""The importing party's side of the import ledger: `Client`, `AsyncClient`, and the command `importbook`."""

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
from importledger_client.async_client import AsyncClient
from importledger_client.client import Client
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
from importledger_client.wire import Account

__all__ = [
    "Account",
    "AlreadyImported",
    "AsyncClient",
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
