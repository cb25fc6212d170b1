"""The application: routes, error table, lifespan."""

import asyncio
import contextlib
import gc
import os
import sys
from collections.abc import AsyncIterator

from psycopg import AsyncConnection, ProgrammingError
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response

from api import errors
from api.account_import import AccountImport
from api.auth import WRITERS, Authenticator
from api.calls import Calls
from api.directory import Directory
from api.graphql import GraphQL
from api.import_verbs import DECIDERS, ImportVerbs
from api.paths import RawPath, both_forms
from api.post_account_import import PostAccountImport
from api.pre_account_import import PreAccountImport
from api.rate_limit import RateLimit
from api.refusal_counts import INTERVAL_S, RefusalCounts
from api.responses import json_response
from api.status_queries import StatusQueries
from api.store import read, reading_pool
from eventstore.errors import StoreUnavailable
from eventstore.ledger import Ledger
from eventstore.migrate import NEWEST
from projections import INLINE

SWITCH_INTERVAL_S = 0.0005
"""How long the event loop may keep the interpreter from the writer thread, in seconds."""


def create_app(
    database_url: str,
    token_key: bytes,
    redis_url: str | None = None,
    *,
    refusals_interval_s: float = INTERVAL_S,
) -> Starlette:
    """The service's HTTP side on this database. Opens nothing before its lifespan begins.

    Rates are shared through Redis, where there is one.
    """
    pool = reading_pool(database_url, size=8)
    lists = reading_pool(database_url, size=2)
    ledger = Ledger(database_url, views=INLINE)
    directory = Directory(pool)
    limit = RateLimit(redis_url)
    auth = Authenticator(directory, token_key, limit)
    refusals = RefusalCounts(ledger, interval_s=refusals_interval_s)
    accounts = AccountImport(ledger, pool, directory, auth)
    before = PreAccountImport(ledger)
    after = PostAccountImport(ledger, pool, directory)
    verbs = ImportVerbs(ledger, pool)
    queries = StatusQueries(pool, lists, auth)

    async def ready(request: Request) -> Response:
        """200 when the database answers with the schema that this code needs, 503 otherwise."""
        try:
            is_ready = await read(pool, has_schema)
        except ProgrammingError:
            is_ready = False
        if not is_ready:
            raise StoreUnavailable("the schema is missing or older than the code")
        return json_response({"status": "ready", "pid": os.getpid()})

    async def alive(request: Request) -> Response:
        return json_response({"status": "alive", "pid": os.getpid()})

    async def has_schema(connection: AsyncConnection) -> bool:
        cursor = await connection.execute("SELECT FROM schema_migrations WHERE name = %s", (NEWEST,))
        return cursor.rowcount == 1

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        _tune_interpreter()
        async with pool, lists:
            tasks = [asyncio.create_task(work()) for work in (directory.keep_fresh, refusals.keep_appending)]
            yield
            for task in tasks:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
            await refusals.append()
        await limit.close()
        await asyncio.to_thread(ledger.close)

    post = Calls(auth, pool, refusals).post
    v1, v2 = "/v1/data-import", "/v2/data-import"
    app = Starlette(
        routes=[
            *both_forms(f"{v2}/accounts/", post(WRITERS, accounts.create), "POST"),
            *both_forms(f"{v2}/accounts/validate/", post(WRITERS, accounts.validate), "POST"),
            *both_forms(f"{v2}/accounts/{{supplier}}/{{external}}/", accounts.status, "GET"),
            *both_forms(f"{v2}/accounts/{{supplier}}/{{external}}/cancel/", post(DECIDERS, verbs.cancel), "POST"),
            *both_forms(f"{v2}/accounts/{{supplier}}/{{external}}/retry/", post(DECIDERS, verbs.retry), "POST"),
            *both_forms(f"{v1}/market-participant/import/", post(WRITERS, before.participant), "POST"),
            *both_forms(f"{v1}/market-participant-fees/import/", post(WRITERS, before.fees), "POST"),
            *both_forms(f"{v1}/delivery-note/create/", post(WRITERS, after.delivery_note), "POST"),
            *both_forms(f"{v1}/energy-amount/create/", post(WRITERS, after.energy_amount), "POST"),
            *both_forms(f"{v1}/market-participant-invoice/create/", post(WRITERS, after.invoice), "POST"),
            *both_forms(f"{v1}/account-transfer-status/{{supplier}}/{{external}}/", queries.transfer_status, "GET"),
            *both_forms(f"{v1}/all-account-import-processes/{{supplier}}/", queries.all, "GET"),
            *both_forms(f"{v1}/pending-account-import-processes/{{supplier}}/", queries.pending, "GET"),
            *both_forms(f"{v1}/imported-account-import-processes/{{supplier}}/", queries.imported, "GET"),
            *both_forms("/v1/graphql/", GraphQL(auth).answer, "POST"),
            *both_forms("/livez/", alive, "GET"),
            *both_forms("/readyz/", ready, "GET"),
        ],
        exception_handlers=errors.HANDLERS,
        middleware=[Middleware(RawPath)],
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    app.state.auth = auth
    return app


def _tune_interpreter() -> None:
    """Requests leave no cycles behind: what is loaded now need not be searched for any, and the rest seldom."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
