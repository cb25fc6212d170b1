"""What an importer reads about an import."""

from datetime import datetime

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
