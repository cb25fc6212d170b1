"""Reverts, which remove accounts from the platform, and releases, after which accounts cannot be reverted.

A revert goes through its accounts in the order of the log, in transactions of BATCH accounts. Each transaction deletes
the accounts' platform rows and remembered answers, and cancels e-mails that were not sent. A reverted import is
CANCELLED, so a killed revert continues with the remaining accounts when it is run again. The preview is the same loop
without the append.

An account is not reverted if it has records, was released, or is in the references of another account. These facts are
in other streams. They are read before the decision, and again in the transaction, under a lock that writers of these
facts also take (`locks.REVERTS`). If the facts have changed, the batch is decided again.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, LiteralString

import msgspec
from psycopg import Connection

from eventstore.aggregates import customer_mail, supplier
from eventstore.aggregates.aggregate import Command
from eventstore.aggregates.customer_mail import CancelMail
from eventstore.aggregates.import_process import WAITING, Following, RevertImport, decide, stream_of
from eventstore.aggregates.supplier import ReleaseAccounts
from eventstore.clock import now
from eventstore.errors import AccountFollowed, IllegalTransition, OperatorError, Refused, VersionConflict
from eventstore.events import Recorded
from eventstore.log import locks
from eventstore.log.columns import log_head
from eventstore.log.ledger import Ledger, Loaded, WriteRows
from eventstore.log.rows import rows_of, structs_of, value_of
from projections.platform.change import delete_accounts
from projections.platform.tables import REFERRING
from projections.views.account_release import RELEASED_AT
from projections.views.import_run import RunSortKey

BATCH = 500
"""Accounts per transaction."""
TRIES = 20
"""Decisions on a batch whose accounts change meanwhile. After these tries, the revert fails, and can be run again."""
WAIT_S = 10.0
"""Longest wait for the list of a run's accounts, which follows the log [seconds]."""
_LOOK_EVERY_S = 0.1

Progress = Callable[[int, int], None]
"""Function that is called with the number of accounts that are done, and their total."""


class RunsBehind(OperatorError):
    """The lists of runs do not include all events yet. A running relay updates the lists."""

    def __str__(self) -> str:
        return "The accounts of the run are not all known yet: a relay must be running. Nothing was changed; try again."


class RevertConflict(OperatorError):
    """The accounts of a batch have changed at each try. Accounts of earlier batches are reverted."""

    def __str__(self) -> str:
        return "Accounts have changed at each try. What was reverted stays so; run the same again for the rest."


class AccountReverted(Refused):
    """The account was reverted before its record could be attached."""

    code = "account_not_found"
    sentences = ("The account was reverted.", "Das Konto wurde zurückgenommen.")


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Accounts of a supplier to revert: all accounts of a run, or accounts by external number.

    `numbers` are the account numbers of an approved preview: other accounts are not reverted.
    """

    supplier: str
    run: str = ""
    externals: tuple[str, ...] = ()
    numbers: frozenset[str] | None = None


class Reverted(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of accounts: reverted (in a preview: revertible), kept by reason, and failed, which have no account."""

    reverted: int
    kept: Mapping[str, int]
    failed: int

    @property
    def total(self) -> int:
        return self.reverted + sum(self.kept.values()) + self.failed


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Status and number of an account, and the reason in other streams that prevents its revert."""

    external: str
    status: str
    account_number: str | None
    is_released: bool
    has_records: bool
    is_referred: bool
    has_open_mail: bool

    @property
    def followed_by(self) -> Following:
        if self.is_released:
            return "release"
        if self.has_records:
            return "post_account_data"
        return "reference" if self.is_referred else ""


class _Outdated(Exception):
    """The facts have changed since the decision."""


class _Plan(msgspec.Struct):
    """Plan for the accounts of a batch: commands for accounts that can be reverted, and the numbers of all other
    accounts.

    `loaded` are the states on which the commands were decided.
    """

    facts: Sequence[Facts]
    commands: dict[str, Command]
    loaded: dict[str, Loaded]
    numbers: list[str]
    kept: Counter[str]
    failed: int


def revert(
    ledger: Ledger, selection: Selection, reason: str, *, by: str, progress: Progress = lambda done, total: None
) -> Reverted:
    """Revert the accounts that can be reverted. The ledger must have the administrator's URL. Safe to repeat.

    Raises RunsBehind, RevertConflict, StoreUnavailable. Batches before the error stay reverted.
    """

    def done(externals: Sequence[str]) -> _Plan:
        for _ in range(TRIES):
            plan = _planned(ledger, selection, externals, reason)
            if not plan.commands:
                return plan
            try:
                write_rows = _taking_back(selection.supplier, externals, plan)
                outcomes = ledger.execute_many(
                    plan.commands, at=now(), by=by, loaded=plan.loaded, write_rows=write_rows
                )
            except (_Outdated, VersionConflict):
                continue
            if plan.loaded.keys() <= {outcome.stream for outcome in outcomes if outcome.recorded}:
                return plan
        raise RevertConflict

    result = _each(ledger, selection, done, progress)
    if result.reverted and selection.run:
        with suppress(RunsBehind), ledger.connection() as connection:  # so that readers of the run find its new state
            wait_for_runs(connection)
    return result


def preview(
    ledger: Ledger,
    selection: Selection,
    *,
    progress: Progress = lambda done, total: None,
    found: Callable[[Sequence[str]], object] = len,
) -> Reverted:
    """Return the result that `revert` would have now.

    `found` is called with the numbers of the accounts that `revert` would revert.

    Raises RunsBehind, StoreUnavailable.
    """

    def planned(externals: Sequence[str]) -> _Plan:
        plan = _planned(ledger, selection, externals, "")
        found(plan.numbers)
        return plan

    return _each(ledger, selection, planned, progress)


def release(ledger: Ledger, code: str, run: str, reason: str, *, by: str) -> bool:
    """Release the accounts of the supplier, or of a run, that have been processed.

    Returns False if there is nothing to release.
    """
    with ledger.connection() as connection:
        if not releasable(connection, code, run):
            return False
    stream, command = supplier.stream_of(code), ReleaseAccounts(run=run, reason=reason)
    return ledger.execute(stream, command, at=now(), by=by, write_rows=apart_from_reverts(code)) is not None


def releasable(connection: Connection[Any], code: str, run: str, *, most: int | None = None) -> int:
    """Count the accounts that a release would release now, up to `most`."""
    query = f"SELECT count(*) FROM (SELECT s.account_number {_RELEASABLE} LIMIT %(most)s) AS r"  # noqa: S608 - constants
    with connection.transaction():
        connection.execute("SET LOCAL statement_timeout = 0")
        return int(value_of(connection, query, supplier=code, run=run, most=most))


def releasable_numbers(connection: Connection[Any], code: str, run: str) -> list[str]:
    """Return the numbers of the accounts that a release would release now, in their order."""
    with connection.transaction():
        connection.execute("SET LOCAL statement_timeout = 0")
        rows = rows_of(connection, f"SELECT s.account_number {_RELEASABLE} ORDER BY 1", supplier=code, run=run)
    return [number for (number,) in rows]


def apart_from_reverts(code: str) -> WriteRows:
    """Return a `write_rows` for a command on the supplier with this code.

    This `write_rows` waits until a batch of a revert of this supplier has ended, and delays further batches until the
    transaction ends.
    """
    return lambda connection, events: _be_alone(connection, code)


def of_existing(accounts: Collection[tuple[str, str]], write: WriteRows) -> WriteRows:
    """Return `write` for records of these accounts, given as (supplier, account number).

    The returned `write` raises AccountReverted if an account was reverted, and prevents reverts until the transaction
    ends.
    """

    def write_of_existing(connection: Connection[Any], events: Sequence[Recorded]) -> None:
        codes, numbers = sorted({code for code, _ in accounts}), [number for _, number in accounts]
        connection.execute(_SHARE.encode(), {"codes": codes, "class": locks.REVERTS, "platform": locks.PLATFORM})
        if rows_of(connection, _SELECT_GONE, numbers):
            raise AccountReverted
        write(connection, events)

    return write_of_existing


_SHARE: LiteralString = """
SELECT pg_advisory_xact_lock_shared(%(class)s, hashtext(code)), pg_advisory_xact_lock_shared(%(platform)s)
FROM unnest(%(codes)s::text[]) AS code
"""
_SELECT_GONE = """
SELECT FROM unnest(%s::text[]) AS number
WHERE NOT EXISTS (SELECT FROM platform.service_account WHERE account_number = number)
LIMIT 1
"""


def _be_alone(connection: Connection[Any], code: str) -> None:
    connection.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (locks.REVERTS, code))


def _each(
    ledger: Ledger, selection: Selection, decided: Callable[[Sequence[str]], _Plan], progress: Progress
) -> Reverted:
    """Call `decided` with each batch of the selection, in the order of the log, and return the sums."""
    accounts, kept, failed, done = 0, Counter[str](), 0, 0
    with ledger.connection() as connection:
        if selection.run:
            wait_for_runs(connection)
        total = _count(connection, selection)
        for externals in _batches(connection, selection):
            plan = decided(externals)
            accounts += len(plan.numbers)
            kept += plan.kept
            failed += plan.failed
            progress(done := done + len(externals), total)
    return Reverted(reverted=accounts, kept=dict(sorted(kept.items())), failed=failed)


def _count(connection: Connection[Any], selection: Selection) -> int:
    if not selection.run:
        return len(set(selection.externals))
    return int(value_of(connection, _COUNT_MEMBERS, selection.supplier, selection.run))


def _batches(connection: Connection[Any], selection: Selection) -> Iterator[list[str]]:
    """Yield the external numbers of the selection in the order of the log, then unknown numbers."""
    if not selection.run:
        externals = list(dict.fromkeys(selection.externals))
        known = rows_of(connection, _SELECT_IN_ORDER, selection.supplier, externals)
        ordered = list(dict.fromkeys([*(external for (external,) in known), *externals]))
        yield from (ordered[start : start + BATCH] for start in range(0, len(ordered), BATCH))
        return
    after: RunSortKey | None = (-1, "")
    while after is not None:
        rows = rows_of(connection, _SELECT_MEMBERS, selection.supplier, selection.run, *after, BATCH)
        if rows:
            yield [external for _, external in rows]
        after = (rows[-1][0], rows[-1][1]) if len(rows) == BATCH else None


def wait_for_runs(connection: Connection[Any]) -> None:
    """Wait until the lists of runs include all events that are in the log now. Raises RunsBehind."""
    head = log_head(connection)
    _wait_while(lambda: bool(value_of(connection, _SELECT_REACHED) < head))


def _wait_while(is_behind: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while is_behind():
        if time.monotonic() > deadline:
            raise RunsBehind
        time.sleep(_LOOK_EVERY_S)


def _planned(ledger: Ledger, selection: Selection, externals: Sequence[str], reason: str) -> _Plan:
    """Decide on a batch of accounts, and return the plan."""
    with ledger.connection() as connection:
        facts = _facts(connection, selection.supplier, externals)
    code, found = selection.supplier, [fact for fact in facts if fact.status == "PROCESSED"]
    waiting = sum(fact.status in WAITING for fact in facts)
    plan = _Plan(facts, {}, {}, [], Counter({"pending": waiting} if waiting else {}), 0)
    plan.failed = len(externals) - len(found) - waiting
    states = ledger.try_load([stream_of(code, fact.external) for fact in found])
    for fact in found:
        stream = stream_of(code, fact.external)
        loaded, command = states[stream], RevertImport(run=selection.run, reason=reason, followed_by=fact.followed_by)
        try:
            event = decide(command, loaded.state, now()) if isinstance(loaded, Loaded) else None
        except AccountFollowed as refusal:
            plan.kept[refusal.followed_by] += 1
            continue
        except IllegalTransition:  # the account's status has changed since the facts were read
            plan.kept["pending"] += 1
            continue
        if not isinstance(loaded, Loaded):
            plan.kept["unreadable"] += 1
        elif event is None:
            plan.failed += 1
        elif selection.numbers is not None and loaded.state.account_number not in selection.numbers:
            plan.kept["not_previewed"] += 1
        else:
            plan.commands[stream], plan.loaded[stream] = command, loaded
            plan.numbers.append(loaded.state.account_number)
            if fact.has_open_mail:
                plan.commands[customer_mail.stream_of(code, fact.external)] = CancelMail()
    return plan


def _facts(connection: Connection[Any], code: str, externals: Sequence[str]) -> list[Facts]:
    """Read the facts about these accounts. Raises RunsBehind while the members of a released run are not all known."""
    _wait_while(lambda: bool(value_of(connection, _IS_BEHIND, code)))
    return structs_of(connection, Facts, _SELECT_FACTS, supplier=code, externals=list(externals))


def _without_mail(facts: Facts) -> Facts:
    """Return the facts without the e-mail, since a sent e-mail is no reason to decide again."""
    return msgspec.structs.replace(facts, has_open_mail=False)


def _taking_back(code: str, externals: Sequence[str], plan: _Plan) -> WriteRows:
    """Return a function that deletes the data of the plan's accounts outside of the log, if the facts are unchanged."""

    def take_back(connection: Connection[Any], events: Sequence[Recorded]) -> None:
        connection.execute("SET LOCAL statement_timeout = 0")  # large accounts take longer to delete
        _be_alone(connection, code)
        connection.execute("SELECT pg_advisory_xact_lock_shared(%s)", (locks.PLATFORM,))
        if value_of(connection, _IS_BEHIND, code):
            raise _Outdated
        present = structs_of(connection, Facts, _SELECT_FACTS, supplier=code, externals=list(externals))
        if list(map(_without_mail, present)) != list(map(_without_mail, plan.facts)):
            raise _Outdated
        if not plan.loaded.keys() <= {recorded.stream for recorded in events}:
            raise _Outdated
        delete_accounts(connection, "platform", plan.numbers)
        connection.execute(_DELETE_ANSWERS.encode(), ([*plan.loaded],))

    return take_back


_DELETE_ANSWERS = """
DELETE FROM remembered_answers
WHERE command_id IN (SELECT command_id FROM events WHERE stream = ANY(%s) AND command_id IS NOT NULL)
"""
"""Statement that deletes remembered answers, because a request that is repeated with its Idempotency-Key must stage a
reverted account again.
"""
_SELECT_REACHED = "SELECT position FROM projection_versions WHERE name = 'import_run' AND state = 'live'"
_IS_BEHIND: LiteralString = f"""
SELECT coalesce(max(position) > ({_SELECT_REACHED}), false) FROM account_release WHERE supplier = %s AND run <> ''
"""  # noqa: S608 - constants
_COUNT_MEMBERS = "SELECT count(*) FROM import_run_account WHERE supplier = %s AND run = %s"
_SELECT_MEMBERS = """
SELECT position, external_account_number
FROM import_run_account
WHERE supplier = %s AND run = %s AND (position, external_account_number) > (%s, %s)
ORDER BY position, external_account_number
LIMIT %s
"""
_SELECT_IN_ORDER = """
SELECT external_account_number
FROM import_status
WHERE supplier = %s AND external_account_number = ANY(%s)
ORDER BY created_position
"""
_IS_REFERRED: LiteralString = f"""EXISTS (
        SELECT FROM platform.service_account AS a
        WHERE {REFERRING} AND a.import_supplier || '' = s.supplier AND a.account_number <> s.account_number
          AND a."references"::jsonb @> jsonb_build_array(jsonb_build_object('value', s.account_number)))"""
_SELECT_FACTS: LiteralString = f"""
SELECT s.external_account_number AS external, s.status, s.account_number,
       ({RELEASED_AT}) IS NOT NULL AS is_released,
       EXISTS (SELECT FROM account_record AS r
               WHERE r.supplier = s.supplier AND r.external_account_number = s.external_account_number
                 AND r.account_number = s.account_number) AS has_records,
       s.account_number IS NOT NULL AND {_IS_REFERRED} AS is_referred,
       coalesce(m.status IN ('REQUESTED', 'SENDING'), false) AS has_open_mail
FROM unnest(%(externals)s::text[]) WITH ORDINALITY AS wanted (external, turn)
CROSS JOIN LATERAL (
    SELECT * FROM import_status WHERE supplier = %(supplier)s AND external_account_number = wanted.external OFFSET 0
) AS s
LEFT JOIN customer_mail AS m
       ON m.supplier = s.supplier AND m.external_account_number = s.external_account_number
ORDER BY wanted.turn
"""  # noqa: S608 - constants
"""Facts about accounts, by index for each account also without statistics, as after an import: otherwise each batch
would read all accounts of the supplier. Therefore `OFFSET 0`, and `|| ''`, which no index of suppliers fits.
"""
_RELEASABLE: LiteralString = f"""
FROM import_status AS s
WHERE s.supplier = %(supplier)s AND s.status = 'PROCESSED' AND ({RELEASED_AT}) IS NULL
  AND (%(run)s = '' OR EXISTS (
      SELECT FROM import_run_account AS a
      WHERE a.supplier = s.supplier AND a.external_account_number = s.external_account_number AND a.run = %(run)s))
"""
