"""The application: services, endpoints, routes and the error table."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Unpack

from starlette.applications import Starlette
from starlette.routing import Route

from api.admission import Admission
from api.endpoints.documentation import Guide
from api.endpoints.metrics import MetricsPage
from api.http.paths import RawPathApplication, both_forms, single_form
from api.http.stopping import STATE
from api.operations import ENDPOINTS, OPERATIONS
from api.services import Services, Settings
from system.interpreter import SHORT_SWITCH_INTERVAL_S, tune_interpreter
from telemetry.serving import Expose


def create_app(
    database_url: str,
    token_key: bytes,
    redis_url: str | None = None,
    *,
    more_routes: Callable[[Services], Iterable[Route]] = lambda services: (),
    more_work: Callable[[Services], contextlib.AbstractContextManager[None]] = lambda services: (
        contextlib.nullcontext()
    ),
    expose: Expose | None = None,
    register_metrics: Callable[..., None] = lambda *reports: None,
    **settings: Unpack[Settings],
) -> Starlette:
    """Return the service's HTTP application on a database. Opens no connection before its lifespan begins.

    `settings` are those of `Services`. With a Redis URL, all processes share the rates of keys. `request_key` makes the
    MACs of users' requests, which the relay checks; without a key, only this process accepts these MACs. In
    `roles_file` a supervisor lists roles that fail at every start. `/readyz` checks the required durability.
    `open_ledger` opens the log once appends are allowed. `address_of` returns the client's address, behind a trusted
    proxy too. `expose` returns the text of `/metrics`. `more_routes` returns routes of other packages, tried last, and
    `more_work` their threads, which run as long as the application.
    `register_metrics` is called with functions that report metrics.
    """
    services = Services(database_url, token_key, redis_url, operations=OPERATIONS, **settings)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[dict[str, asyncio.Event]]:
        tune_interpreter(switch_interval_s=SHORT_SWITCH_INTERVAL_S)
        async with services.running(register_metrics):
            work = more_work(services)
            work.__enter__()
            try:
                yield {STATE: asyncio.Event()}
            finally:
                await asyncio.to_thread(work.__exit__, None, None, None)

    routes = [*_operations(services), *_pages(services, expose), *more_routes(services)]
    app = RawPathApplication(routes, lifespan=lifespan)
    app.state.auth = services.auth
    return app


def _operations(services: Services) -> Iterator[Route]:
    """Yield the routes of all operations, in their order."""
    endpoints = {endpoint.__name__: endpoint(services) for endpoint in ENDPOINTS}
    admission = Admission(services)
    for operation in OPERATIONS:
        forms = both_forms if operation.is_slashed else single_form
        handler = admission.handler(operation, endpoints[operation.endpoint])
        yield from forms(operation.path, handler, operation.method)


def _pages(services: Services, expose: Expose | None) -> Iterator[Route]:
    """Yield the routes of pages and their files, which the description leaves out."""
    guide = Guide()
    yield from both_forms("/docs/assets/{name}", guide.asset, "GET")
    yield from single_form("/", guide.to_guide, "GET")
    yield from single_form("/docs/account.json", guide.account, "GET")
    yield from single_form("/docs/guide", guide.to_first_page, "GET")
    yield from single_form("/docs/guide/{path:path}", guide.file, "GET")
    if expose is not None:
        yield from both_forms("/metrics/", MetricsPage(expose, services.auth).read, "GET")
