"""The first page: open tasks, the progress of each supplier, and recent activity."""

from datetime import datetime
from functools import partial
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response

from api.description.problem_sentences import sentence_at
from console.access.people import DECIDERS, OPERATORS, READERS
from console.access.requests import reason_texts_of
from console.access.visit import ROOT, Visit, page
from console.presentation.listing import Filter
from console.presentation.texts import N_
from console.screens.paging import NumberKey, TextKey, page_of
from eventstore.clock import now
from eventstore.log.intake_stop import read_intake_stop
from projections.queries.supplier_overview import supplier_codes, supplier_standings
from projections.versions.overview import parked_counts, stale_since
from projections.views.import_failure import failure_causes
from projections.views.import_progress import IMPORT_PROGRESS
from projections.views.owner_task import count_proposals
from projections.views.throughput import KINDS, PERIODS, THROUGHPUT, recent_activity, throughput
from schemas.base import MARKET_TIME

PERIOD_NAMES = {"hour": N_("Last hour"), "day": N_("Last day"), "week": N_("Last week")}
KIND_NAMES = {
    "received": N_("Received"),
    "processed": N_("Processed"),
    "failed": N_("Failed"),
    "refused": N_("Refused"),
}
AT_ONCE = 50
"""Suppliers per page."""
MAX_CAUSES = 5
"""Causes of failures among the open tasks. The page of errors has all causes."""


@page("/", roles=READERS, nav=N_("Overview"))
async def overview(visit: Visit) -> Response:
    """Show the open tasks, the progress of the suppliers, and the activity of a period."""
    at, reach = now(), visit.person.listed_reach
    query = partial(supplier_standings, reach=reach, at=at)
    standings, more = await page_of(visit, "after", query, tuple[NumberKey, NumberKey, TextKey], AT_ONCE)
    reasons = await reason_texts_of(visit, [standing.reason for standing in standings])
    period = visit.query("period") if visit.query("period") in PERIODS else "hour"
    chosen = visit.query("supplier")
    codes = await visit.read(supplier_codes, reach)
    bars = await visit.read(throughput, [chosen] if chosen in codes else codes, period, at)
    return visit.render(
        "overview.html",
        todo=await _todo(visit, codes, at),
        paused=[standing for standing in standings if standing.status == "paused" and standing.waiting],
        standings=standings,
        number=len(codes),
        recent=await visit.read(recent_activity, [standing.code for standing in standings], at),
        more=more,
        reasons=reasons,
        period=period,
        periods=[(key, visit._(name), _address(visit, key, chosen)) for key, name in PERIOD_NAMES.items()],
        kinds=[(kind, visit._(KIND_NAMES[kind])) for kind in KINDS],
        chosen=chosen if chosen in codes else "",
        bars=bars,
        filled=[
            (bar, _day_address(bar.at, chosen if chosen in codes else ""))
            for bar in reversed(bars)
            if any(getattr(bar, kind) for kind in KINDS)
        ],
        sums={kind: sum(getattr(bar, kind) for bar in bars) for kind in KINDS},
        at=at,
        stale=await visit.read(stale_since, (IMPORT_PROGRESS, THROUGHPUT)),
        stop=await visit.read(read_intake_stop),
    )


async def _todo(visit: Visit, codes: list[str], at: datetime) -> dict[str, Any]:
    """Return the open tasks: causes of failures, parked streams, findings of `doctor`, and proposals."""
    query = partial(failure_causes, today=at.astimezone(MARKET_TIME).date(), days=1, limit=MAX_CAUSES)
    causes = [cause for cause in await visit.read(query, codes) if cause.open]
    findings = []
    if visit.person.may(OPERATORS) and visit.person.reach is None:
        visit.console.checkup.start()
        findings = [finding for finding in visit.console.checkup.findings if finding.state != "good"]
    return {
        "causes": [
            (cause, sentence_at(cause.code, cause.path), _failing_address(cause.code, cause.path)) for cause in causes
        ],
        "parked": await visit.read(parked_counts, visit.person.reach),
        "findings": findings,
        "proposals": await visit.read(count_proposals, visit.person.reach)
        if visit.console.settings.four_eyes and visit.person.may(DECIDERS)
        else 0,
    }


def _failing_address(code: str, path: str) -> str:
    return f"{ROOT}/imports/{Filter(code=code, path=path, fixed='no').query()}"


def _day_address(at: datetime, supplier: str) -> str:
    """Return the address of the imports that were sent on the day of a bar."""
    return f"{ROOT}/imports/{Filter(supplier=supplier, day=at.astimezone(MARKET_TIME).date().isoformat()).query()}"


def _address(visit: Visit, period: str, supplier: str) -> str:
    """Return the address of this page with the chart of another period."""
    parameters = {"period": period, "supplier": supplier, "after": visit.query("after")}
    return f"{ROOT}/?{urlencode({name: value for name, value in parameters.items() if value})}"
