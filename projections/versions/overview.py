"""How all projections stand: their versions, how far each is, about how many rows it has, and what is parked."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

import msgspec
from psycopg import AsyncConnection
from psycopg.rows import class_row, tuple_row

from eventstore.events import OF_SUPPLIERS
from eventstore.log.columns import SELECT_HEAD
from projections.versions.projection import Projection
from projections.versions.versions import ProjectionVersion

PARKED_PAGE = 100


class VersionStanding(msgspec.Struct, frozen=True, kw_only=True):
    """A version as it stands. `rows` is what the database's statistics say; None where they say nothing."""

    name: str
    version: int
    state: str
    position: int
    lag: int
    lag_since: datetime | None
    """When the first event that is not taken in was recorded; None where all are."""
    rows: int | None
    parked: int
    built_at: datetime
    retired_at: datetime | None
    verified_at: datetime | None
    differences: int | None

    @property
    def can_be_live(self) -> bool:
        return self.state in ("ready", "retired")


class ParkedStream(msgspec.Struct, frozen=True, kw_only=True):
    """A stream that a projection could not take in, from which position on."""

    stream: str
    position: int
    error: str


_SELECT_VERSIONS = """
SELECT v.name, v.version, v.state, v.position, v.definition, v.built_at, v.retired_at, v.verified_at, v.differences
FROM projection_versions AS v
ORDER BY v.name, v.version
"""
_SELECT_PARKED = "SELECT name, version, count(*) FROM parked_streams GROUP BY name, version"
_SELECT_ROWS = """
SELECT n.nspname, c.relname, c.reltuples::bigint
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND n.nspname = ANY(%s)
"""
_SELECT_SINCE = "SELECT recorded_at FROM events WHERE position = %s"


async def version_standings(
    connection: AsyncConnection[Any], projections: Sequence[Projection]
) -> list[VersionStanding]:
    """Every version of these, in their order; nothing is counted, so it costs the same whatever they hold."""
    by_name = {projection.name: projection for projection in projections}
    async with connection.cursor(row_factory=class_row(ProjectionVersion)) as cursor:
        rows = await (await cursor.execute(_SELECT_VERSIONS)).fetchall()
    versions = [one for one in rows if one.name in by_name]
    schemas = sorted({projection.home for projection in projections} | {one.schema for one in versions})
    async with connection.cursor(row_factory=tuple_row) as cursor:
        head = (await (await cursor.execute(SELECT_HEAD)).fetchone() or (0,))[0]
        counts = await (await cursor.execute(_SELECT_PARKED)).fetchall()
        parked = {(name, version): number for name, version, number in counts}
        sizes = {
            (schema, table): number
            for schema, table, number in await (await cursor.execute(_SELECT_ROWS, (schemas,))).fetchall()
        }
        standings = []
        for name in by_name:
            for one in (version for version in versions if version.name == name):
                is_late = _position(one, by_name[name], head) < head and one.state != "retired"
                since = await (await cursor.execute(_SELECT_SINCE, (one.position + 1,))).fetchone() if is_late else None
                number = parked.get((name, one.version), 0)
                standings.append(_standing(one, by_name[name], head, sizes, number, since[0] if since else None))
    return standings


def _position(one: ProjectionVersion, projection: Projection, head: int) -> int:
    """One that is written with the append is always at the end."""
    return head if one.state == "live" and projection.is_inline else one.position


def _standing(
    one: ProjectionVersion,
    projection: Projection,
    head: int,
    sizes: dict[tuple[str, str], int],
    parked: int,
    since: datetime | None,
) -> VersionStanding:
    is_live = one.state == "live"
    position = _position(one, projection, head)
    schema = projection.home if is_live else one.schema
    known = [sizes.get((schema, table), -1) for table in projection.tables]
    is_outdated = is_live and one.is_outdated(projection)
    return VersionStanding(
        name=one.name,
        version=one.version,
        state="outdated" if is_outdated else one.state,
        position=position,
        lag=head - position,
        lag_since=since,
        rows=sum(known) if all(number >= 0 for number in known) else None,
        parked=parked,
        built_at=one.built_at,
        retired_at=one.retired_at,
        verified_at=one.verified_at,
        differences=one.differences,
    )


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


async def parked_in(
    connection: AsyncConnection[Any],
    name: str,
    *,
    suppliers: Collection[str] | None = None,
    after: int = 0,
    limit: int = PARKED_PAGE,
) -> list[ParkedStream]:
    """Streams that the live version of a projection has left out after a position, all or those of these suppliers."""
    asked = {"name": name, "after": after, "limit": limit, "kinds": [*OF_SUPPLIERS]}
    asked["suppliers"] = None if suppliers is None else [*suppliers]
    async with connection.cursor(row_factory=class_row(ParkedStream)) as cursor:
        return await (await cursor.execute(_SELECT_PARKED_STREAMS, asked)).fetchall()
