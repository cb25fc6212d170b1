"""State of all projections: versions, lag, estimated rows, parked streams."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
from psycopg import AsyncConnection, Connection
from psycopg.rows import tuple_row

from eventstore.events import SUPPLIER_PREFIXES
from eventstore.log.columns import log_head
from eventstore.log.rows import fetch_rows, fetch_struct, fetch_structs
from projections.versions.projection import Projection
from projections.versions.versions import ProjectionVersion, versions

PARKED_PAGE = 100
STALE_AFTER = timedelta(seconds=5)
"""Age of a view's first missing event from which on the view counts as stale."""


class VersionStanding(ProjectionVersion, frozen=True, kw_only=True):
    """A version with its lag (0 for a retired version).

    `rows` is an estimate of the database; None without statistics.
    """

    lag: int
    lag_since: datetime | None
    """Time of the first event that is not applied yet; None if all events are applied."""
    rows: int | None
    parked: int

    @property
    def can_be_live(self) -> bool:
        return self.state in ("ready", "retired")


class ParkedStream(msgspec.Struct, frozen=True, kw_only=True):
    """A stream that a projection skips from the event at `position` on, which it could not apply."""

    stream: str
    position: int
    error: str


_SELECT_PARKED = "SELECT name, version, count(*) FROM parked_streams GROUP BY name, version"
_SELECT_ROWS = """
SELECT n.nspname, c.relname, greatest(c.reltuples::bigint, nullif(pg_stat_get_live_tuples(c.oid), 0))
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind = 'r'
"""
_SELECT_SINCE = "SELECT recorded_at FROM events WHERE position = %s"


def version_standings(connection: Connection[Any], projections: Sequence[Projection]) -> list[VersionStanding]:
    """Return all versions of these projections, in their order.

    Numbers of rows are estimated, so large tables do not slow the query down.
    """
    with connection.cursor(row_factory=tuple_row) as cursor:
        parked = {(name, version): number for name, version, number in cursor.execute(_SELECT_PARKED)}
        sizes = {(schema, table): number for schema, table, number in cursor.execute(_SELECT_ROWS)}
        reached, standings = log_head(connection), []
        for projection in projections:
            for version in versions(connection, projection.name):
                is_live = version.state == "live"
                position = reached if is_live and projection.is_inline else version.position
                is_late = position < reached and version.state != "retired"
                since = cursor.execute(_SELECT_SINCE, (position + 1,)).fetchone() if is_late else None
                schema = projection.home if is_live else version.schema
                row_counts = [sizes.get((schema, table), -1) for table in projection.tables]
                standing = {
                    "state": "outdated" if is_live and version.is_outdated(projection) else version.state,
                    "position": position,
                    "lag": 0 if version.state == "retired" else reached - position,
                    "lag_since": since[0] if since else None,
                    "rows": sum(row_counts) if all(number >= 0 for number in row_counts) else None,
                    "parked": parked.get((version.name, version.version), 0),
                }
                standings.append(VersionStanding(**msgspec.structs.asdict(version) | standing))
    return standings


class Stale(msgspec.Struct, frozen=True):
    """Live versions that are late or outdated: number of missing events, and time of the first missing event."""

    missing: int
    since: datetime | None
    is_outdated: bool
    """True if another release has declared a view differently.

    Such a view does not follow the log until it is rebuilt.
    """


_SELECT_STALE = """
SELECT log.head - live.position AS missing, e.recorded_at AS since, live.is_outdated
FROM (SELECT coalesce(max(position), 0) AS head FROM events) AS log
CROSS JOIN (
    SELECT min(v.position) AS position, coalesce(bool_or(v.definition <> d.definition), false) AS is_outdated
    FROM projection_versions AS v
    JOIN unnest(%(names)s::text[], %(definitions)s::text[]) AS d (name, definition) USING (name)
    WHERE v.state = 'live'
) AS live
LEFT JOIN events AS e ON e.position = live.position + 1
WHERE live.is_outdated OR e.recorded_at < clock_timestamp() - %(within)s::interval
"""


async def stale_since(connection: AsyncConnection[Any], views: Sequence[Projection]) -> Stale | None:
    """Return the lag of the live version with the greatest lag; None if below STALE_AFTER and no view is outdated."""
    parameters = {"names": [view.name for view in views], "definitions": [view.definition for view in views]}
    return await fetch_struct(connection, Stale, _SELECT_STALE, **parameters, within=STALE_AFTER)


_SELECT_PARKED_STREAMS = """
SELECT p.stream, p.position, p.error
FROM parked_streams AS p
JOIN projection_versions AS v USING (name, version)
WHERE p.name = %(name)s AND v.state = 'live' AND p.position > %(after)s
  AND (%(suppliers)s::text[] IS NULL
       OR (split_part(p.stream, '/', 1) = ANY(%(kinds)s) AND split_part(p.stream, '/', 2) = ANY(%(suppliers)s)))
ORDER BY p.position
LIMIT %(limit)s
"""


_COUNT_PARKED = """
SELECT p.name, count(*) AS number
FROM parked_streams AS p
JOIN projection_versions AS v USING (name, version)
WHERE v.state = 'live'
  AND (%(suppliers)s::text[] IS NULL
       OR (split_part(p.stream, '/', 1) = ANY(%(kinds)s) AND split_part(p.stream, '/', 2) = ANY(%(suppliers)s)))
GROUP BY p.name
ORDER BY p.name
"""


async def parked_counts(connection: AsyncConnection[Any], suppliers: Collection[str] | None) -> list[tuple[str, int]]:
    """Return the live versions with parked streams, and the number of parked streams: all, or only of the given
    suppliers.
    """
    parameters = {"kinds": [*SUPPLIER_PREFIXES], "suppliers": None if suppliers is None else [*suppliers]}
    return await fetch_rows(connection, _COUNT_PARKED, **parameters)


async def parked_in(
    connection: AsyncConnection[Any],
    name: str,
    *,
    suppliers: Collection[str] | None = None,
    after: int = 0,
    limit: int = PARKED_PAGE,
) -> list[ParkedStream]:
    """Return the parked streams of a live version after a position: all, or only of the given suppliers."""
    parameters = {"name": name, "after": after, "limit": limit, "kinds": [*SUPPLIER_PREFIXES]}
    parameters["suppliers"] = None if suppliers is None else [*suppliers]
    return await fetch_structs(connection, ParkedStream, _SELECT_PARKED_STREAMS, **parameters)
