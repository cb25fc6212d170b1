"""Access to personal data: the form that requests it, and for auditors the list of accesses."""

from datetime import date, datetime, time, timedelta
from functools import partial

from starlette.responses import Response

from api.http.database import in_thread
from api.http.errors import not_found
from console.access.people import READERS
from console.access.requests import reason_texts_of, typed_reason
from console.access.visit import Visit, action, page
from console.presentation.listing import import_address
from console.presentation.texts import N_
from console.screens.paging import NumberKey, page_of
from eventstore.aggregates import import_process
from eventstore.aggregates.disclosure import ShowPersonalData, stream_of
from eventstore.clock import now
from projections.auxiliary.typed_reasons import MAX_REASON, write_reason
from projections.auxiliary.user_details import details_of
from projections.views.disclosure import (
    DisclosureFilter,
    count_disclosures,
    newest_disclosures,
    users_with_disclosures,
    was_shown,
)
from schemas.base import instant

AUDITORS = frozenset({"auditor", "operator"})
AT_ONCE = 50
SHOWN_FOR = timedelta(minutes=30)
MIN_REASON = 3


@page("/personal-data/", roles=AUDITORS, nav=N_("Personal data"))
async def disclosures(visit: Visit) -> Response:
    """List accesses to personal data, newest first, of a user, an account or a day."""
    criteria = _criteria(visit)
    query = partial(newest_disclosures, criteria=criteria)
    rows, more = await page_of(visit, "before", query, NumberKey, AT_ONCE, key_attribute="position", start=0)
    users = await visit.read(users_with_disclosures, visit.person.listed_reach)
    people = await visit.read(details_of, set(users))
    reasons = await reason_texts_of(visit, (row.reason for row in rows))
    return visit.render("personal_data.html", rows=rows, people=people, reasons=reasons, more=more,
        names=sorted((people[user].display_name if user in people else user, user) for user in users),
        total=await visit.read(count_disclosures, criteria), user=criteria.user, account=criteria.external,
        day=visit.query("day") if criteria.begins_at else "")  # fmt: skip


def _criteria(visit: Visit) -> DisclosureFilter:
    """Return the filter in the address. Raises NotValid for a text that is no day."""
    begins_at = ends_at = None
    if visit.query("day"):
        try:
            day = date.fromisoformat(visit.query("day"))
            begins_at, ends_at = (instant(datetime.combine(day + timedelta(days=days), time())) for days in (0, 1))
        except (ValueError, OverflowError) as error:
            raise visit.invalid("day", N_("The day must have the form 2026-11-22.")) from error
    return DisclosureFilter(
        suppliers=visit.person.listed_reach,
        user=visit.query("user").replace("\0", ""),
        external=visit.query("account").replace("\0", ""),
        begins_at=begins_at,
        ends_at=ends_at,
    )


@action("/personal-data/{supplier}/{external}/", roles=READERS)
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
            N_("The reason must have %(least)s to %(most)s characters. Example: the number of the customer's request."),
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
