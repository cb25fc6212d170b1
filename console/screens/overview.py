"""The first page: the progress of each supplier, recent activity, and the search."""

from functools import partial
from urllib.parse import urlencode

from starlette.responses import Response

from console.access.people import EVERYBODY
from console.access.requests import reason_texts_of
from console.access.visit import ROOT, Visit, page
from console.presentation.texts import N_
from console.screens.paging import NumberKey, TextKey, page_of
from eventstore.clock import now
from eventstore.log.intake_stop import read_intake_stop
from projections.queries.supplier_overview import supplier_codes, supplier_standings
from projections.versions.overview import stale_since
from projections.views.import_progress import IMPORT_PROGRESS
from projections.views.throughput import KINDS, PERIODS, THROUGHPUT, throughput

PERIOD_NAMES = {"hour": N_("Last hour"), "day": N_("Last day"), "week": N_("Last week")}
KIND_NAMES = {
    "received": N_("Received"),
    "processed": N_("Processed"),
    "failed": N_("Failed"),
    "refused": N_("Refused"),
}
AT_ONCE = 24
"""Suppliers per page."""


@page("/", roles=EVERYBODY, nav=N_("Overview"))
async def overview(visit: Visit) -> Response:
    """Show the progress of the suppliers, and the activity of a period."""
    at, reach = now(), visit.person.listed_reach
    query = partial(supplier_standings, reach=reach, at=at)
    standings, more = await page_of(visit, "after", query, tuple[NumberKey, TextKey], AT_ONCE)
    reasons = await reason_texts_of(visit, [standing.reason for standing in standings])
    period = visit.query("period") if visit.query("period") in PERIODS else "hour"
    chosen = visit.query("supplier")
    codes = await visit.read(supplier_codes, reach)
    bars = await visit.read(throughput, [chosen] if chosen in codes else codes, period, at)
    return visit.render(
        "overview.html",
        standings=standings,
        more=more,
        reasons=reasons,
        period=period,
        periods=[(key, visit._(name), _address(visit, key, chosen)) for key, name in PERIOD_NAMES.items()],
        kinds=[(kind, visit._(KIND_NAMES[kind])) for kind in KINDS],
        chosen=chosen if chosen in codes else "",
        bars=bars,
        filled=[bar for bar in reversed(bars) if any(getattr(bar, kind) for kind in KINDS)],
        sums={kind: sum(getattr(bar, kind) for bar in bars) for kind in KINDS},
        at=at,
        stale=await visit.read(stale_since, (IMPORT_PROGRESS.name, THROUGHPUT.name)),
        stop=await visit.read(read_intake_stop),
    )


def _address(visit: Visit, period: str, supplier: str) -> str:
    """Return the address of this page with the chart of another period."""
    parameters = {"period": period, "supplier": supplier, "after": visit.query("after")}
    return f"{ROOT}/?{urlencode({name: value for name, value in parameters.items() if value})}"
