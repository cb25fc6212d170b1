"""Shapes that describe runs to importers: accounts that were sent under one name."""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from schemas.base import MAX_ITEMS, AnyJson, ExternalNumber, Text, Wire
from schemas.status import ImportState, ImportStatus


class RunError(Wire, frozen=True, kw_only=True):
    """Number of submissions of a run with an error or a warning at a path. Each attempt counts.

    Counts errors of refused lines and requests, and of failed imports.
    """

    code: str
    """Permanent code; /errors/ lists all (Fehlercode)."""
    path: str
    """Path of the field in the account (Feld); may be empty."""
    number: int
    """Number of submissions (Anzahl)."""


class RunRecord(Wire, frozen=True, kw_only=True):
    """Progress of a run. `total` is the sum of `by_status`; `refused` counts attempts; `eta_s` is null if unknown."""

    run: str
    """Name of the run (Lauf)."""
    import_supplier: str
    """Code of the import supplier (Quelle) whose accounts are migrated."""
    mode: Literal["create", "validate", "dry_run"]
    """Mode of the run (Modus): create, validate or dry_run."""
    started_at: datetime
    """Time of the first submission (Beginn)."""
    last_at: datetime
    """Time of the last event of the run (letztes Ereignis)."""
    total: int
    """Number of imports (Gesamtzahl)."""
    refused: int
    """Number of refused submissions (abgelehnt)."""
    by_status: dict[str, int]
    """Number of imports by status (Anzahl je Status)."""
    processed_per_s: float
    """Imports that are processed per second (Durchsatz)."""
    eta_s: float | None
    """Estimated seconds until all imports have ended (verbleibende Zeit); null if unknown."""
    errors: tuple[RunError, ...]
    """Errors by code and path (Fehler)."""
    warned: int
    """Number of accepted or validated submissions with warnings (mit Warnungen)."""
    warnings: tuple[RunError, ...]
    """Warnings of these submissions, by code and path (Warnungen)."""


class RunImport(ImportStatus, frozen=True, kw_only=True):
    """The status record of an import of a run."""

    external_account_number: str
    """The account's identifier in the old system (Vertragskontonummer im Altsystem), compared byte for byte."""


class PathCount(Wire, frozen=True, kw_only=True):
    """Number of values at a path of the wire, their digest, and their table and column."""

    count: int
    """Number of values at the path (Anzahl)."""
    digest: str
    """Digest of all values at the path (Prüfsumme)."""
    stored: str
    """Table and column of the values (Ablage)."""


class LedgerSums(Wire, frozen=True, kw_only=True):
    """Sums over the ledgers of one code."""

    ledgers: int
    """Number of ledgers (Anzahl der Buchungskreise)."""
    balances: int
    """Number of balances (Anzahl der Salden)."""
    balance_sum: str
    """Sum of the balances (Summe der Salden)."""
    transactions: int
    """Number of transactions (Anzahl der Buchungen)."""
    transaction_sum: str
    """Sum of the transactions (Summe der Buchungen)."""


class RunSums(Wire, frozen=True, kw_only=True):
    """Exact sums as decimal text, with as many decimal places as the summed value with the most."""

    transfer_balances: str
    """Sum of the transferred balances (Summe der Übertragungssalden)."""
    balances: str
    """Sum of the ledgers' balances (Summe der Salden der Buchungskreise)."""
    transactions: str
    """Sum of the transactions (Summe der Buchungen)."""
    readings: str
    """Sum of the readings (Summe der Zählerstände)."""


class RunTotals(Wire, frozen=True, kw_only=True):
    """Totals of a run's accounts in the platform's tables. `erased` accounts have no rows."""

    import_supplier: str
    """Code of the import supplier (Quelle) whose accounts are migrated."""
    run: str
    """Name of the run (Lauf)."""
    accounts: int
    """Number of accounts (Anzahl der Konten)."""
    customers: int
    """Number of customers (Anzahl der Kunden)."""
    supply_addresses: int
    """Number of supply addresses (Anzahl der Lieferstellen)."""
    supply_points: int
    """Number of supply points (Anzahl der Marktlokationen)."""
    meters: int
    """Number of meters (Anzahl der Zähler)."""
    registers: int
    """Number of registers (Anzahl der Zählwerke)."""
    readings: int
    """Number of readings (Anzahl der Zählerstände)."""
    agreements: int
    """Number of agreements (Anzahl der Verträge)."""
    ledgers: int
    """Number of ledgers (Anzahl der Buchungskreise)."""
    balances: int
    """Number of balances (Anzahl der Salden)."""
    transactions: int
    """Number of transactions (Anzahl der Buchungen)."""
    documents: int
    """Number of documents (Anzahl der Dokumente)."""
    sums: RunSums
    """Exact sums (Summen)."""
    by_ledger: dict[str, LedgerSums]
    """Sums by ledger code (Summen je Buchungskreis)."""
    paths: dict[str, PathCount]
    """Counts by path of the wire (Zahlen je Feldpfad)."""
    buckets: tuple[str, ...] | UnsetType = UNSET
    """Digests of the accounts in 4,096 buckets by their number (Prüfsummen der Konten); absent in certificates."""
    digest: str
    """SHA-256 of the digests in `buckets` (Prüfsumme über alle Konten)."""
    erased: int
    """Number of accounts erased since their import (gelöscht)."""
    by_status: dict[str, int]
    """Number of imports by status (Anzahl je Status)."""
    refused: int
    """Number of refused submissions (abgelehnt)."""
    unknown_fields: Literal["refuse", "ignore"]
    """Treatment of undocumented fields (Umgang mit unbekannten Feldern): refuse or ignore."""
    released_at: datetime | UnsetType = UNSET
    """Time since which the platform owns all accounts of the run (freigegeben am); absent before."""


class JobProgress(Wire, frozen=True, kw_only=True):
    """Progress of the job that computes the totals of a run. `eta_s` is null while it is unknown."""

    accounts: int
    """Number of accounts of the run (Anzahl der Konten)."""
    accounts_done: int
    """Number of accounts that the job has added up (davon erledigt)."""
    eta_s: float | None
    """Estimated seconds until the end (geschätzte Restzeit)."""
    why: str = ""
    """Reason why the job makes no progress, or "" (Grund des Stillstands)."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """Totals of a source, made by `importbook manifest`. Further members are ignored."""

    import_supplier: str | None = None
    """Code of the import supplier (Quelle) whose accounts are migrated."""
    accounts: int | None = None
    """Number of accounts of the source (Anzahl der Konten)."""


class Certificate(Wire, frozen=True, kw_only=True):
    """A statement, signed with the ledger's key, that a source and the platform have equal totals."""

    format: Literal["importledger-certificate/1"]
    """Format of the certificate (Format)."""
    says: str
    """Certified statement, in English (Aussage)."""
    import_supplier: str
    """Code of the import supplier (Quelle) whose accounts are migrated."""
    run: str
    """Name of the run (Lauf)."""
    issued_at: datetime
    """Time of issue (ausgestellt am)."""
    issued_to: str
    """Organisation whose key has requested the certificate (ausgestellt für)."""
    source: Any
    """Source that the manifest names (Quelle), or null."""
    manifest_sha256: str
    """Digest of the members that manifest and totals share (Prüfsumme des Manifests)."""
    totals: RunTotals
    """Totals of the platform (Summen der Plattform)."""
    signed_at: datetime
    """Time of the signature (signiert am)."""
    checkpoint: str
    """Newest signed checkpoint of the log at the time of signing (Siegel)."""
    verifier_key: str
    """Key to check the signature with (Prüfschlüssel)."""
    signature: str
    """The signature (Signatur)."""


class SourcePath(Wire, frozen=True, kw_only=True):
    """Digest of the values of a path of an account in the source."""

    path: Text
    """Path of the field in the account, without indexes (Feld)."""
    digest: Text
    """Digest of the values of the path (Prüfsumme)."""


class SourceAccount(Wire, frozen=True, kw_only=True):
    """Digest of an account in the source. If `paths` is given, the answer has the paths that differ."""

    external_account_number: ExternalNumber
    """The account's identifier in the old system (Vertragskontonummer im Altsystem), compared byte for byte."""
    digest: Text
    """Digest of the account's content (Prüfsumme)."""
    paths: Annotated[tuple[SourcePath, ...], Meta(max_length=MAX_ITEMS)] = ()
    """Digests of its filled paths (Prüfsummen je Feld)."""


class SourceContent(Wire, frozen=True, kw_only=True):
    """Accounts of a source to compare with a run, and the buckets of which the source has no other accounts."""

    buckets: Annotated[tuple[Text, ...], Meta(max_length=4096)] = ()
    """Buckets whose further accounts on the platform are additional (Gruppen von Konten)."""
    accounts: Annotated[tuple[SourceAccount, ...], Meta(max_length=2_000)] = ()
    """Accounts of the source (Konten des Altsystems)."""


class PlatformValue(Wire, frozen=True, kw_only=True):
    """A value of a path on the platform."""

    row: int
    """Number of the value's row in the account, from 1; 0 for the account itself (Zeile)."""
    digest: str
    """Digest of the value and its place; empty if the value is masked (Prüfsumme)."""
    value: str
    """The value, masked if it may describe a person (Wert)."""


class PathDifference(Wire, frozen=True, kw_only=True):
    """A path of an account whose values differ between source and platform."""

    path: str
    """Path of the field in the account, without indexes (Feld)."""
    stored: str
    """Table and column of the platform; empty for an undocumented field (Ablage)."""
    is_personal: bool
    """True if values of the path may describe a person (Personendaten)."""
    values: tuple[PlatformValue, ...]
    """The platform's first values of the path (Werte der Plattform)."""


class AccountDifference(Wire, frozen=True, kw_only=True):
    """An account that differs between source and platform."""

    external_account_number: str
    """The account's identifier in the old system (Vertragskontonummer im Altsystem), compared byte for byte."""
    kind: Literal["missing", "additional", "different"]
    """Kind of the difference (Art): missing on the platform, additional there, or different."""
    digest: str
    """Digest of the account on the platform if no path differs, only its spelling; else empty (Prüfsumme)."""
    service_identifier: str | None
    """Number of the account (Vertragskontonummer); null while there is none."""
    status: ImportState | None
    """State of the import; null if the run does not have the account (Status)."""
    is_erased: bool = False
    """True if the person was erased (gelöscht)."""
    is_as_logged: bool | None = None
    """True if the account's rows equal the rows that the log gives, false if the platform has lost or altered the
    account; null if this is unknown.
    """
    paths: tuple[PathDifference, ...] = ()
    """Paths that differ, if the request had the account's paths (abweichende Felder)."""


class PulledContent(Wire, frozen=True, kw_only=True):
    """An account of the platform, one of its records, or an import without an account on the platform."""

    position: int
    """Position of the import in the log (Position), for `continue_after` of the next request."""
    kind: Literal["account", "delivery_note", "energy_amount", "market_participant_invoice", "left_out"]
    """Kind of the content (Art). `left_out`: the import has no account on the platform."""
    payload: AnyJson
    """Body that imports the content again (Daten); for `left_out`, the number of the account and its status."""
