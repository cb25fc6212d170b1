"""Access keys of the service: digest, role and suppliers. Table `access_key`; written with the append."""

from collections.abc import Collection, Iterator
from datetime import datetime
from typing import Any

import msgspec
from psycopg import AsyncConnection, Connection
from psycopg.rows import tuple_row

from eventstore.aggregates.organisation import ORGANISATION, KeyConfirmed, KeyCreated, KeyRevoked
from eventstore.events import Recorded, read_event
from eventstore.log.rows import fetch_rows, fetch_struct, fetch_structs, rows_of
from eventstore.operations.rights import READ
from projections.versions.view import Values, View


def _later(event: KeyRevoked | KeyConfirmed, recorded: Recorded) -> Values:
    """Return values that change only `revoked_at`. Other columns keep the values of the first event."""
    unchanged = {"role": "", "suppliers": "", "rate_per_s": 0, "secret_sha256": ""}
    revoked_at = recorded.recorded_at if isinstance(event, KeyRevoked) else None
    return unchanged | {"key_id": event.key_id, "revoked_at": revoked_at}


ACCESS_KEY = View(
    "access_key",
    "key_id text NOT NULL, organisation text NOT NULL, role text NOT NULL, suppliers text[] NOT NULL,"
    " rate_per_s integer NOT NULL, secret_sha256 text NOT NULL, created_at timestamptz NOT NULL,"
    " revoked_at timestamptz, position bigint NOT NULL",
    {
        KeyCreated: lambda event, _: {
            "key_id": event.key_id,
            "role": event.role,
            "suppliers": ",".join(event.suppliers),
            "rate_per_s": event.rate_per_s,
            "secret_sha256": event.secret_sha256,
            "revoked_at": None,
        },
        KeyRevoked: _later,
        KeyConfirmed: _later,
    },
    prefix=ORGANISATION.prefix,
    named=("organisation",),
    key=("key_id",),
    times=("created_at", "revoked_at"),
    first=("organisation", "role", "suppliers", "rate_per_s", "secret_sha256", "created_at"),
    folds_all=True,
    rights=READ,
)
"""View of keys, which only the database's owner creates and revokes.

Supplier codes contain no comma, so a column joins them with commas.
"""


def wrong_keys(connection: Connection[Any]) -> Iterator[str]:
    """Yield a sentence for each row of the table that differs from the log, since its key may be forged.

    Yields no sentence if an event of a key cannot be read.
    """
    made: dict[str, tuple[Any, ...]] = {}
    revoked: set[str] = set()
    with connection.cursor(binary=True, row_factory=tuple_row) as cursor:
        query = "SELECT stream, topic, state FROM events WHERE topic = ANY(%s) ORDER BY position"
        for stream, topic, state in cursor.execute(query, (list(ORGANISATION.topics),)).fetchall():
            match read_event(stream, topic, state):
                case KeyCreated() as event:
                    suppliers = sorted(event.suppliers)
                    organisation = stream.split("/", 1)[1]
                    made[event.key_id] = (organisation, event.role, suppliers, event.rate_per_s, event.secret_sha256)
                case KeyRevoked() as event:
                    revoked.add(event.key_id)
                case KeyConfirmed() as event:
                    revoked.discard(event.key_id)
                case _:
                    return  # an unreadable event may have created any key
        rows = cursor.execute(_SELECT_ALL).fetchall()
    for key_id, is_revoked, organisation, role, suppliers, rate_per_s, secret_sha256 in rows:
        row = (organisation, role, sorted(suppliers), rate_per_s, secret_sha256)
        if key_id not in made:
            yield f"the access key {key_id} of {organisation} was made by no event"
        elif made[key_id] != row or is_revoked != (key_id in revoked):
            yield f"the access key {key_id} of {organisation} differs from the log"


_SELECT_ALL = """
SELECT key_id, revoked_at IS NOT NULL, organisation, role, suppliers, rate_per_s, secret_sha256
FROM access_key
ORDER BY key_id
"""

SELECT_KEYS = """
SELECT key_id, organisation, role, suppliers, secret_sha256, created_at, revoked_at, position, rate_per_s
FROM access_key
WHERE position > %s
ORDER BY key_id
"""

_SELECT_REACH = """
SELECT DISTINCT unnest(suppliers) AS supplier FROM access_key
WHERE organisation = %s AND revoked_at IS NULL
ORDER BY supplier
"""


def organisation_reach(connection: Connection[Any], organisation: str) -> tuple[str, ...]:
    """Return the suppliers that the organisation's valid keys may use."""
    return tuple(code for (code,) in rows_of(connection, _SELECT_REACH, organisation))


class KeyListed(msgspec.Struct, frozen=True, kw_only=True):
    """A key for operators, without its digest."""

    key_id: str
    organisation: str
    role: str
    suppliers: list[str]
    rate_per_s: int
    created_at: datetime
    revoked_at: datetime | None


_SELECT_LISTED = "SELECT key_id, organisation, role, suppliers, rate_per_s, created_at, revoked_at FROM access_key"
_SELECT_PAGE = f"""{_SELECT_LISTED}
WHERE (%(organisation)s = '' OR organisation = %(organisation)s) AND key_id > %(after)s
  AND (%(within)s::text[] IS NULL OR suppliers <@ %(within)s::text[])
ORDER BY key_id
LIMIT %(limit)s
"""
_SELECT_ONE = f"{_SELECT_LISTED} WHERE key_id = %s"


_COUNT = """
SELECT count(*)
FROM access_key
WHERE (%(organisation)s = '' OR organisation = %(organisation)s)
  AND (%(within)s::text[] IS NULL OR suppliers <@ %(within)s::text[])
"""


async def count_keys(connection: AsyncConnection[Any], organisation: str, within: Collection[str] | None) -> int:
    """Count the keys of an organisation or "" for all, whose suppliers are all in `within`."""
    suppliers = None if within is None else list(within)
    [(number,)] = await fetch_rows(connection, _COUNT, organisation=organisation, within=suppliers)
    return int(number)


async def keys_page(
    connection: AsyncConnection[Any], organisation: str, after: str, limit: int, within: Collection[str] | None = None
) -> list[KeyListed]:
    """Read keys after an id, of an organisation or "" for all, whose suppliers are all in `within`."""
    parameters = {"organisation": organisation, "after": after, "within": None if within is None else list(within)}
    return await fetch_structs(connection, KeyListed, _SELECT_PAGE, **parameters, limit=limit)


async def key_listed(connection: AsyncConnection[Any], key_id: str) -> KeyListed | None:
    """Read one key; None if it does not exist."""
    return await fetch_struct(connection, KeyListed, _SELECT_ONE, key_id)
