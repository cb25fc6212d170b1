"""References of accounts: checks that need the database or an object store, made while imports are processed.

Documents must exist below the supplier's root, if the supplier's settings say so. A grid operator's code without a
market participant is a warning, or an error for a strict supplier. An account can refer to participants of the
organisations that may write to its supplier, and to participants of the service's operator.

Another live account with the same supply point causes a warning. The other account is looked up before the account's
transaction. Two workers that process two accounts with the same supply point at the same moment do not find each
other's account. A lock would prevent this, but every account would need two locks. In a batch, the second account gets
the warning even if the platform's tables refuse the first account.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from types import MappingProxyType
from typing import Any

import msgspec
import structlog

from eventstore.aggregates import participant
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from eventstore.log.rows import structs_of
from market.plausibility import today_in_germany
from projections.views.import_supplier import SELECT_NAMED, KnownSupplier
from schemas.account import Account
from schemas.base import Problem
from schemas.sentence import Sentence
from workers.actors.documents import LONGEST_S, DocumentsUnavailable, is_allowed, missing_documents

MAX_KNOWN = 100_000
_OPERATORS = ("meter_operators", "network_operators", "transmission_system_operators")

SELECT_LIVE = """
SELECT wanted.supplier, wanted.identifier
FROM unnest(%s::text[], %s::text[]) AS wanted (supplier, identifier)
CROSS JOIN LATERAL (
    SELECT
    FROM platform.supply_point AS p
    JOIN platform.service_account AS a USING (account_number)
    WHERE p.identifier = wanted.identifier AND a.import_supplier = wanted.supplier
      AND (p.supply_end_date IS NULL OR p.supply_end_date >= %s)
    LIMIT 1
) AS live
"""
"""Query that stops at the first account of a supply point, since a source may use the same supply point in all of its
accounts.
"""
_SELECT_KNOWN = "SELECT stream FROM events WHERE stream = ANY(%s) AND version = 1"
_SELECT_WRITERS = """
SELECT DISTINCT wanted.supplier, organisation
FROM unnest(%s::text[]) AS wanted (supplier)
JOIN access_key ON role IN ('importer', 'operator') AND suppliers && ARRAY[wanted.supplier, '*']
"""
"""Query that includes revoked keys, because participants that were sent with these keys stay."""


logger = structlog.get_logger()


SettingsByCode = Mapping[str, KnownSupplier]
"""Suppliers by their codes."""


class Findings(msgspec.Struct, frozen=True):
    """Errors and warnings about an account's references. `is_unknown`: the document store did not answer."""

    errors: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    is_unknown: bool = False

    def with_problems(self, problems: tuple[Problem, ...], *, are_errors: bool) -> "Findings":
        """Return the findings with further problems."""
        if are_errors:
            return Findings((*problems, *self.errors), self.warnings, self.is_unknown)
        return Findings(self.errors, (*problems, *self.warnings), self.is_unknown)


FieldSteps = tuple[str | int, ...]


class AccountReferences(msgspec.Struct, frozen=True):
    """References of an account.

    They are read before the account is dropped to save memory, and checked later. `operators` and `live_points` (supply
    points whose supply has not ended) are pairs (steps, code or identifier), with the steps of the path in the account.
    `creates_account`: False for a dry run.
    """

    supplier: str
    operators: tuple[tuple[FieldSteps, str], ...]
    live_points: tuple[tuple[FieldSteps, str], ...]
    statement_paths: tuple[str, ...]
    creates_account: bool


def references_of(account: Account, today: date, *, is_dry_run: bool) -> AccountReferences:
    """Return the references of an account. `today` is the day in the German market."""
    paths = tuple([statement.statement_path for statement in account.statements])
    return AccountReferences(
        supplier=account.import_supplier,
        operators=tuple(_operators(account)),
        live_points=tuple(_live(account, today)),
        statement_paths=paths,
        creates_account=not is_dry_run,
    )


class References:
    """Checks references against the database. Caches existing participants, which are never removed."""

    def __init__(self, ledger: Ledger, allowed_urls: Mapping[str, Sequence[str]] = MappingProxyType({})) -> None:
        """`allowed_urls`: by organisation, the URLs below which its documents may be."""
        self._ledger = ledger
        self._allowed_urls = allowed_urls
        self._known: set[str] = set()

    def settings(self, suppliers: set[str]) -> dict[str, KnownSupplier]:
        """Return the settings of each supplier by its code; the defaults of the contract for an unknown supplier."""
        with self._ledger.connection() as connection:
            known = structs_of(connection, KnownSupplier, SELECT_NAMED, list(suppliers))
        return {code: KnownSupplier(code=code) for code in suppliers} | {supplier.code: supplier for supplier in known}

    def findings(self, accounts: Sequence[AccountReferences], settings: SettingsByCode) -> list[Findings]:
        """Return the findings of each account, in order. `settings` must have the supplier of every account."""
        unknown = self._unknown(accounts)
        missing = _missing(accounts, settings, self._allowed_urls)
        existing = self._existing_points(accounts)
        results = []
        for account in accounts:
            supplier_settings = settings[account.supplier]
            findings = _documents_in(account, supplier_settings, missing.get(account.supplier, set()))
            if problems := (*_shared(account, existing), *_unknown(account, unknown[account.supplier])):
                findings = findings.with_problems(problems, are_errors=supplier_settings.strictness == "strict")
            results.append(findings)
            if account.creates_account and not findings.errors and not findings.is_unknown:
                existing |= _points(account)
        return results

    def _existing_points(self, accounts: Sequence[AccountReferences]) -> set[tuple[str, str]]:
        """Return the live supply points of these accounts that other live accounts have: (supplier, identifier)."""
        points = {point for account in accounts for point in _points(account)}
        if not points:
            return set()
        suppliers, identifiers = (list(column) for column in zip(*points, strict=True))
        with self._ledger.connection() as connection:
            rows = connection.execute(SELECT_LIVE, (suppliers, identifiers, today_in_germany(now()))).fetchall()
        return {(row["supplier"], row["identifier"]) for row in rows}

    def _unknown(self, accounts: Sequence[AccountReferences]) -> dict[str, set[str]]:
        """Return the codes of operators, by supplier, that belong to no participant to which its accounts may refer."""
        codes: dict[str, set[str]] = {account.supplier: set() for account in accounts}
        for account in accounts:
            codes[account.supplier].update(code for _, code in account.operators)
        writers = self._writers([supplier for supplier, named in codes.items() if named])
        streams = {
            (supplier, code): [participant.stream_of(writer, int(code)) for writer in writers[supplier]]
            for supplier, named in codes.items()
            for code in named
            if _is_number(code)
        }
        self._look_up({stream for some in streams.values() for stream in some})
        return {
            supplier: {code for code in named if self._known.isdisjoint(streams.get((supplier, code), ()))}
            for supplier, named in codes.items()
        }

    def _writers(self, suppliers: Sequence[str]) -> dict[str, set[str]]:
        """Return the organisations, by supplier, that may send its accounts, with "" for the service's operator."""
        writers = {supplier: {""} for supplier in suppliers}
        if suppliers:
            with self._ledger.connection() as connection:
                for row in connection.execute(_SELECT_WRITERS, (suppliers,)):
                    writers[row["supplier"]].add(row["organisation"])
        return writers

    def _look_up(self, streams: set[str]) -> None:
        """Look up the streams that are not in the cache, and add existing streams to the cache."""
        if len(self._known) > MAX_KNOWN:
            self._known.clear()
        if not (unknown := streams - self._known):
            return
        with self._ledger.connection() as connection:
            rows: list[dict[str, Any]] = connection.execute(_SELECT_KNOWN, (list(unknown),)).fetchall()
        self._known |= {row["stream"] for row in rows}


def _missing(
    accounts: Sequence[AccountReferences], settings: SettingsByCode, allowed_urls: Mapping[str, Sequence[str]]
) -> dict[str, set[str] | None]:
    """Return the paths without a document, by supplier.

    The value of a supplier is None if its document store does not answer, or its root is not below a URL that its
    organisation may use.
    """
    paths_of: dict[str, list[str]] = {}
    for account in accounts:
        if account.statement_paths and settings[account.supplier].documents_check != "off":
            paths_of.setdefault(account.supplier, []).extend(account.statement_paths)
    missing: dict[str, set[str] | None] = {}
    ends_at = time.monotonic() + LONGEST_S  # the message has imports of other suppliers
    for supplier, paths in paths_of.items():
        root, organisation = (
            settings[supplier].documents_root,
            settings[supplier].documents_organisation,
        )
        try:
            if organisation and not is_allowed(root, allowed_urls.get(organisation, ())):
                raise DocumentsUnavailable(
                    Sentence(
                        "it is not allowed to {organisation}",
                        "sie ist {organisation} nicht erlaubt",
                        organisation=organisation,
                    )
                )
            remaining_s = ends_at - time.monotonic()
            missing[supplier] = missing_documents(root, paths, longest_s=remaining_s)
        except DocumentsUnavailable as error:
            logger.warning("documents root cannot be reached", supplier=supplier, root=root, reason=str(error))
            missing[supplier] = None
    return missing


def _documents_in(account: AccountReferences, supplier_settings: KnownSupplier, missing: set[str] | None) -> Findings:
    if not account.statement_paths:
        return Findings()
    is_required = supplier_settings.documents_check == "require"
    if missing is None:
        problem = Problem(
            "statements",
            "document_store_unavailable",
            "Documents could not be checked: the document store did not answer.",
        )
        return Findings(is_unknown=True) if is_required else Findings(warnings=(problem,))
    absent = tuple(
        Problem(
            f"statements.{index}.statement_path",
            "path_does_not_exist_in_file_store",
            "There is no document at this path below the supplier's root.",
        )
        for index, path in enumerate(account.statement_paths)
        if path in missing
    )
    return Findings().with_problems(absent, are_errors=is_required)


def _shared(account: AccountReferences, existing: set[tuple[str, str]]) -> tuple[Problem, ...]:
    """Return a problem for each supply point that another live account of the supplier has."""
    sentence = "Another live account of the supplier has this supply point."
    return tuple(
        Problem(_path(steps), "supply_point_on_other_account", sentence)
        for steps, identifier in (account.live_points if existing else ())
        if (account.supplier, identifier) in existing
    )


def _unknown(account: AccountReferences, codes: set[str]) -> tuple[Problem, ...]:
    """Return a problem for each operator with one of these codes, which belong to no market participant."""
    sentence = "There is no market participant with this code."
    return tuple(
        Problem(_path(steps), "market_participant_not_found", sentence)
        for steps, code in (account.operators if codes else ())
        if code in codes
    )


def _points(account: AccountReferences) -> set[tuple[str, str]]:
    """Return the live supply points of the account: (supplier, identifier)."""
    return {(account.supplier, identifier) for _, identifier in account.live_points}


def _live(account: Account, today: date) -> Iterator[tuple[FieldSteps, str]]:
    """Yield (steps, identifier) of every supply point whose supply has not ended."""
    for a, address in enumerate(account.supply_addresses):
        for p, point in enumerate(address.supply_points):
            if point.supply_end_date is None or point.supply_end_date >= today:
                yield ("supply_addresses", a, "supply_points", p, "identifier"), point.identifier


def _operators(account: Account) -> Iterator[tuple[FieldSteps, str]]:
    """Yield (steps, code) of every grid or meter operator in the account."""
    for a, address in enumerate(account.supply_addresses):
        for p, point in enumerate(address.supply_points):
            for kind in _OPERATORS:
                for o, operator in enumerate(getattr(point, kind)):
                    yield ("supply_addresses", a, "supply_points", p, kind, o, "code"), operator.code


def _path(steps: FieldSteps) -> str:
    return ".".join(map(str, steps))


def _is_number(code: str) -> bool:
    return code.isascii() and code.isdigit() and len(code) <= 19
