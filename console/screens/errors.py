"""What goes wrong, by code, place and supplier: how many accounts now, how many mended, and since when."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import msgspec
from starlette.responses import Response

from api.description.catalogue import CATALOGUE
from api.description.problem_sentences import sentence_at
from api.http.errors import not_found
from console.access.people import EVERYBODY
from console.access.visit import ROOT, Visit, page
from console.presentation.listing import Asked, command_line
from console.presentation.texts import N_
from console.screens.paging import Pages, PlaceNumber, PlaceText, pages, place_in
from eventstore.clock import now
from projections.queries.supplier_overview import supplier_codes
from projections.views.error_statistics import RefusalCount, refused_requests
from projections.views.import_failure import FailureCount, failure_counts
from schemas.base import MARKET_TIME

DAYS = 14
AT_ONCE = 50
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
    failures, more_failures = await _failures(visit, chosen, "")
    refusals, more_refusals = await _refusals(visit, chosen)
    return visit.render(
        "errors.html",
        codes=codes,
        supplier=visit.query("supplier"),
        failures=[(one, sentence_at(one.code, one.path), trend_of(one.days), _links(one)) for one in failures],
        more_failures=more_failures,
        refusals=[(one, sentence_at(one.code, one.path), trend_of(one.days)) for one in refusals],
        more_refusals=more_refusals,
        days=DAYS,
        refusals_line=command_line("status", visit.query("supplier") or "…", "--refusals"),
    )


@page("/errors/{code}/", roles=EVERYBODY)
async def error_code(visit: Visit) -> Response:
    """What a code means, and where it is met."""
    entry = _CODES.get(visit.path("code"))
    if entry is None:
        raise not_found()
    _, chosen = await _suppliers(visit)
    failures, more = await _failures(visit, chosen, entry.code)
    return visit.render(
        "error_code.html",
        entry=entry,
        failures=[(one, trend_of(one.days), _links(one)) for one in failures],
        more=more,
        days=DAYS,
        address=f"{ROOT}/imports/{Asked(code=entry.code).query()}",
    )


async def _failures(visit: Visit, suppliers: Sequence[str], code: str) -> tuple[list[FailureCount], Pages]:
    """A page of what imports failed for, of one code or "" for all, and the ways on."""
    place = place_in(visit, "after", tuple[PlaceNumber, PlaceNumber, PlaceText, PlaceText, PlaceText])
    today = now().astimezone(MARKET_TIME).date()

    async def asked(connection: Any) -> list[FailureCount]:
        return await failure_counts(connection, suppliers, today, days=DAYS, code=code, after=place, limit=AT_ONCE + 1)

    rows = await visit.read(asked)
    return rows[:AT_ONCE], pages(visit, "after", rows[AT_ONCE - 1].place if len(rows) > AT_ONCE else None)


async def _refusals(visit: Visit, suppliers: Sequence[str]) -> tuple[list[RefusalCount], Pages]:
    """A page of what requests were refused for, and the ways on."""
    place = place_in(visit, "refused-after", tuple[PlaceNumber, PlaceText, PlaceText, PlaceText])
    today = now().astimezone(MARKET_TIME).date()

    async def asked(connection: Any) -> list[RefusalCount]:
        return await refused_requests(connection, suppliers, today, days=DAYS, after=place, limit=AT_ONCE + 1)

    rows = await visit.read(asked)
    after = rows[AT_ONCE - 1].place if len(rows) > AT_ONCE else None
    return rows[:AT_ONCE], pages(visit, "refused-after", after, anchor="refused")


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
