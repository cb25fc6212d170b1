"""Healing: what every projection says of one account, made anew from its events, while everything else goes on."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from psycopg import Connection
from psycopg.rows import tuple_row

from eventstore.log import locks
from projections.versions.build import apply_events
from projections.versions.projection import Projection
from projections.versions.reading import Poison, head, wait_for_erasures
from projections.versions.versions import ProjectionVersion, held


class Healed(msgspec.Struct, frozen=True):
    """What became of one projection: made anew, or why not."""

    name: str
    says: str
    is_parked: bool = False


def heal(connection: Connection[Any], projection: Projection, streams: list[str]) -> Healed:
    """Make the rows of these streams anew, in one transaction, and let those go on that were parked."""
    with connection.transaction():
        live = held(connection, projection.name)  # first, here as in a switch
        if projection.holds_persons:
            wait_for_erasures(connection)
        parked = _parked(connection, live.name, live.version, streams)
        poisons, is_sum = _healed(connection, projection, live, parked, streams)
        connection.execute(
            "DELETE FROM parked_streams WHERE name = %s AND version = %s AND stream = ANY(%s) AND NOT stream = ANY(%s)",
            (live.name, live.version, streams, [poison.stream for poison in poisons]),
        )
    if poisons:
        return Healed(projection.name, f"still parked at {poisons[0].position}: {poisons[0].error}", is_parked=True)
    if parked:
        return Healed(projection.name, "goes on")
    return Healed(projection.name, "adds up all accounts, and nothing was left out" if is_sum else "made anew")


def _healed(
    connection: Connection[Any],
    projection: Projection,
    live: ProjectionVersion,
    parked: Mapping[str, int],
    streams: Sequence[str],
) -> tuple[list[Poison], bool]:
    """Replace the rows of these streams, or add to sums over all streams what was left out; return whether it is so.

    Nothing is appended meanwhile that an inline projection would miss: accounts have few events.
    """
    schema = projection.home
    if projection.is_inline:
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (locks.PLATFORM if schema == "platform" else locks.LOG,))
    upto = head(connection) if projection.is_inline else live.position
    forgotten = [projection.forget(connection, schema, stream) for stream in streams]
    if all(forgotten):
        return apply_events(connection, projection, schema, after=0, upto=upto, streams=streams), False
    poisons = [
        poison
        for stream, position in parked.items()
        for poison in apply_events(connection, projection, schema, after=position - 1, upto=upto, streams=[stream])
    ]
    return poisons, True


def _parked(connection: Connection[Any], name: str, version: int, streams: list[str]) -> dict[str, int]:
    query = "SELECT stream, position FROM parked_streams WHERE name = %s AND version = %s AND stream = ANY(%s)"
    with connection.cursor(row_factory=tuple_row) as cursor:
        return dict(cursor.execute(query, (name, version, streams)).fetchall())
