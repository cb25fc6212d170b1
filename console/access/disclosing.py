"""Personal data of an account is shown to a user who gives a reason, for half an hour. It is an event."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from psycopg import Connection

from console.access.requests import typed_reason
from console.access.visit import Visit
from console.presentation.texts import N_
from eventstore.aggregates import import_process
from eventstore.aggregates.disclosure import ShowPersonalData, stream_of
from eventstore.clock import now
from eventstore.events import Recorded
from projections.unlogged.typed_reasons import MAX_REASON, write_reason
from projections.views.disclosure import was_shown

SHOWN_FOR = timedelta(minutes=30)
MIN_REASON = 3


async def is_shown(visit: Visit, supplier: str, external: str) -> bool:
    """Return True if the user has asked for the account's personal data within the last half hour."""
    return await visit.read(was_shown, supplier, external, visit.person.user_id, now() - SHOWN_FOR)


async def show(visit: Visit, supplier: str, external: str) -> None:
    """Show the account's personal data from now on. Raises ApiError 400 without a reason."""
    content = visit.form.text("reason")
    if not MIN_REASON <= len(content) <= MAX_REASON:
        raise visit.refusal(
            400,
            N_("The reason must have %(least)s to %(most)s characters, such as the number of the customer's request."),
            least=MIN_REASON,
            most=MAX_REASON,
        )
    user_id = visit.person.user_id
    reason = typed_reason(user_id, import_process.stream_of(supplier, external), content, now())

    def beside(connection: Connection[Any], events: Sequence[Recorded]) -> None:
        write_reason(connection, reason)

    command = ShowPersonalData(user=user_id, what=("account",), reason=reason.reason)
    await visit.execute(stream_of(supplier, external), command, beside=beside)
