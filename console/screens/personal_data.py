"""Access to personal data: the form that requests it, and for auditors the list of accesses."""

from datetime import timedelta
from functools import partial

from starlette.responses import Response

from api.http.database import in_thread
from api.http.errors import not_found
from console.access.people import EVERYBODY
from console.access.requests import typed_reason
from console.access.visit import Visit, action, page
from console.presentation.listing import import_address
from console.presentation.texts import N_
from console.screens.paging import NumberKey, page_of
from eventstore.aggregates import import_process
from eventstore.aggregates.disclosure import ShowPersonalData, stream_of
from eventstore.clock import now
from projections.auxiliary.typed_reasons import MAX_REASON, reasons_of, write_reason
from projections.auxiliary.user_details import details_of
from projections.views.disclosure import newest_disclosures, was_shown

AUDITORS = frozenset({"auditor", "operator"})
AT_ONCE = 50
SHOWN_FOR = timedelta(minutes=30)
MIN_REASON = 3


@page("/personal-data/", roles=AUDITORS, nav=N_("Personal data"))
async def disclosures(visit: Visit) -> Response:
    """List accesses to personal data, newest first."""
    query = partial(newest_disclosures, suppliers=visit.person.reach)
    rows, more = await page_of(visit, "before", query, NumberKey, AT_ONCE, key_attribute="position", start=0)
    people = await visit.read(details_of, {row.user_id for row in rows})
    reasons = await visit.read(reasons_of, {row.reason for row in rows})
    return visit.render("personal_data.html", rows=rows, people=people, reasons=reasons, more=more)


@action("/personal-data/{supplier}/{external}/", roles=EVERYBODY)
async def show_personal_data(visit: Visit) -> Response:
    """Show an account's personal data for half an hour, with a reason."""
    supplier, external = visit.path("supplier"), visit.path("external")
    stream = import_process.stream_of(supplier, external)
    loaded = await in_thread(visit.services.ledger.try_load, [stream])
    if not getattr(loaded[stream], "version", 1):
        raise not_found()
    content = visit.form.text("reason")
    if not MIN_REASON <= len(content) <= MAX_REASON:
        raise visit.refusal(
            400,
            N_("The reason must have %(least)s to %(most)s characters, such as the number of the customer's request."),
            least=MIN_REASON,
            most=MAX_REASON,
        )
    user_id = visit.person.user_id
    reason = typed_reason(user_id, stream, content, now())
    command = ShowPersonalData(user=user_id, what=("account",), reason=reason.reason)
    await visit.execute(
        stream_of(supplier, external), command, write_rows=lambda connection, events: write_reason(connection, reason)
    )
    return visit.redirect(visit.form.text("next") or import_address(supplier, external))


async def is_shown(visit: Visit, supplier: str, external: str) -> bool:
    """Return True if the user has requested the account's personal data within the last half hour."""
    return await visit.read(was_shown, supplier, external, visit.person.user_id, now() - SHOWN_FOR)
