"""What an importer reads about a run: what it has sent under one name."""

from datetime import datetime
from typing import Any, Literal

import msgspec

from schemas.base import Wire
from schemas.status import ImportStatus


class RunError(Wire, frozen=True, kw_only=True):
    """How often an error or a warning occurred in a run. Attempts count.

    Errors are those of refused lines and requests, and of failed imports.
    """

    code: str
    """Permanent code; /errors/ lists all (Fehlercode)."""
    path: str
    """Path of the field in the account (Feldpfad); may be empty."""
    number: int
    """How often (Anzahl)."""


class RunRecord(Wire, frozen=True, kw_only=True):
    """How far a run is. `total` adds up `by_status`; `refused` counts attempts; `eta_s` is null while it is unknown."""

    run: str
    """Name of the run (Lauf)."""
    import_supplier: str
    """Code of the import supplier (Lieferant) whose accounts are migrated."""
    mode: Literal["create", "validate", "dry_run"]
    """How the run was sent (Modus): create, validate or dry_run."""
    started_at: datetime
    """When the first of it came (Beginn)."""
    last_at: datetime
    """When something last happened in it (letztes Ereignis)."""
    total: int
    """How many imports it has (Gesamtzahl)."""
    refused: int
    """How many submissions were refused (abgelehnt)."""
    by_status: dict[str, int]
    """How many imports are in which state (Anzahl je Status)."""
    processed_per_s: float
    """How many are processed a second (Durchsatz)."""
    eta_s: float | None
    """Seconds until it is done (verbleibende Zeit); null while unknown."""
    errors: tuple[RunError, ...]
    """What went wrong, by code and path (Fehler)."""
    warned: int
    """How many accepted or validated submissions had warnings (mit Warnungen)."""
    warnings: tuple[RunError, ...]
    """Warnings of these submissions, by code and path (Warnungen)."""


class RunImport(ImportStatus, frozen=True, kw_only=True):
    """The status record of an import of a run."""

    external_account_number: str
    """The account's identifier in the old system (Vertragskontonummer im Altsystem), byte for byte."""


class PathCount(Wire, frozen=True, kw_only=True):
    """How often a path of the wire is filled, the digest of its values, and where they are stored."""

    count: int
    """How often the path is filled (Anzahl)."""
    digest: str
    """Digest of all its values (Prüfsumme)."""
    stored: str
    """Table and column where they are stored (Ablage)."""


class LedgerSums(Wire, frozen=True, kw_only=True):
    """What the ledgers of one code add up to."""

    ledgers: int
    """How many ledgers (Anzahl der Buchungskreise)."""
    balances: int
    """How many balances (Anzahl der Salden)."""
    balance_sum: str
    """Their sum (Summe der Salden)."""
    transactions: int
    """How many transactions (Anzahl der Buchungen)."""
    transaction_sum: str
    """Their sum (Summe der Buchungen)."""


class RunSums(Wire, frozen=True, kw_only=True):
    """Exact sums, as decimal text at the greatest scale of what was summed."""

    transfer_balances: str
    """Sum of the transferred balances (Summe der Übertragungssalden)."""
    balances: str
    """Sum of the ledgers' balances (Summe der Salden der Buchungskreise)."""
    transactions: str
    """Sum of the transactions (Summe der Buchungen)."""
    readings: str
    """Sum of the readings (Summe der Zählerstände)."""


class RunTotals(Wire, frozen=True, kw_only=True):
    """What the platform's tables say of a run's accounts; `erased` of them have no rows any more."""

    import_supplier: str
    """Code of the import supplier (Lieferant) whose accounts are migrated."""
    run: str
    """Name of the run (Lauf)."""
    accounts: int
    """How many accounts (Anzahl der Konten)."""
    customers: int
    """How many customers (Anzahl der Kunden)."""
    supply_addresses: int
    """How many supply addresses (Anzahl der Lieferstellen)."""
    supply_points: int
    """How many supply points (Anzahl der Marktlokationen)."""
    meters: int
    """How many meters (Anzahl der Zähler)."""
    registers: int
    """How many registers (Anzahl der Zählwerke)."""
    readings: int
    """How many readings (Anzahl der Zählerstände)."""
    agreements: int
    """How many agreements (Anzahl der Verträge)."""
    ledgers: int
    """How many ledgers (Anzahl der Buchungskreise)."""
    balances: int
    """How many balances (Anzahl der Salden)."""
    transactions: int
    """How many transactions (Anzahl der Buchungen)."""
    documents: int
    """How many documents (Anzahl der Dokumente)."""
    sums: RunSums
    """Exact sums (Summen)."""
    by_ledger: dict[str, LedgerSums]
    """Sums by ledger code (Summen je Buchungskreis)."""
    paths: dict[str, PathCount]
    """Counts by path of the wire (Zahlen je Feldpfad)."""
    erased: int
    """How many were erased since (gelöscht)."""
    by_status: dict[str, int]
    """How many imports are in which state (Anzahl je Status)."""
    refused: int
    """How many submissions were refused (abgelehnt)."""
    unknown_fields: Literal["refuse", "ignore"]
    """What is done with undocumented fields (Umgang mit unbekannten Feldern): refuse or ignore."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a source adds up to, made by `importbook manifest`; further members are ignored."""

    import_supplier: str | None = None
    """Code of the import supplier (Lieferant) whose accounts are migrated."""
    accounts: int | None = None
    """How many accounts the source has (Anzahl der Konten)."""


class Certificate(Wire, frozen=True, kw_only=True):
    """A statement, signed with the ledger's key, that a source and the platform balance."""

    format: Literal["importledger-certificate/1"]
    """Format of the certificate (Format)."""
    says: str
    """Statement that is certified, in English (Aussage)."""
    import_supplier: str
    """Code of the import supplier (Lieferant) whose accounts are migrated."""
    run: str
    """Name of the run (Lauf)."""
    issued_at: datetime
    """When it was issued (ausgestellt am)."""
    issued_to: str
    """Organisation whose key requested it (ausgestellt für)."""
    source: Any
    """Source as the manifest names it (Quelle); null where it names none."""
    manifest_sha256: str
    """Digest of what source and platform have in common (Prüfsumme des Manifests)."""
    totals: RunTotals
    """What the platform has (Summen der Plattform)."""
    signed_at: datetime
    """When it was signed (unterschrieben am)."""
    checkpoint: str
    """Signed statement of the log that it rests on (Prüfpunkt)."""
    verifier_key: str
    """Key to check the signature with (Prüfschlüssel)."""
    signature: str
    """The signature (Unterschrift)."""
