"""Versions of projections whose rows all workers write: the command makes the tables, and everything that needs rights.

Workers get the rights on the new tables that they have on the live ones, for as long as they write. A projection whose
tables they may not write, or that needs every event in its order, is built by the command alone.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from psycopg import Connection
from psycopg.sql import SQL, Identifier

from projections.spreading.asking import AskedJob, Tell, WantedJob, asking, end_asked, stream_slices, wait_for
from projections.spreading.pieces import BuildPiece
from projections.versioning.build import index_tables
from projections.versioning.compare import Comparison, compare, noted, side_by_side
from projections.versioning.projection import Projection
from projections.versioning.reading import Poison
from projections.versioning.versions import (
    NotPossible,
    ProjectionVersion,
    begin_version,
    catch_up,
    drop_version,
    finish_version,
    grant,
    known_version,
    live_version,
    park,
    versions,
)


def can_be_spread(projection: Projection) -> bool:
    """Whether workers may write its tables, and each stream's rows follow from its last event."""
    return not projection.folds_all and "INSERT" in projection.rights


@contextmanager
def _filled(
    admin_url: str,
    connection: Connection[Any],
    projection: Projection,
    *,
    kind: str,
    service_role: str,
    jobs: int,
    tell: Tell,
) -> Iterator[ProjectionVersion]:
    """A version that all workers have filled, indexed and close to the log's end; it is `building` still.

    The job is over with the block: whoever is killed before takes it up again.
    """

    def wanted() -> WantedJob:
        begun = begin_version(connection, projection)
        _let_in(connection, projection, begun.schema, service_role)
        streams = stream_slices(connection, begun.position)
        pieces = [(BuildPiece(begun.name, begun.version, one), begun.position // len(streams)) for one in streams]
        return WantedJob(begun.position, pieces)

    def is_usable(asked: AskedJob) -> bool:
        return _building(connection, projection, asked) is not None

    with asking(connection, kind, {"name": projection.name}, wanted, is_usable=is_usable) as asked:
        begun = _building(connection, projection, asked)
        assert begun is not None
        results = wait_for(connection, asked, tell)
        _let_out(connection, projection, begun.schema, service_role)
        parked = [poison for result in results for poison in msgspec.json.decode(result, type=list[Poison])]
        index_tables(admin_url, connection, projection, begun.schema, jobs=jobs)
        park(connection, projection.name, begun.version, parked)
        catch_up(connection, projection, begun.version)
        yield begun
        end_asked(connection, asked)


def build_spread(
    admin_url: str,
    connection: Connection[Any],
    projection: Projection,
    *,
    service_role: str,
    jobs: int,
    tell: Tell,
) -> ProjectionVersion:
    """As `build_version`, by all workers; for the holder of `alone`. Raises NotSpread."""
    with _filled(
        admin_url, connection, projection, kind="rebuild", service_role=service_role, jobs=jobs, tell=tell
    ) as begun:
        return finish_version(connection, projection, begun.version, [])


def verify_spread(
    admin_url: str,
    connection: Connection[Any],
    projection: Projection,
    *,
    limit: int,
    service_role: str,
    jobs: int,
    tell: Tell,
) -> Comparison:
    """As `verify`, by all workers, with a version that is thrown away; for the holder of `alone`. Raises NotSpread."""
    live = live_version(connection, projection.name)
    if live.is_outdated(projection):
        raise NotPossible(f"{projection.name} is outdated. Rebuild it.")
    with _filled(
        admin_url, connection, projection, kind="verify-projection", service_role=service_role, jobs=jobs, tell=tell
    ) as begun:
        begun = known_version(connection, projection.name, begun.version)
        with side_by_side(admin_url, connection, projection, begun):
            comparison = compare(connection, projection, projection.home, begun.schema, limit=limit)
        drop_version(connection, projection, begun.version)
    return noted(connection, live, comparison)


def _building(connection: Connection[Any], projection: Projection, asked: AskedJob) -> ProjectionVersion | None:
    """The version that the job fills, while it is being built and made as it is declared now."""
    numbers = {piece.version for piece in asked.pieces if isinstance(piece, BuildPiece)}
    for one in versions(connection, projection.name):
        if one.version in numbers and one.state == "building" and one.definition == projection.definition:
            return one
    return None


def _let_in(connection: Connection[Any], projection: Projection, schema: str, role: str) -> None:
    if _is_owner(connection, role):
        return
    connection.execute(SQL("GRANT USAGE ON SCHEMA {} TO {}").format(Identifier(schema), Identifier(role)))
    for table in projection.tables:
        grant(connection, schema, table, [(role, right) for right in projection.rights])


def _let_out(connection: Connection[Any], projection: Projection, schema: str, role: str) -> None:
    """Nobody but the owner writes to it from now on, until a switch makes it live."""
    if _is_owner(connection, role):
        return
    for table in projection.tables:
        revoking = SQL("REVOKE ALL ON {} FROM {}").format(Identifier(schema, table), Identifier(role))
        connection.execute(revoking)
    connection.execute(SQL("REVOKE ALL ON SCHEMA {} FROM {}").format(Identifier(schema), Identifier(role)))


def _is_owner(connection: Connection[Any], role: str) -> bool:
    return (
        connection.execute("SELECT FROM pg_roles WHERE rolname = %s AND rolname = current_user", (role,)).rowcount > 0
    )
