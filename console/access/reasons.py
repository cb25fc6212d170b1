"""Reasons that events carry: as they were typed on a command line, or by the id of what was typed on a page."""

import re
from collections.abc import Iterable

from console.access.visit import Visit
from projections.unlogged.typed_reasons import reasons_of

_ID = re.compile(r"r_[0-9a-f]{16}\Z")


async def shown_reasons(visit: Visit, reasons: Iterable[str]) -> dict[str, str]:
    """What to show for each; "" for one that was erased."""
    wanted = set(reasons)
    named = {reason for reason in wanted if _ID.match(reason)}
    typed = await visit.read(reasons_of, named) if named else {}
    known = {reason: one.content for reason, one in typed.items()}
    return {reason: known.get(reason, "" if reason in named else reason) for reason in wanted}
