"""What a newer version does to projections: which are new, get columns, are made anew, or fall behind."""

from typing import Any, Literal

import msgspec
from psycopg import Connection
from psycopg.rows import tuple_row

from projections import PROJECTIONS
from projections.versions.install import fits, missing_columns
from projections.versions.projection import Projection
from projections.versions.reading import head
from projections.versions.versions import live_version, versions


class ProjectionChange(msgspec.Struct, frozen=True):
    """What happens to a projection: in `migrate` (new, columns, made anew), or not before somebody rebuilds it."""

    name: str
    change: Literal["new", "columns", "made anew", "outdated"]
    says: str
    can_be_rolled: bool


def projection_changes(connection: Connection[Any]) -> list[ProjectionChange]:
    """What `migrate` would do to projections, and which of them it leaves to `projections rebuild`."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        [(is_there,)] = cursor.execute("SELECT to_regclass('projection_versions') IS NOT NULL").fetchall()
    if not is_there:
        return []
    events = head(connection)
    return [change for projection in PROJECTIONS for change in _changes(connection, projection, events)]


def _changes(connection: Connection[Any], projection: Projection, events: int) -> list[ProjectionChange]:
    name = projection.name
    if not fits(connection, projection):
        says = f"{name} is made anew from the log; its former tables are kept for seven days"
        return [ProjectionChange(name, "made anew", says, can_be_rolled=not events)]
    if not versions(connection, name):
        is_waited_for = projection.is_inline
        says = f"{name} is new; " + (
            "it is built beside the service" if is_waited_for else "the relay fills it while the service runs"
        )
        is_complete = not (is_waited_for and events)  # processes of the version before append without writing to it
        return [ProjectionChange(name, "new", says, can_be_rolled=is_complete)]
    missing = [f"{table}.{column}" for table, column, _ in missing_columns(connection, projection)]
    if missing:
        says = f"{name} gets the columns {', '.join(missing)}"
        return [ProjectionChange(name, "columns", says, can_be_rolled=True)]
    if not projection.is_inline and live_version(connection, name).is_outdated(projection):
        says = f"{name} stays as it is and does not follow until `importledger projections rebuild {name}`"
        return [ProjectionChange(name, "outdated", says, can_be_rolled=True)]
    return []
