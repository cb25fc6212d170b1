"""Healing: what every projection says of one account, made anew from its events, while everything else goes on."""

from typing import Any

import msgspec
from psycopg import Connection
from psycopg.rows import tuple_row

from eventstore.log import locks
from projections.versioning.build import apply_events
from projections.versioning.forgetting import wait_for_erasures
from projections.versioning.projection import Projection
from projections.versioning.reading import head
from projections.versioning.versions import held


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
        if projection.home == "platform":
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (locks.PLATFORM,))
        elif projection.is_inline:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (locks.LOG,))
        upto = head(connection) if projection.is_inline else live.position
        parked = _parked(connection, live.name, live.version, streams)
        schema = projection.home
        forgotten = [projection.forget(connection, schema, stream) for stream in streams]
        is_sum = not all(forgotten)
        if not is_sum:
            poisons = apply_events(connection, projection, schema, after=0, upto=upto, streams=streams)
        else:  # its rows are sums over all streams: only what was left out can be added
            poisons = [
                poison
                for stream, position in parked.items()
                for poison in apply_events(
                    connection, projection, schema, after=position - 1, upto=upto, streams=[stream]
                )
            ]
        connection.execute(
            "DELETE FROM parked_streams WHERE name = %s AND version = %s AND stream = ANY(%s) AND NOT stream = ANY(%s)",
            (live.name, live.version, streams, [poison.stream for poison in poisons]),
        )
    if poisons:
        return Healed(projection.name, f"still parked at {poisons[0].position}: {poisons[0].error}", is_parked=True)
    if parked:
        return Healed(projection.name, "goes on")
    return Healed(projection.name, "adds up all accounts, and nothing was left out" if is_sum else "made anew")


def _parked(connection: Connection[Any], name: str, version: int, streams: list[str]) -> dict[str, int]:
    query = "SELECT stream, position FROM parked_streams WHERE name = %s AND version = %s AND stream = ANY(%s)"
    with connection.cursor(row_factory=tuple_row) as cursor:
        return dict(cursor.execute(query, (name, version, streams)).fetchall())
