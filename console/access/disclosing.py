"""Showing personal data of an account: with a reason, as an event, for half an hour."""

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any

from psycopg import Connection

from api.http.status_codes import ApiError
from console.access.visit import Visit
from eventstore.aggregates import import_process
from eventstore.aggregates.disclosure import ShowPersonalData, stream_of
from eventstore.clock import now
from eventstore.events import Recorded
from projections.unlogged.typed_reasons import MAX_REASON, TypedReason, new_reason_id, write_reason
from projections.views.disclosure import was_shown
from schemas.sentence import Sentence

SHOWN_FOR = timedelta(minutes=30)
WHAT = "account"
"""What a page of an account shows: all of it."""
_NO_REASON = Sentence(
    f"Say why, in 3 to {MAX_REASON} characters, such as the number of the customer's request.",
    f"Bitte den Grund nennen, mit 3 bis {MAX_REASON} Zeichen, etwa die Nummer der Kundenanfrage.",
)


async def is_shown(visit: Visit, supplier: str, external: str) -> bool:
    """Whether the person may see the account's personal data now: they have asked for it within half an hour."""
    return await visit.read(was_shown, supplier, external, visit.person.user_id, now() - SHOWN_FOR)


async def show(visit: Visit, supplier: str, external: str, what: Collection[str], content: str) -> None:
    """Show it from now on. Raises ApiError 400 without a reason."""
    if not 3 <= len(content) <= MAX_REASON:
        raise ApiError(400, _NO_REASON)
    at, user_id = now(), visit.person.user_id
    reason = TypedReason(
        reason=new_reason_id(),
        user_id=user_id,
        subject=import_process.stream_of(supplier, external),
        at=at,
        content=content,
    )

    def beside(connection: Connection[Any], events: Sequence[Recorded]) -> None:
        write_reason(connection, reason)

    command = ShowPersonalData(user=user_id, what=tuple(what), reason=reason.reason)
    await visit.execute(stream_of(supplier, external), command, beside=beside)
