"""Shapes that describe an import to importers."""

from datetime import date, datetime
from typing import Annotated, Literal, TypeVar

from msgspec import UNSET, Meta, UnsetType

from schemas.base import Problem, Wire

ImportState = Literal[
    "PENDING", "IN_PROGRESS", "PROCESSED", "ERRORED", "CANCELLED", "DRY_RUN_SUCCEEDED", "DRY_RUN_ERRORED"
]
"""Status of an import, in the order of the process."""

Outcome = Literal["staged", "replaced", "unchanged"]
"""Result of a submission: the account is new, replaces an earlier submission, or was sent before with this content."""


class LatestError(Wire, frozen=True, kw_only=True):
    code: str
    """Permanent code; /errors/ lists all (Fehlercode)."""
    detail: str
    """The sentence for people (Meldung); may change."""
    domain: str
    """Part that failed (Bereich): account_import."""


class ImportStatus(Wire, frozen=True, kw_only=True):
    """The v2 status record."""

    status: ImportState
    """State of the import (Status)."""
    service_identifier: str | None
    """Number of the account (Vertragskontonummer); null while there is none."""
    created_at: datetime
    """Time of the first submission (angelegt am)."""
    modified_at: datetime
    """Time of the last change of the status (geändert am)."""
    latest_error: LatestError | None
    """Last error of the import (letzter Fehler); null if it has not failed."""
    released_at: datetime | UnsetType = UNSET
    """Time since which the platform owns the account (freigegeben am); it can no longer be reverted. Absent before."""


AnyImportStatus = TypeVar("AnyImportStatus", bound=ImportStatus)
"""The status record, or a record with further fields."""


class Empty(Wire, frozen=True, kw_only=True):
    """Answer to validate and create: `{}`, or status, outcome and warnings with `Prefer: return=representation`.

    A validation has no outcome.
    """

    status: Literal[ImportState, "VALID"] | UnsetType = UNSET
    """State of the import (Status), or VALID after a validation."""
    outcome: Outcome | UnsetType | None = UNSET
    """Result of the submission (Ergebnis): staged, replaced or unchanged."""
    warnings: tuple[Problem, ...] | UnsetType = UNSET
    """Warnings about the submission (Warnungen)."""


class ListedImport(ImportStatus, frozen=True, kw_only=True):
    """The v2 status record of one of a supplier's imports."""

    external_account_number: str
    """The account's identifier in the old system (Vertragskontonummer im Altsystem), compared byte for byte."""


class ImportProblems(Wire, frozen=True, kw_only=True):
    """Errors and warnings of an import, in sentences without values."""

    errors: tuple[Problem, ...]
    """Errors of the import (Fehler)."""
    warnings: tuple[Problem, ...]
    """Warnings about the import (Warnungen)."""


class AttemptProblem(Wire, frozen=True, kw_only=True):
    attr: str
    """Dotted path of the field, indexes from 0 (Feld)."""
    code: str
    """Permanent code; /errors/ lists all (Fehlercode)."""


class RefusedAttempt(Wire, frozen=True, kw_only=True):
    """A refused request about an account: its time, operation, codes and paths, without values."""

    attempted_at: datetime
    """Time of the attempt (Zeitpunkt des Versuchs)."""
    operation: str
    """Name of the request's operation (Operation)."""
    code: str
    """Permanent code; /errors/ lists all (Fehlercode)."""
    problems: tuple[AttemptProblem, ...]
    """Codes and paths of the problems (Fehler)."""


class TransferStatus(Wire, frozen=True, kw_only=True):
    """The v1 status record; the account number is "" while there is none."""

    status: Literal["UNKNOWN", "IN_PROGRESS", "COMPLETED"]
    """UNKNOWN, IN_PROGRESS or COMPLETED (Übertragungsstatus)."""
    service_account_number: str
    """Number of the account (Vertragskontonummer); empty or null while there is none."""


class ImportListItem(Wire, frozen=True, kw_only=True):
    external_account_number: str
    """The account's identifier in the old system (Vertragskontonummer im Altsystem), compared byte for byte."""
    service_account_number: str | None
    """Number of the account (Vertragskontonummer); empty or null while there is none."""
    account_created_at: datetime | None
    """Time at which the account was created (Konto angelegt am); null before the creation."""


class SupplierProgress(Wire, frozen=True, kw_only=True):
    """Numbers of a supplier's imports by status."""

    import_supplier: str
    """Code of the import supplier (Quelle) whose accounts are migrated."""
    total: int
    """Number of imports (Gesamtzahl)."""
    by_status: dict[str, int]
    """Number of imports by status (Anzahl je Status)."""


class ErrorCount(Wire, frozen=True, kw_only=True):
    """Number of errors of one kind on a day. `source` is request, import or dry_run; `path` may be empty."""

    day: date
    """Day in German market time (Tag)."""
    source: Literal["request", "import", "dry_run"]
    """Source of the error (Quelle): request, import or dry_run."""
    code: str
    """Permanent code; /errors/ lists all (Fehlercode)."""
    path: str
    """Path of the field in the account (Feld); may be empty."""
    number: int
    """Number of occurrences (Anzahl)."""


class AccountSearch(Wire, frozen=True, kw_only=True):
    """Search for accounts. The text may name a person, so it is sent in a body, not in the address."""

    q: Annotated[str, Meta(min_length=1, max_length=254)]
    """Text to find (Suchtext): 3 letters of a name at least; case, accents, apostrophes and umlauts do not matter."""
    supplier: Annotated[str, Meta(max_length=32)] = ""
    """Only accounts of this import supplier (Quelle)."""


class FoundAccount(Wire, frozen=True, kw_only=True):
    """Account that a search has found."""

    import_supplier: str
    """Code of the import supplier (Quelle) whose accounts are migrated."""
    external_account_number: str
    """The account's identifier in the old system (Vertragskontonummer im Altsystem), compared byte for byte."""
    status: ImportState
    """State of the import (Status)."""
    service_account_number: str | None
    """Number of the account (Vertragskontonummer); empty or null while there is none."""
