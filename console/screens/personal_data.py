"""Personal data: asking to be shown an account's, and for auditors what was shown to whom and why."""

from urllib.parse import quote

from starlette.responses import Response

from api.http.database import in_thread
from api.http.errors import not_found
from console.access.disclosing import WHAT, show
from console.access.people import EVERYBODY
from console.access.visit import ROOT, Visit, action, page
from console.presentation.texts import N_
from console.screens.paging import PlaceNumber, pages, place_in
from console.screens.start import local_address
from eventstore.aggregates import import_process
from projections.unlogged.typed_reasons import reasons_of
from projections.unlogged.user_details import details_of
from projections.views.disclosure import newest_disclosures

AUDITORS = frozenset({"auditor", "operator"})
AT_ONCE = 50


@page("/personal-data/", roles=AUDITORS, nav=N_("Personal data"))
async def disclosures(visit: Visit) -> Response:
    """What was shown, the newest first."""
    before = place_in(visit, "before", PlaceNumber) or 0
    rows = await visit.read(newest_disclosures, visit.person.reach, before, AT_ONCE + 1)
    shown = rows[:AT_ONCE]
    return visit.render(
        "personal_data.html",
        rows=shown,
        people=await visit.read(details_of, {row.user_id for row in shown}),
        reasons=await visit.read(reasons_of, {row.reason for row in shown}),
        more=pages(visit, "before", shown[-1].position if len(rows) > AT_ONCE else None),
    )


@action("/personal-data/{supplier}/{external}/", roles=EVERYBODY)
async def show_personal_data(visit: Visit) -> Response:
    """Show an account's personal data for half an hour, with a reason."""
    supplier, external = visit.path("supplier"), visit.path("external")
    stream = import_process.stream_of(supplier, external)
    loaded = await in_thread(visit.services.ledger.look_at, [stream])
    if not getattr(loaded[stream], "version", 1):
        raise not_found()
    await show(visit, supplier, external, (WHAT,), visit.form.text("reason"))
    back = visit.form.text("next") or f"{ROOT}/imports/{quote(supplier, safe='')}/{quote(external, safe='')}/"
    return visit.redirect(local_address(back))


SCREENS = (disclosures, show_personal_data)
