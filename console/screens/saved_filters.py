"""Save the filter of a list under a name, and remove it."""

from collections.abc import Callable

from starlette.responses import Response

from console.access.people import EVERYBODY
from console.access.saved_filters import (
    MAX_FILTERS,
    MAX_NAME,
    SavedFilter,
    address_to_save,
    read_filters,
    stored_filters,
)
from console.access.visit import Visit, action
from console.presentation.texts import N_
from projections.auxiliary.user_details import change_saved_filters


@action("/filters/", roles=EVERYBODY)
async def save_filter(visit: Visit) -> Response:
    """Save the filter of the list from which the form was sent. A filter of the same name is replaced."""
    name = " ".join(visit.form.text("name").split())
    address = address_to_save(visit.form.text("here"), visit.lists)
    if address is None:
        raise visit.refusal(400, N_("Only a list with its filter can be saved."))
    if not name or len(name) > MAX_NAME:
        raise visit.invalid("name", N_("The name of a filter must have 1 to 60 characters."))

    def change(filters: list[SavedFilter]) -> list[SavedFilter]:
        others = [saved for saved in filters if saved.name != name]
        if len(others) >= MAX_FILTERS:
            raise visit.refusal(409, N_("You can save at most 20 filters. Remove one first."))
        return [*others, SavedFilter(name, address)]

    await _change(visit, change)
    return visit.redirect(address, notice=visit._("The filter was saved."))


@action("/filters/remove/", roles=EVERYBODY)
async def remove_filter(visit: Visit) -> Response:
    """Remove a saved filter."""
    name = visit.form.text("name")
    await _change(visit, lambda filters: [saved for saved in filters if saved.name != name])
    return visit.redirect(visit.form.text("here"), notice=visit._("The filter was removed."))


async def _change(visit: Visit, change: Callable[[list[SavedFilter]], list[SavedFilter]]) -> None:
    authority, user_id = visit.services.authority, visit.person.user_id

    def changed(stored: str) -> str:
        return stored_filters(authority, user_id, change(read_filters(authority, user_id, stored)))

    await visit.read(change_saved_filters, user_id, changed)
