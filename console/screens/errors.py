"""What goes wrong, by code, place and supplier: how many accounts now, how many mended, and since when."""

from collections.abc import Sequence
from urllib.parse import quote

import msgspec
from starlette.responses import Response

from api.catalogue import CATALOGUE
from api.errors import not_found
from api.problem_sentences import sentence_at
from console.listing import Asked, command_line
from console.people import EVERYBODY
from console.texts import N_
from console.visit import ROOT, Visit, page
from eventstore.clock import now
from projections.error_statistics import RefusalCount, refused_requests
from projections.import_failure import MAX_CODES, FailureCount, failure_counts
from projections.supplier_overview import supplier_codes
from schemas.base import MARKET_TIME

DAYS = 14
_CODES = {entry.code: entry for entry in CATALOGUE}


class DayBar(msgspec.Struct, frozen=True):
    """A day of a trend, as it is drawn: from the left, from above, and how high, of 140 and 28."""

    x: float
    y: float
    height: float
    number: int


@page("/errors/", roles=EVERYBODY, nav=N_("Errors"))
async def errors(visit: Visit) -> Response:
    """All codes and places, what concerns most accounts first."""
    codes, chosen = await _suppliers(visit)
    today = now().astimezone(MARKET_TIME).date()

    async def failed(connection: object) -> list[FailureCount]:
        return await failure_counts(connection, chosen, today, days=DAYS)  # type: ignore[arg-type]

    async def refused(connection: object) -> list[RefusalCount]:
        return await refused_requests(connection, chosen, today, days=DAYS)  # type: ignore[arg-type]

    failures = await visit.read(failed)
    return visit.render(
        "errors.html",
        codes=codes,
        supplier=visit.query("supplier"),
        failures=[(one, sentence_at(one.code, one.path), trend_of(one.days), _links(one)) for one in failures],
        refusals=[(one, sentence_at(one.code, one.path), trend_of(one.days)) for one in await visit.read(refused)],
        days=DAYS,
        most=MAX_CODES,
        may_retry=visit.person.role != "auditor",
        refusals_line=command_line("refusals", visit.query("supplier") or "…"),
    )


@page("/errors/{code}/", roles=EVERYBODY)
async def error_code(visit: Visit) -> Response:
    """What a code means, and where it is met."""
    entry = _CODES.get(visit.path("code"))
    if entry is None:
        raise not_found()
    _, chosen = await _suppliers(visit)
    today = now().astimezone(MARKET_TIME).date()

    async def failed(connection: object) -> list[FailureCount]:
        return await failure_counts(connection, chosen, today, days=DAYS)  # type: ignore[arg-type]

    mine = [one for one in await visit.read(failed) if one.code == entry.code]
    return visit.render(
        "error_code.html",
        entry=entry,
        failures=[(one, trend_of(one.days), _links(one)) for one in mine],
        days=DAYS,
        address=f"{ROOT}/imports/{Asked(code=entry.code).query()}",
    )


def trend_of(days: Sequence[int]) -> list[DayBar]:
    """The bars of a trend, the highest as high as the drawing. Pure."""
    highest = max((*days, 1))
    width = 140 / len(days)
    return [
        DayBar(
            round(n * width, 2),
            round(28 - max(1, 28 * number / highest), 2),
            round(max(1, 28 * number / highest), 2),
            number,
        )
        for n, number in enumerate(days)
    ]


def _links(one: FailureCount) -> dict[str, str]:
    """To the accounts: those that still fail, those that were mended."""
    asked = Asked(supplier=one.supplier, code=one.code, path=one.path)
    return {
        "open": f"{ROOT}/imports/{asked.query(mended='no')}",
        "mended": f"{ROOT}/imports/{asked.query(mended='yes')}",
        "code": f"{ROOT}/errors/{quote(one.code, safe='')}/",
    }


async def _suppliers(visit: Visit) -> tuple[list[str], list[str]]:
    """The codes that the person may see, and those that were asked for."""
    reach = visit.person.reach
    codes = await visit.read(supplier_codes, None if reach is None else sorted(reach))
    asked = visit.query("supplier")
    return codes, [code for code in codes if not asked or code == asked]


SCREENS = (errors, error_code)
