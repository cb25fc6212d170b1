"""Objects that endpoints work with, made once by the application."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path
from typing import TypedDict

from starlette.requests import Request

from api.access.acknowledgements import Acknowledgements
from api.access.auth import Authenticator
from api.access.directory import KEEPER, Directory
from api.access.rate_limit import RateLimit
from api.access.step_keys import StepKeys
from api.bulk.executor import BulkExecutor
from api.http.batched_reads import BatchedReads
from api.http.database import in_thread, reading_pool
from api.http.errors import not_found
from api.http.lists import Lists
from api.http.networks import peer_of
from api.http.paths import identifier
from api.intake.refusal_counts import RefusalCounts
from api.intake.refused_attempts import RefusedAttempts
from api.intake.run_counts import RunCounts
from api.operation import Operation
from eventstore.aggregates.disclosure import ShowPersonalData, stream_of
from eventstore.clock import now
from eventstore.log.authority import AuthorityKey
from eventstore.log.ledger import Ledger
from eventstore.operations.fitness import Durability
from projections import AT_ONCE
from projections.views.import_status import import_statuses
from schemas.status import ImportStatus
from system import connections
from telemetry.measures import measures
from telemetry.supervision import supervision


class Settings(TypedDict, total=False):
    """Settings of `Services` that have defaults."""

    request_key: str
    roles_file: Path | None
    is_sandbox: bool
    durability: Durability
    open_ledger: Callable[[Ledger], None]
    address_of: Callable[[Request], str]


class Services:
    """Objects that all endpoints share: log, pools, keys, limits. Opens nothing before `running` begins."""

    def __init__(
        self,
        database_url: str,
        token_key: bytes,
        redis_url: str | None,
        *,
        operations: Sequence[Operation],
        request_key: str = "",
        roles_file: Path | None = None,
        is_sandbox: bool = False,
        durability: Durability = "local",
        open_ledger: Callable[[Ledger], None] = Ledger.open,
        address_of: Callable[[Request], str] = peer_of,
    ) -> None:
        self.ledger = Ledger(database_url, views=AT_ONCE, connections=connections.API_LOG, is_open=False)
        self.pool = reading_pool(database_url, size=connections.API_READS, is_for_read=True)
        self.lists = Lists(reading_pool(database_url, size=connections.API_LISTS))
        self.statuses: BatchedReads[tuple[str, str], ImportStatus] = BatchedReads(self.pool, import_statuses)
        """The v2 status records, by supplier and external account number."""
        self.acknowledgements = Acknowledgements(self.ledger, durability)
        self.directory = Directory(self.pool)
        self.limit = RateLimit(redis_url)
        self.authority = AuthorityKey(request_key or secrets.token_urlsafe(32))
        """Makes and checks the MACs of data that no other process may write."""
        steps = StepKeys(self.pool, self.directory, self.authority)
        self.auth = Authenticator(self.directory, steps, token_key, self.limit)
        self.refusals = RefusalCounts(self.ledger)
        self.attempts = RefusedAttempts(self.ledger)
        self.runs = RunCounts(self.ledger, self.refusals)
        self.executor = BulkExecutor()
        self.operations = operations
        """Every endpoint of the service, for its description."""
        self.roles_file = roles_file
        """File in which a supervisor lists roles that fail at every start; None without a supervisor."""
        self.is_sandbox = is_sandbox
        self.durability = durability
        self.address_of = address_of
        self._open_ledger = open_ledger

    def report_pools(self) -> None:
        """Report the state of the pools for reads as metrics."""
        measures().pool("reads", self.pool.get_stats())
        measures().pool("lists", self.lists.pool.get_stats())

    @contextlib.asynccontextmanager
    async def running(self, register_metrics: Callable[..., None] = lambda *reports: None) -> AsyncIterator[None]:
        """Open the pools and run background tasks until the application ends.

        `register_metrics` is called with the functions that report metrics.
        """
        register_metrics(self.ledger.report_metrics, self.report_pools)
        self._open_ledger(self.ledger)
        async with self.pool, self.lists.pool:
            background_work = {
                KEEPER: self.directory.keep_fresh,
                "refusals": self.refusals.keep_appending,
                "refused attempts": self.attempts.keep_writing,
                "counts of runs": self.runs.keep_appending,
            }
            tasks = [supervision.task(name, work) for name, work in background_work.items()]
            yield
            for task in tasks:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
            await self.runs.append_or_log()
            await self.refusals.append_or_log()
            await self.attempts.write()
            await self.executor.close()
        await self.limit.close()
        await asyncio.to_thread(self.ledger.close)


class Endpoint:
    """Base class of the endpoints: holds the shared objects that handlers use most."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._ledger, self._pool, self._lists = services.ledger, services.pool, services.lists
        self._statuses, self._directory = services.statuses, services.directory
        self._acknowledgements = services.acknowledgements

    async def _known_supplier(self, request: Request) -> str:
        """Return the code of the supplier in the path. Raises ApiError 404 if it does not exist."""
        supplier = identifier(request, "supplier")
        if await self._directory.supplier(supplier) is None:
            raise not_found()
        return supplier

    async def _disclose(self, supplier: str, externals: Iterable[str], *, reason: str, by: str) -> None:
        """Append the disclosures of the content of these accounts, before it is sent."""
        command = ShowPersonalData(user=by, what=("account",), reason=reason)
        if commands := {stream_of(supplier, external): command for external in externals}:
            await in_thread(self._ledger.execute_many, commands, at=now(), by=by)
