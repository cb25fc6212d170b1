"""Names of runs: the query parameter, and the limit of new names of a supplier per day.

The number is limited because each name is stored permanently and has rows in a projection.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Collection
from datetime import UTC, date, datetime, time, timedelta

from starlette.requests import Request

from api.http.status_codes import ApiError
from api.operation import Parameter
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from projections.views.import_run import RunKey, known_runs, runs_since
from schemas.sentence import Sentence

MAX_NEW = 1_000
"""New names of a supplier per day, in UTC. Further names are refused."""
MAX_KNOWN = 100_000
"""Names that a process keeps in memory. Beyond this number, it drops all names."""
TOO_MANY = "too_many_runs"
TOO_MANY_DETAIL = Sentence(
    f"A supplier must not have more than {MAX_NEW:,} new runs in a day (UTC). Use the name of an existing run.",
    f"Eine Quelle darf an einem Tag (UTC) höchstens {MAX_NEW} neue Läufe haben. Verwenden Sie einen bestehenden Lauf.",
)

RUN = Parameter(
    name="run",
    description="Name of the requests that belong together. It is stored permanently in plain text: it must not hold"
    " personal data.",
    schema={"type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$"},
)
RUN_NAME = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,64}\Z")


def named_run(request: Request) -> str:
    """Return the name of the run in a request, or "". Raises ApiError 400."""
    if not request.scope["query_string"]:
        return ""
    name = request.query_params.get("run")
    if name is None:
        return ""
    if not RUN_NAME.match(name):
        raise ApiError(
            400,
            Sentence(
                "A run's name must have 1 to 64 of A–Z, a–z, 0–9, point, underscore and hyphen,"
                " and must not be . or ..",
                "Der Name eines Laufs muss 1 bis 64 Zeichen haben: A–Z, a–z, 0–9, Punkt, Unterstrich, Bindestrich;"
                " er darf nicht . oder .. sein.",
            ),
        )
    return name


class RunNames:
    """Admits names of runs. Names that other processes admit count after a second or two."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._known: set[RunKey] = set()
        self._day = date.min
        self._new: Counter[str] = Counter()
        """Number of names that this process has admitted today, by supplier."""

    async def admitted(self, names: Collection[RunKey]) -> set[RunKey]:
        """Return the names (supplier, run) that may be used: existing names, and new names within the limit."""
        unknown = sorted({*names} - self._known)
        if unknown:
            await asyncio.to_thread(self._load, unknown)
        return self._known.intersection(names)

    async def refuse_new(self, supplier: str, run: str) -> None:
        """Raise ApiError 429 for a name that is new and beyond the limit."""
        if run and not await self.admitted([(supplier, run)]):
            tomorrow = datetime.combine(now().date() + timedelta(days=1), time(), UTC)
            seconds = round((tomorrow - now()).total_seconds()) + 1
            raise ApiError(429, TOO_MANY_DETAIL, code=TOO_MANY, headers={"Retry-After": f"{seconds}"})

    def _load(self, unknown: Collection[RunKey]) -> None:
        today = now().date()
        if today != self._day:
            self._day, self._new = today, Counter()
        if len(self._known) > MAX_KNOWN:
            self._known.clear()
        suppliers = {supplier for supplier, _ in unknown}
        with self._ledger.connection() as connection:
            existing = known_runs(connection, unknown)
            midnight = datetime.combine(today, time(), UTC)
            new_runs = runs_since(connection, suppliers, midnight, most=MAX_NEW)
        self._known |= existing
        for supplier, run in unknown:
            if (supplier, run) not in existing and max(new_runs[supplier], self._new[supplier]) < MAX_NEW:
                new_runs[supplier] += 1
                self._new[supplier] += 1
                self._known.add((supplier, run))
