"""Access to personal data: the form that requests it, and for auditors the list of accesses."""

from functools import partial

from starlette.responses import Response

from api.http.database import in_thread
from api.http.errors import not_found
from console.access.disclosing import show
from console.access.people import EVERYBODY
from console.access.visit import Visit, action, page
from console.presentation.listing import import_address
from console.presentation.texts import N_
from console.screens.paging import PlaceNumber, page_of
from eventstore.aggregates import import_process
from projections.unlogged.typed_reasons import reasons_of
from projections.unlogged.user_details import details_of
from projections.views.disclosure import newest_disclosures

AUDITORS = frozenset({"auditor", "operator"})
AT_ONCE = 50


@page("/personal-data/", roles=AUDITORS, nav=N_("Personal data"))
async def disclosures(visit: Visit) -> Response:
    """Accesses to personal data, newest first."""
    query = partial(newest_disclosures, suppliers=visit.person.reach)
    rows, more = await page_of(visit, "before", query, PlaceNumber, AT_ONCE, place="position", start=0)
    people = await visit.read(details_of, {row.user_id for row in rows})
    reasons = await visit.read(reasons_of, {row.reason for row in rows})
    return visit.render("personal_data.html", rows=rows, people=people, reasons=reasons, more=more)


@action("/personal-data/{supplier}/{external}/", roles=EVERYBODY)
async def show_personal_data(visit: Visit) -> Response:
    """Show an account's personal data for half an hour, with a reason."""
    supplier, external = visit.path("supplier"), visit.path("external")
    stream = import_process.stream_of(supplier, external)
    loaded = await in_thread(visit.services.ledger.look_at, [stream])
    if not getattr(loaded[stream], "version", 1):
        raise not_found()
    await show(visit, supplier, external)
    return visit.redirect(visit.form.text("next") or import_address(supplier, external))


SCREENS = (disclosures, show_personal_data)
