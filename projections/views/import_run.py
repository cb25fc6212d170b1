"""Runs, which are accounts that were sent under one name: progress and accounts of each run. Follows the log.

Three tables: `import_run` has a row for each run, `import_run_account` for each of its accounts. `import_run_count` has
the numbers of statuses, errors and warnings, and of imports ended in each span of ten seconds.
"""

from collections import Counter as Sums
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, LiteralString

import msgspec
from psycopg import AsyncConnection, Connection
from psycopg.rows import tuple_row
from psycopg.sql import SQL, Identifier

from eventstore.aggregates.aggregate import Event
from eventstore.aggregates.import_process import (
    STATUS_AFTER,
    STATUS_AFTER_TOPIC,
    WAITING,
    DryRunErrored,
    DryRunSucceeded,
    ImportErrored,
    ImportProcessed,
    ImportStaged,
    SubjectErased,
    identity_of,
    status_after,
    status_after_erasure,
    stream_of,
)
from eventstore.aggregates.run import AccountsReplayed, RunCounted, run_of
from eventstore.clock import now
from eventstore.log.columns import SELECT_HEAD
from eventstore.log.copy_format import copy_into
from eventstore.log.rows import fetch_rows, rows_of
from projections.versions.following import Following, add_numbers
from projections.versions.reading import Seen
from projections.views.account_release import RELEASED_AT
from projections.views.error_statistics import failure_name
from projections.views.import_status import status_of_row
from schemas.base import code_and_path
from schemas.reading.documented_paths import path_pattern
from schemas.reading.problems import UNKNOWN_FIELD
from schemas.run import RunError, RunImport, RunRecord

SPAN_S = 10
"""Span of time in which ended imports are counted together [seconds]."""
RATE_OVER_S = 60
"""Time up to the last ended import over which the rate is computed [seconds]."""
STALLED_AFTER_S = 30
"""Time without an ended import after which the rate is 0 [seconds]."""
MAX_ERRORS = 1_000
"""Errors, and warnings, in the record of a run. Less frequent errors and warnings are left out."""
PAGE = 1_000
EDITION = "3: warnings are counted, too"

_ENDED = (ImportProcessed, ImportErrored, DryRunSucceeded, DryRunErrored)

_TABLES = {
    "import_run": "supplier text NOT NULL, run text NOT NULL, mode text NOT NULL, started_at timestamptz NOT NULL,"
    " last_at timestamptz NOT NULL, position bigint NOT NULL, valid bigint NOT NULL, refused bigint NOT NULL,"
    " PRIMARY KEY (supplier, run)",
    "import_run_account": "supplier text NOT NULL, external_account_number text NOT NULL, run text NOT NULL,"
    " position bigint NOT NULL, PRIMARY KEY (supplier, external_account_number, run)",
    "import_run_count": "supplier text NOT NULL, run text NOT NULL, kind text NOT NULL, name text NOT NULL,"
    " path text NOT NULL, number bigint NOT NULL, PRIMARY KEY (supplier, run, kind, name, path)",
}
_INDEXES = {
    "import_run": ("(supplier, started_at, run)",),
    "import_run_account": ("(supplier, run, position, external_account_number)",),
}
_COUNTED = ("supplier", "run", "kind", "name", "path", "number")

AccountKey = tuple[str, str]
"""Supplier and external account number."""
RunKey = tuple[str, str]
"""Supplier and name."""
RunSortKey = tuple[int, str]
"""Sort key of an account in its run: the position at which the account joined the run, and its external number."""


class _Changes:
    """Changes of the tables by a batch of events."""

    def __init__(self, members: dict[AccountKey, set[str]]) -> None:
        self.members = members
        self.joined: list[tuple[str, str, str, int]] = []
        self.counts: Sums[tuple[str, str, str, str, str]] = Sums()
        self.runs: dict[RunKey, list[Any]] = {}
        """Rows to add by run: mode, first and last time, position, valid, refused."""

    def touch(self, run: RunKey, seen: Seen, mode: str = "") -> list[Any]:
        at = seen.recorded.recorded_at
        row = self.runs.setdefault(run, ["", at, at, 0, 0, 0])
        row[0], row[1], row[2], row[3] = mode or row[0], min(row[1], at), max(row[2], at), seen.position
        return row

    def count(self, run: RunKey, kind: str, name: str, path: str = "", number: int = 1) -> None:
        self.counts[(*run, kind, name, path)] += number

    def join(self, account: AccountKey, run: str, position: int) -> bool:
        """Add the account to the run; return whether the account is new in this run."""
        runs = self.members.setdefault(account, set())
        if run in runs:
            return False
        runs.add(run)
        self.joined.append((*account, run, position))
        return True


class ImportRuns(Following):
    """The projection of runs; the module describes its three tables."""

    folds_all = True
    reads_previous = True

    def __init__(self) -> None:
        events: tuple[type[Event], ...] = (*STATUS_AFTER, SubjectErased, RunCounted, AccountsReplayed)
        super().__init__("import_run", _TABLES, _INDEXES, events=events, edition=EDITION)

    def apply(self, connection: Connection[Any], schema: str, batch: Sequence[Seen]) -> None:
        batch = _of_suppliers_with_runs(connection, schema, batch)
        if not batch:
            return
        changes = _Changes(_members(connection, schema, _accounts_in(batch)))
        statuses = _statuses(connection, batch, changes.members)
        for seen in batch:
            match seen.recorded.event:
                case RunCounted() as event:
                    _add_counts(changes, seen, event)
                case AccountsReplayed() as event:
                    _add_replayed(changes, seen, event, statuses)
                case _:
                    _add_import(changes, seen)
        _write(connection, schema, changes)


IMPORT_RUN = ImportRuns()


def _add_counts(changes: _Changes, seen: Seen, event: RunCounted) -> None:
    run = run_of(seen.stream)
    row = changes.touch(run, seen, event.mode)
    row[4] += event.valid
    row[5] += event.refused
    for name, number in event.counts.items():
        changes.count(run, "error", *code_and_path(name), number)
    changes.count(run, "warned", "", number=event.warned)
    for name, number in event.warnings.items():
        changes.count(run, "warning", *code_and_path(name), number)


def _add_replayed(
    changes: _Changes, seen: Seen, event: AccountsReplayed, statuses: Mapping[tuple[str, int], str]
) -> None:
    supplier, name = run_of(seen.stream)
    changes.touch((supplier, name), seen, event.mode)
    for external in event.accounts:
        if changes.join((supplier, external), name, seen.position):
            status = statuses.get((stream_of(supplier, external), seen.position))
            if status is not None:
                changes.count((supplier, name), "status", status)


def _add_import(changes: _Changes, seen: Seen) -> None:
    """Count the status after the event, and subtract the status before the event if it was counted."""
    account, event = identity_of(seen.stream), seen.recorded.event
    before = set(changes.members.get(account, ()))
    if isinstance(event, ImportStaged) and event.run:
        changes.join(account, event.run, seen.position)
    for name in changes.members.get(account, ()):
        run = (account[0], name)
        is_own = isinstance(event, ImportStaged) and event.run == name
        mode = ("dry_run" if event.is_dry_run else "create") if is_own and isinstance(event, ImportStaged) else ""
        changes.touch(run, seen, mode)
        changes.count(run, "status", status_after(event))
        if name in before and seen.previous is not None:
            changes.count(run, "status", STATUS_AFTER_TOPIC[seen.previous], number=-1)
        if isinstance(event, _ENDED):
            changes.count(run, "ended", _span(seen.recorded.recorded_at))
        if isinstance(event, ImportErrored | DryRunErrored):
            changes.count(run, "error", *code_and_path(failure_name(event.code, event.problems)))
        if is_own and isinstance(event, ImportStaged) and (event.warnings or event.dropped):
            left_out = [(UNKNOWN_FIELD, "*")] if event.dropped else []  # the log has their names encrypted
            warnings = [*map(code_and_path, event.warnings), *left_out]
            changes.count(run, "warned", "")
            for code, path in {(code, path_pattern(attr)) for code, attr in warnings}:
                changes.count(run, "warning", code, path)


def _span(at: datetime) -> str:
    return f"{int(at.timestamp()) // SPAN_S * SPAN_S}"


def _accounts_in(batch: Iterable[Seen]) -> set[AccountKey]:
    accounts: set[AccountKey] = set()
    for seen in batch:
        match seen.recorded.event:
            case AccountsReplayed(accounts=replayed):
                supplier, _ = run_of(seen.stream)
                accounts.update((supplier, external) for external in replayed)
            case RunCounted():
                pass
            case _:
                accounts.add(identity_of(seen.stream))
    return accounts


def _of_suppliers_with_runs(connection: Connection[Any], schema: str, batch: Sequence[Seen]) -> Sequence[Seen]:
    """Return the events of suppliers that have runs, or get a run in this batch. Most suppliers have no runs."""
    suppliers = {seen.recorded.supplier for seen in batch}
    having = SQL("SELECT DISTINCT supplier FROM {} WHERE supplier = ANY(%s)").format(Identifier(schema, "import_run"))
    with_runs = {supplier for (supplier,) in rows_of(connection, having, list(suppliers))}
    if suppliers - with_runs:
        with_runs |= {seen.recorded.supplier for seen in batch if _is_of_run(seen.recorded.event)}
    return [seen for seen in batch if seen.recorded.supplier in with_runs]


def _is_of_run(event: Event) -> bool:
    return event.run != "" if isinstance(event, ImportStaged) else isinstance(event, RunCounted | AccountsReplayed)


def _members(connection: Connection[Any], schema: str, accounts: Collection[AccountKey]) -> dict[AccountKey, set[str]]:
    """Read the runs of these accounts."""
    if not accounts:
        return {}
    members: dict[AccountKey, set[str]] = defaultdict(set)
    query = SQL(
        "SELECT supplier, external_account_number, run FROM {}"
        " JOIN unnest(%s::text[], %s::text[]) AS wanted (s, e) ON supplier = s AND external_account_number = e"
    ).format(Identifier(schema, "import_run_account"))
    for supplier, external, run in rows_of(connection, query, *map(list, zip(*accounts, strict=True))):
        members[supplier, external].add(run)
    return dict(members)


_SELECT_LAST = """
SELECT stream, upto, last.topic, last.has_account
FROM unnest(%s::text[], %s::bigint[]) AS wanted (stream, upto)
CROSS JOIN LATERAL (
    SELECT topic, encode(state, 'escape') LIKE '%%"account_number":%%' AS has_account
    FROM events AS e
    WHERE e.stream = wanted.stream AND e.position <= wanted.upto
    ORDER BY version DESC
    LIMIT 1
) AS last
"""


def _statuses(
    connection: Connection[Any], batch: Iterable[Seen], members: Mapping[AccountKey, Collection[str]]
) -> dict[tuple[str, int], str]:
    """Read the statuses of accounts that a batch adds to runs, by stream and position of the adding event."""
    parameters: list[tuple[str, int]] = []
    for seen in batch:
        if isinstance(event := seen.recorded.event, AccountsReplayed):
            supplier, run = run_of(seen.stream)
            new = (external for external in event.accounts if run not in members.get((supplier, external), ()))
            parameters += [(stream_of(supplier, external), seen.position) for external in new]
    if not parameters:
        return {}
    rows = rows_of(connection, _SELECT_LAST, *map(list, zip(*parameters, strict=True)))
    return {
        (stream, upto): STATUS_AFTER_TOPIC.get(topic) or status_after_erasure(has_account)
        for stream, upto, topic, has_account in rows
    }


def _write(connection: Connection[Any], schema: str, changes: _Changes) -> None:
    if changes.joined:
        copy_into(connection, schema, "import_run_account", _JOINED, changes.joined)
    add_numbers(connection, Identifier(schema, "import_run_count"), _COUNTED, changes.counts)
    if changes.runs:
        rows = [(*run, *row) for run, row in sorted(changes.runs.items())]
        columns = [list(column) for column in zip(*rows, strict=True)]
        connection.execute(SQL(_UPSERT_RUN).format(table=Identifier(schema, "import_run")), columns)


_JOINED = ("supplier", "external_account_number", "run", "position")
_UPSERT_RUN = """
INSERT INTO {table} AS row (supplier, run, mode, started_at, last_at, position, valid, refused)
SELECT * FROM unnest(
    %s::text[], %s::text[], %s::text[], %s::timestamptz[], %s::timestamptz[], %s::bigint[], %s::bigint[], %s::bigint[])
ON CONFLICT (supplier, run) DO UPDATE SET
    mode = CASE excluded.mode WHEN '' THEN row.mode ELSE excluded.mode END,
    started_at = least(row.started_at, excluded.started_at), last_at = greatest(row.last_at, excluded.last_at),
    position = greatest(row.position, excluded.position),
    valid = row.valid + excluded.valid, refused = row.refused + excluded.refused
"""


_SELECT_KNOWN = """
SELECT supplier, run
FROM import_run
JOIN unnest(%s::text[], %s::text[]) AS named (supplier, run) USING (supplier, run)
"""
_COUNT_SINCE = """
SELECT supplier, (
    SELECT count(*) FROM (SELECT FROM import_run AS r WHERE r.supplier = s.supplier AND started_at >= %s LIMIT %s) AS t)
FROM unnest(%s::text[]) AS s (supplier)
"""


def known_runs(connection: Connection[Any], names: Collection[RunKey]) -> set[RunKey]:
    """Return the existing runs among these."""
    suppliers, runs = (list(column) for column in zip(*names, strict=True))
    return {(supplier, run) for supplier, run in rows_of(connection, _SELECT_KNOWN, suppliers, runs)}


def runs_since(
    connection: Connection[Any], suppliers: Collection[str], since: datetime, *, most: int
) -> dict[str, int]:
    """Count the runs of each supplier that began at this time or later, up to `most`."""
    return dict(rows_of(connection, _COUNT_SINCE, since, most, [*suppliers]))


def not_in_run(connection: Connection[Any], supplier: str, run: str, accounts: Sequence[str]) -> list[str]:
    """Return the external numbers that are not in the run."""
    query = (
        "SELECT external_account_number FROM import_run_account"
        " WHERE supplier = %s AND run = %s AND external_account_number = ANY(%s)"
    )
    known = {external for (external,) in rows_of(connection, query, supplier, run, list(accounts))}
    return [external for external in accounts if external not in known]


_SELECT_RUN = """
SELECT supplier, run, mode, started_at, last_at, position, valid, refused
FROM import_run
WHERE supplier = %(supplier)s AND run = %(run)s
"""
_SELECT_RUNS = """
SELECT supplier, run, mode, started_at, last_at, position, valid, refused
FROM import_run
WHERE supplier = %(supplier)s AND (%(after)s = '' OR (started_at, run) > (
    SELECT started_at, run FROM import_run WHERE supplier = %(supplier)s AND run = %(after)s))
ORDER BY started_at, run
LIMIT %(limit)s
"""
_SELECT_NEWEST_RUNS = """
SELECT supplier, run, mode, started_at, last_at, position, valid, refused
FROM import_run
WHERE supplier = ANY(%(suppliers)s)
  AND (%(at)s::timestamptz IS NULL OR (started_at, supplier, run) < (%(at)s, %(supplier)s, %(run)s))
ORDER BY started_at DESC, supplier DESC, run DESC
LIMIT %(limit)s
"""
_SELECT_COUNTS = """
SELECT r.supplier, r.run, kind, name, path, number
FROM unnest(%(suppliers)s::text[], %(runs)s::text[]) AS r (supplier, run)
JOIN import_run_count AS c ON c.supplier = r.supplier AND c.run = r.run AND kind <> 'ended'
ORDER BY r.supplier, r.run, kind, number DESC, name, path
"""
_SELECT_ENDED = """
SELECT r.supplier, r.run, e.name::bigint, e.number
FROM unnest(%(suppliers)s::text[], %(runs)s::text[]) AS r (supplier, run), LATERAL (
    SELECT name, number
    FROM import_run_count AS c
    WHERE c.supplier = r.supplier AND c.run = r.run AND kind = 'ended'
    ORDER BY name DESC
    LIMIT %(spans)s
) AS e
"""


class RunState(msgspec.Struct, frozen=True):
    """A run's record, and the position of its last event."""

    record: RunRecord
    position: int

    @property
    def key(self) -> tuple[str, str]:
        """Supplier and name."""
        return self.record.import_supplier, self.record.run

    @property
    def sort_key(self) -> "NewestRunKey":
        """Sort key of this run in lists of several suppliers' runs, with the newest run first."""
        return self.record.started_at, *self.key

    @property
    def is_waiting(self) -> bool:
        """Return whether an import of the run has not ended."""
        return any(self.record.by_status.get(status) for status in WAITING)


async def run_state(connection: AsyncConnection[Any], supplier: str, run: str) -> RunState | None:
    """Read the supplier's run with this name; None if it does not exist."""
    states = await _states(connection, _SELECT_RUN, {"supplier": supplier, "run": run})
    return states[0] if states else None


async def runs_page(
    connection: AsyncConnection[Any], supplier: str, *, after: str, limit: int
) -> tuple[list[RunState], str]:
    """Read a supplier's runs after the run with this name, in the order of their start.

    Also returns the name after which the next page begins, "" after the last page.
    """
    parameters = {"supplier": supplier, "after": after, "limit": limit + 1}
    states = await _states(connection, _SELECT_RUNS, parameters)
    return states[:limit], states[limit - 1].record.run if len(states) > limit else ""


async def count_runs(connection: AsyncConnection[Any], suppliers: Sequence[str]) -> int:
    """Count the runs of these suppliers."""
    query = "SELECT count(*) FROM import_run WHERE supplier = ANY(%s)"
    [(number,)] = await fetch_rows(connection, query, list(suppliers))
    return int(number)


NewestRunKey = tuple[datetime, str, str]
"""Sort key of runs of several suppliers: start, supplier, name."""


async def newest_runs(
    connection: AsyncConnection[Any], suppliers: Sequence[str], *, before: NewestRunKey | None = None, limit: int
) -> list[RunState]:
    """Read the runs of these suppliers, the newest first, after a sort key."""
    at, supplier, run = before or (None, "", "")
    parameters = {"suppliers": list(suppliers), "at": at, "supplier": supplier, "run": run, "limit": limit}
    return await _states(connection, _SELECT_NEWEST_RUNS, parameters)


async def _states(connection: AsyncConnection[Any], query: LiteralString, parameters: dict[str, Any]) -> list[RunState]:
    async with connection.transaction(), connection.cursor(row_factory=tuple_row) as cursor:
        rows = await (await cursor.execute(query, parameters, prepare=True)).fetchall()
        keys: list[RunKey] = [row[:2] for row in rows]
        suppliers, runs = [supplier for supplier, _ in keys], [run for _, run in keys]
        parameters = {"suppliers": suppliers, "runs": runs, "spans": RATE_OVER_S // SPAN_S + 1}
        counts: dict[RunKey, list[Any]] = {key: [] for key in keys}
        for supplier, run, *count in await (await cursor.execute(_SELECT_COUNTS, parameters, prepare=True)).fetchall():
            counts[supplier, run].append(count)
        ended: dict[RunKey, dict[int, int]] = {key: {} for key in keys}
        rates = await (await cursor.execute(_SELECT_ENDED, parameters, prepare=True)).fetchall()
        for supplier, run, span, number in rates:
            ended[supplier, run][span] = number
    return [_state(row, counts[row[:2]], ended[row[:2]]) for row in rows]


def _state(row: Sequence[Any], counts: Sequence[Sequence[Any]], ended: Mapping[int, int]) -> RunState:
    supplier, run, mode, started_at, last_at, position, valid, refused = row
    by_status = {name: number for kind, name, _, number in counts if kind == "status"}
    if valid:
        by_status["VALID"] = valid
    problems: dict[str, list[RunError]] = {"error": [], "warning": []}
    for kind, code, path, number in counts:
        if kind in problems:
            problems[kind].append(RunError(code=code, path=path, number=number))
    waiting = sum(by_status.get(status, 0) for status in WAITING)
    rate = rate_of(ended, started_at, last_at, now() if waiting else last_at)
    record = RunRecord(
        run=run,
        import_supplier=supplier,
        mode=mode,
        started_at=started_at,
        last_at=last_at,
        total=sum(by_status.values()),
        refused=refused,
        by_status=dict(sorted(by_status.items())),
        processed_per_s=round(rate, 2),
        eta_s=0.0 if not waiting else round(waiting / rate, 1) if rate else None,
        errors=tuple(problems["error"][:MAX_ERRORS]),
        warned=sum(number for kind, _, _, number in counts if kind == "warned"),
        warnings=tuple(problems["warning"][:MAX_ERRORS]),
    )
    return RunState(record, position)


def rate_of(ended: Mapping[int, int], started_at: datetime, last_at: datetime, at: datetime) -> float:
    """Return the recent rate of ended imports per second; 0 if none ended recently. Pure.

    `ended` has the numbers by the start of their span.
    """
    if not ended:
        return 0.0
    newest = max(ended)
    if at.timestamp() > newest + SPAN_S + STALLED_AFTER_S:
        return 0.0
    late = {span: number for span, number in ended.items() if span > newest - RATE_OVER_S}
    first = max(float(min(late)), started_at.timestamp())
    last = min(float(newest + SPAN_S), max(last_at.timestamp(), first))
    return sum(late.values()) / max(last - first, 0.1)


_SELECT_IMPORTS: LiteralString = f"""
SELECT a.position, a.external_account_number, s.status, s.account_number, s.created_at, s.modified_at, s.error_code,
       s.error_detail, s.error_domain, {RELEASED_AT}
FROM (
    SELECT *
    FROM import_run_account
    WHERE supplier = %(supplier)s AND run = %(run)s AND (position, external_account_number) > (%(after)s, %(last)s)
    ORDER BY position, external_account_number
    LIMIT %(candidates)s
) AS a
JOIN import_status AS s USING (supplier, external_account_number)
WHERE %(status)s::text IS NULL OR s.status = %(status)s
ORDER BY a.position, a.external_account_number
LIMIT %(limit)s
"""  # noqa: S608 - constants
_SELECT_LAST_CANDIDATE = """
SELECT position, external_account_number
FROM import_run_account
WHERE supplier = %(supplier)s AND run = %(run)s AND (position, external_account_number) > (%(after)s, %(last)s)
ORDER BY position, external_account_number
OFFSET %(candidates)s - 1 LIMIT 1
"""
_MAX_CANDIDATES = 10 * PAGE
"""Accounts of a run that a page examines for one status. Also a page before the end may be short."""


async def run_imports(
    connection: AsyncConnection[Any], after: RunSortKey, *, supplier: str, run: str, status: str | None
) -> tuple[list[RunImport], RunSortKey | None]:
    """Read the next imports of a run in the order of sending, and the sort key of the last import; None at the end."""
    parameters = {
        "supplier": supplier,
        "run": run,
        "status": status,
        "after": after[0],
        "last": after[1],
        "limit": PAGE,
    }
    parameters["candidates"] = PAGE if status is None else _MAX_CANDIDATES
    rows = await fetch_rows(connection, _SELECT_IMPORTS, **parameters)
    imports = [_run_import(*row[1:]) for row in rows]
    if len(rows) == PAGE:
        return imports, (rows[-1][0], rows[-1][1])
    last = await fetch_rows(connection, _SELECT_LAST_CANDIDATE, **parameters)
    return imports, (last[0][0], last[0][1]) if last else None


def _run_import(external: str, *columns: Any) -> RunImport:
    return RunImport(external_account_number=external, **msgspec.structs.asdict(status_of_row(*columns)))


_SELECT_ACCOUNTS = b"""
SELECT a.position, a.external_account_number, s.account_number
FROM import_run_account AS a
JOIN import_status AS s USING (supplier, external_account_number)
WHERE a.supplier = %(supplier)s AND a.run = %(run)s AND (a.position, a.external_account_number) > (%(after)s, %(last)s)
ORDER BY a.position, a.external_account_number
LIMIT %(limit)s
"""


def run_accounts(
    connection: Connection[Any], supplier: str, run: str, after: RunSortKey, limit: int
) -> tuple[int, list[tuple[str, str]], RunSortKey | None]:
    """Read the next accounts of a run.

    Returns the number of read accounts, (account number, external number) of existing accounts, and the sort key of the
    last account; None at the end.
    """
    parameters = {"supplier": supplier, "run": run, "after": after[0], "last": after[1], "limit": limit}
    rows = rows_of(connection, _SELECT_ACCOUNTS, **parameters)
    accounts = [(number, external) for _, external, number in rows if number is not None]
    return len(rows), accounts, (rows[-1][0], rows[-1][1]) if len(rows) == limit else None


_IS_CAUGHT_UP = f"""
SELECT position >= ({SELECT_HEAD})
FROM projection_versions
WHERE name = 'import_run' AND state = 'live'
"""  # noqa: S608 - a constant of ours


async def is_caught_up(connection: AsyncConnection[Any]) -> bool:
    """Return whether the runs include all events of the log."""
    row = await (await connection.execute(_IS_CAUGHT_UP, prepare=True)).fetchone()
    return row is not None and bool(row[0])
