"""Content of all accounts of a supplier, in the format of imports, with a record of each disclosure."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from psycopg import AsyncConnection
from starlette.requests import Request
from starlette.responses import Response

from api.access.auth import AUDITORS
from api.admission import Call
from api.http.lists import ListFormat
from api.operation import STATUS, V2, Parameter, operation
from api.services import Endpoint
from projections.queries.pulled_content import LAST_KIND, ContentKey, PulledLine, pulled_content
from schemas.run import PulledContent

_AFTER = Parameter(
    name="continue_after",
    description="Position of the last import that was read completely [default: from the first import].",
    schema={"type": "integer", "minimum": 0, "maximum": 10**18},
    default=0,
)
_REASON = "pull"
"""Reason in the events of disclosures: the whole book was read."""


class Pulling(Endpoint):
    """The handler of …/suppliers/{supplier}/content/."""

    @operation(
        "GET",
        f"{V2}/suppliers/{{supplier}}/content/",
        STATUS,
        roles=AUDITORS,
        answers={200: PulledContent},
        query=(_AFTER,),
        media="application/x-ndjson",
    )
    async def pull_accounts(self, request: Request, call: Call) -> Response:
        """Read a supplier's accounts and records, one per line, as they are imported; for auditors and staff.

        Each account that is read is recorded in the log as a disclosure to the key.
        """
        supplier, after = await self._known_supplier(request), _AFTER.read(request)
        query = partial(self._page, supplier=supplier, by=call.by)
        start: ContentKey = (after, LAST_KIND, "")
        return await self._lists.answer(call, query, start, _LINES)

    async def _page(
        self, connection: AsyncConnection[Any], after: ContentKey, *, supplier: str, by: str
    ) -> tuple[Sequence[PulledLine], ContentKey | None]:
        """Read a page, and append the disclosures of its accounts before the page is sent."""
        lines, key = await pulled_content(connection, after, supplier=supplier)
        await self._disclose(supplier, [line.external for line in lines if line.has_content], reason=_REASON, by=by)
        return lines, key


def _joined(lines: Sequence[PulledLine]) -> bytes:
    return b"".join([line.line for line in lines])


_LINES: ListFormat[PulledLine] = ListFormat(media_type="application/x-ndjson", encode=_joined)
