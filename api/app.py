"""The application: routes, error table, lifespan."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.middleware import Middleware

from api import errors
from api.auth import Authenticator
from api.calls import Calls, Handler
from api.directory import Directory
from api.endpoints.account_import import AccountImport
from api.endpoints.documentation import Documentation
from api.endpoints.graphql import GraphQL
from api.endpoints.health import Health
from api.endpoints.history_queries import HistoryQueries
from api.endpoints.import_verbs import ImportVerbs
from api.endpoints.post_account_import import PostAccountImport
from api.endpoints.pre_account_import import PreAccountImport
from api.endpoints.status_queries import StatusQueries
from api.endpoints.support_queries import SupportQueries
from api.operations import OPERATIONS
from api.paths import RawPath, both_forms, only_form
from api.rate_limit import RateLimit
from api.refusal_counts import INTERVAL_S, RefusalCounts
from api.store import reading_pool
from eventstore.interpreter import tune_interpreter
from eventstore.log.ledger import Ledger
from projections import INLINE


def create_app(
    database_url: str,
    token_key: bytes,
    redis_url: str | None = None,
    *,
    has_graphiql: bool = False,
    refusals_interval_s: float = INTERVAL_S,
) -> Starlette:
    """The service's HTTP side on this database. Opens nothing before its lifespan begins.

    Rates are shared through Redis, where there is one. `has_graphiql` adds a page for trying GraphQL.
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

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        tune_interpreter()
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

    histories = HistoryQueries(ledger, pool, auth)
    support = SupportQueries(pool, directory, auth)
    graphql, documentation, health = GraphQL(auth), Documentation(), Health(pool)
    calls: dict[str, Handler] = {
        "create_account": accounts.create,
        "validate_account": accounts.validate,
        "cancel_import": verbs.cancel,
        "retry_import": verbs.retry,
        "import_market_participant": before.participant,
        "import_price_sheets": before.fees,
        "create_delivery_note": after.delivery_note,
        "create_energy_amount": after.energy_amount,
        "create_market_participant_invoice": after.invoice,
    }
    handlers = {
        "obtain_token": graphql.answer,
        "read_import_status": accounts.status,
        "read_history": histories.history,
        "read_payload_difference": histories.difference,
        "read_transfer_status": queries.transfer_status,
        "list_all_imports": queries.all,
        "list_pending_imports": queries.pending,
        "list_imported_imports": queries.imported,
        "read_supplier_progress": support.progress,
        "read_supplier_errors": support.errors,
        "search_accounts": support.search,
        "list_errors": documentation.errors,
        "read_description": documentation.openapi,
        "read_reference": documentation.reference,
        "read_liveness": health.alive,
        "read_readiness": health.ready,
    } | Calls(auth, pool, refusals).handlers(calls)

    routes = [
        route
        for operation in OPERATIONS
        for route in (both_forms if operation.is_slashed else only_form)(
            operation.path, handlers[operation.name], operation.method
        )
    ]
    routes += both_forms("/docs/assets/{name}", documentation.asset, "GET")
    if has_graphiql:
        routes += both_forms("/v1/graphql/", documentation.graphiql, "GET")
    app = Starlette(
        routes=routes,
        exception_handlers=errors.HANDLERS,
        middleware=[Middleware(RawPath)],
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    app.state.auth = auth
    return app
