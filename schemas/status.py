"""What an importer reads about an import."""

from datetime import date, datetime
from typing import Literal

from msgspec import UNSET, UnsetType

from schemas.base import Problem, Wire

Outcome = Literal["staged", "replaced", "unchanged"]
"""What a create has done: the account is new, replaces what was sent before, or was sent before with this content."""


class LatestError(Wire, frozen=True, kw_only=True):
    code: str
    detail: str
    domain: str


class ImportStatus(Wire, frozen=True, kw_only=True):
    """The v2 status record."""

    status: str
    service_identifier: str | None
    created_at: datetime
    modified_at: datetime
    latest_error: LatestError | None


class Empty(Wire, frozen=True, kw_only=True):
    """The empty payload; `Prefer: return=representation` fills it. A validation has no outcome."""

    status: str | UnsetType = UNSET
    outcome: Outcome | UnsetType | None = UNSET
    warnings: tuple[Problem, ...] | UnsetType = UNSET


class ListedImport(ImportStatus, frozen=True, kw_only=True):
    """The v2 status record of one of a supplier's imports."""

    external_account_number: str


class ImportProblems(Wire, frozen=True, kw_only=True):
    """What an import failed for, and what it was warned of; sentences without values."""

    errors: tuple[Problem, ...]
    warnings: tuple[Problem, ...]


class AttemptProblem(Wire, frozen=True, kw_only=True):
    attr: str
    code: str


class RefusedAttempt(Wire, frozen=True, kw_only=True):
    """A request about an account that was refused: when, by which operation, for what; no values."""

    attempted_at: datetime
    operation: str
    code: str
    problems: tuple[AttemptProblem, ...]


class TransferStatus(Wire, frozen=True, kw_only=True):
    """The v1 status record; the account number is "" while there is none."""

    status: str
    service_account_number: str


class ImportListItem(Wire, frozen=True, kw_only=True):
    external_account_number: str
    service_account_number: str | None
    account_created_at: datetime | None


class SupplierProgress(Wire, frozen=True, kw_only=True):
    """How many of a supplier's imports are in which state."""

    import_supplier: str
    total: int
    by_status: dict[str, int]


class ErrorCount(Wire, frozen=True, kw_only=True):
    """How often something went wrong on a day: `source` is request, import or dry_run; `path` may be empty."""

    day: date
    source: str
    code: str
    path: str
    number: int


class FoundAccount(Wire, frozen=True, kw_only=True):
    """An account that a search has found."""

    import_supplier: str
    external_account_number: str
    status: str
    service_account_number: str | None
