"""What an importer reads about a run: what it has sent under one name."""

from datetime import datetime

import msgspec

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


class PathCount(Wire, frozen=True, kw_only=True):
    """How often a path of the wire is filled, the digest of its values, and where they are stored."""

    count: int
    digest: str
    stored: str


class LedgerSums(Wire, frozen=True, kw_only=True):
    """What the ledgers of one code add up to."""

    ledgers: int
    balances: int
    balance_sum: str
    transactions: int
    transaction_sum: str


class RunSums(Wire, frozen=True, kw_only=True):
    """Exact sums, as decimal text at the greatest scale of what was summed."""

    balances: str
    transactions: str
    readings: str


class RunTotals(Wire, frozen=True, kw_only=True):
    """What the platform's tables say of a run's accounts; `erased` of them have no rows any more."""

    import_supplier: str
    run: str
    accounts: int
    customers: int
    supply_addresses: int
    supply_points: int
    meters: int
    registers: int
    readings: int
    agreements: int
    ledgers: int
    balances: int
    transactions: int
    documents: int
    sums: RunSums
    by_ledger: dict[str, LedgerSums]
    paths: dict[str, PathCount]
    erased: int
    by_status: dict[str, int]
    refused: int
    unknown_fields: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a source adds up to, made by `importbook manifest`; further members are ignored."""

    import_supplier: str | None = None
    accounts: int | None = None


class Certificate(Wire, frozen=True, kw_only=True):
    """A statement, signed with the ledger's key, that a source and the platform balance."""

    import_supplier: str
    run: str
    issued_at: str
    manifest_sha256: str
    totals: RunTotals
    signed_at: str
    checkpoint: str
    verifier_key: str
    signature: str
