"""What an importer reads about an import."""

from datetime import date, datetime
from typing import Annotated, Literal, TypeVar

from msgspec import UNSET, Meta, UnsetType

from schemas.base import Problem, Wire

ImportState = Literal[
    "PENDING", "IN_PROGRESS", "PROCESSED", "ERRORED", "CANCELLED", "DRY_RUN_SUCCEEDED", "DRY_RUN_ERRORED"
]
"""State of an import, in the order of a process."""

Outcome = Literal["staged", "replaced", "unchanged"]
"""What a create has done: the account is new, replaces what was sent before, or was sent before with this content."""


class LatestError(Wire, frozen=True, kw_only=True):
    code: str
    """Permanent code; /errors/ lists all (Fehlercode)."""
    detail: str
    """The sentence for people (Meldung); may change."""
    domain: str
    """Which part failed (Bereich): account_import."""


class ImportStatus(Wire, frozen=True, kw_only=True):
    """The v2 status record."""

    status: ImportState
    """State of the import (Status)."""
    service_identifier: str | None
    """Number of the account (Vertragskontonummer); null while there is none."""
    created_at: datetime
    """When the account was sent first (angelegt am)."""
    modified_at: datetime
    """When the state changed last (geändert am)."""
    latest_error: LatestError | None
    """Why the import failed last (letzter Fehler); null where nothing did."""


AnyImportStatus = TypeVar("AnyImportStatus", bound=ImportStatus)
"""The record itself, or one that says more: what is made from it is of the same kind."""


class Empty(Wire, frozen=True, kw_only=True):
    """The empty payload; `Prefer: return=representation` fills it. A validation has no outcome."""

    status: Literal[ImportState, "VALID"] | UnsetType = UNSET
    """State of the import (Status), or VALID after a validation."""
    outcome: Outcome | UnsetType | None = UNSET
    """What became of the submission (Ergebnis): staged, replaced or unchanged."""
    warnings: tuple[Problem, ...] | UnsetType = UNSET
    """What was warned of (Warnungen)."""


class ListedImport(ImportStatus, frozen=True, kw_only=True):
    """The v2 status record of one of a supplier's imports."""

    external_account_number: str
    """The account's identifier in the old system (Vertragskontonummer im Altsystem), byte for byte."""


class ImportProblems(Wire, frozen=True, kw_only=True):
    """What an import failed for, and what it was warned of; sentences without values."""

    errors: tuple[Problem, ...]
    """What the import failed for (Fehler)."""
    warnings: tuple[Problem, ...]
    """What it was warned of (Warnungen)."""


class AttemptProblem(Wire, frozen=True, kw_only=True):
    attr: str
    """Dotted path of the field, indexes from 0 (Feldpfad)."""
    code: str
    """Permanent code; /errors/ lists all (Fehlercode)."""


class RefusedAttempt(Wire, frozen=True, kw_only=True):
    """A request about an account that was refused: when, by which operation, for what; no values."""

    attempted_at: datetime
    """When it was tried (Zeitpunkt des Versuchs)."""
    operation: str
    """Which request it was (Operation)."""
    code: str
    """Permanent code; /errors/ lists all (Fehlercode)."""
    problems: tuple[AttemptProblem, ...]
    """Codes and paths of what was wrong (Probleme)."""


class TransferStatus(Wire, frozen=True, kw_only=True):
    """The v1 status record; the account number is "" while there is none."""

    status: Literal["UNKNOWN", "IN_PROGRESS", "COMPLETED"]
    """UNKNOWN, IN_PROGRESS or COMPLETED (Übertragungsstatus)."""
    service_account_number: str
    """Number of the account (Vertragskontonummer); empty or null while there is none."""


class ImportListItem(Wire, frozen=True, kw_only=True):
    external_account_number: str
    """The account's identifier in the old system (Vertragskontonummer im Altsystem), byte for byte."""
    service_account_number: str | None
    """Number of the account (Vertragskontonummer); empty or null while there is none."""
    account_created_at: datetime | None
    """When the account was created (Konto angelegt am); null while there is none."""


class SupplierProgress(Wire, frozen=True, kw_only=True):
    """How many of a supplier's imports are in which state."""

    import_supplier: str
    """Code of the import supplier (Lieferant) whose accounts are migrated."""
    total: int
    """How many imports there are (Gesamtzahl)."""
    by_status: dict[str, int]
    """How many imports are in which state (Anzahl je Status)."""


class ErrorCount(Wire, frozen=True, kw_only=True):
    """How often something went wrong on a day: `source` is request, import or dry_run; `path` may be empty."""

    day: date
    """Day in German market time (Tag)."""
    source: Literal["request", "import", "dry_run"]
    """Where it went wrong (Quelle): request, import or dry_run."""
    code: str
    """Permanent code; /errors/ lists all (Fehlercode)."""
    path: str
    """Path of the field in the account (Feldpfad); may be empty."""
    number: int
    """How often (Anzahl)."""


class AccountSearch(Wire, frozen=True, kw_only=True):
    """What to look for. It may name a person, so that it stands in a body and in no address."""

    q: Annotated[str, Meta(min_length=1, max_length=254)]
    """Text to find (Suchtext): 3 letters of a name at least; case, accents, apostrophes and umlauts do not matter."""
    supplier: Annotated[str, Meta(max_length=32)] = ""
    """Only accounts of this import supplier (Lieferant)."""


class FoundAccount(Wire, frozen=True, kw_only=True):
    """An account that a search has found."""

    import_supplier: str
    """Code of the import supplier (Lieferant) whose accounts are migrated."""
    external_account_number: str
    """The account's identifier in the old system (Vertragskontonummer im Altsystem), byte for byte."""
    status: ImportState
    """State of the import (Status)."""
    service_account_number: str | None
    """Number of the account (Vertragskontonummer); empty or null while there is none."""
