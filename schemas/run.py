"""What an importer reads about a run: what it has sent under one name."""

from datetime import datetime

from schemas.base import Wire
from schemas.status import ImportStatus


class RunError(Wire, frozen=True, kw_only=True):
    """How often something went wrong in a run: refused lines and requests, and failed imports. Attempts count."""

    code: str
    path: str
    number: int


class RunRecord(Wire, frozen=True, kw_only=True):
    """How far a run is. `total` adds up `by_status`; `refused` counts attempts; `eta_s` is null while it is unknown."""

    run: str
    import_supplier: str
    mode: str
    started_at: datetime
    last_at: datetime
    total: int
    refused: int
    by_status: dict[str, int]
    processed_per_s: float
    eta_s: float | None
    errors: tuple[RunError, ...]


class RunImport(ImportStatus, frozen=True, kw_only=True):
    """The status record of an import of a run."""

    external_account_number: str
