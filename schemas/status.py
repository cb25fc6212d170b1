"""What an importer reads about an import."""

from datetime import date, datetime

from schemas.base import Wire


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
