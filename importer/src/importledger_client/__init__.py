"""The importing party's side of the import ledger: `Client`, `AsyncClient`, and the command `importbook`."""

from importlib import import_module
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
from importledger_client.wire import Account

if TYPE_CHECKING:
    from importledger_client.async_client import AsyncClient
    from importledger_client.client import Client

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

_CLIENTS = {"AsyncClient": "importledger_client.async_client", "Client": "importledger_client.client"}


def __getattr__(name: str) -> Any:
    """A client, loaded when it is first asked for: httpx takes most of a start, and many verbs send nothing."""
    if name not in _CLIENTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_CLIENTS[name]), name)
