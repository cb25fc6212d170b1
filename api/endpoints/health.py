"""What load balancers and supervisors ask: whether the process lives, and whether it can do its work."""

import os
from typing import Any

from psycopg import AsyncConnection, ProgrammingError
from psycopg_pool import AsyncConnectionPool
from starlette.requests import Request
from starlette.responses import Response

from api.responses import json_response
from api.store import read
from eventstore.errors import StoreUnavailable
from eventstore.operations.migrate import NEWEST


class Health:
    """The handlers of /livez and /readyz."""

    def __init__(self, pool: AsyncConnectionPool) -> None:
        self._pool = pool

    async def alive(self, request: Request) -> Response:
        """200 as long as the process answers at all."""
        return json_response({"status": "alive", "pid": os.getpid()})

    async def ready(self, request: Request) -> Response:
        """200 when the database answers with the schema that this code needs, 503 otherwise."""
        try:
            is_ready = await read(self._pool, _has_schema)
        except ProgrammingError:
            is_ready = False
        if not is_ready:
            raise StoreUnavailable("the schema is missing or older than the code")
        return json_response({"status": "ready", "pid": os.getpid()})


async def _has_schema(connection: AsyncConnection[Any]) -> bool:
    cursor = await connection.execute("SELECT FROM schema_migrations WHERE name = %s", (NEWEST,))
    return cursor.rowcount == 1
