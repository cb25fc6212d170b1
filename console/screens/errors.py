"""Failures by code, field and supplier: accounts that fail now, accounts that were fixed, and the trend."""

from collections.abc import Sequence
from datetime import date
from functools import partial
from urllib.parse import quote

from starlette.responses import Response

from api.description.catalogue import CATALOGUE
from api.description.problem_sentences import sentence_at
from api.http.errors import not_found
from console.access.people import EVERYBODY
from console.access.visit import ROOT, Visit, page
from console.presentation.listing import Filter
from console.presentation.texts import N_
from console.screens.paging import NumberKey, Pages, TextKey, page_of
from eventstore.clock import now
from projections.queries.supplier_overview import supplier_codes
from projections.versions.overview import stale_since
from projections.views.error_statistics import ERROR_STATISTICS, RefusalCount, refused_requests
from projections.views.import_failure import IMPORT_FAILURE, FailureCount, failure_counts
from schemas.base import MARKET_TIME

DAYS = 14
AT_ONCE = 50
_VIEWS = (ERROR_STATISTICS.name, IMPORT_FAILURE.name)
_CODES = {entry.code: entry for entry in CATALOGUE}


@page("/errors/", roles=EVERYBODY, nav=N_("Errors"))
async def errors(visit: Visit) -> Response:
    """Show failures and refusals of the last 14 days by code and field, the most frequent first."""
    codes, chosen = await _suppliers(visit)
    failures, more_failures = await _failures(visit, chosen, "")
    refusals, more_refusals = await _refusals(visit, chosen)
    return visit.render(
        "errors.html",
        codes=codes,
        supplier=visit.query("supplier"),
        failures=[(row, sentence_at(row.code, row.path), _links(row)) for row in failures],
        more_failures=more_failures,
        refusals=[(row, sentence_at(row.code, row.path)) for row in refusals],
        more_refusals=more_refusals,
        days=DAYS,
        stale=await visit.read(stale_since, _VIEWS),
    )


@page("/errors/{code}/", roles=EVERYBODY)
async def error_code(visit: Visit) -> Response:
    """Show the meaning of a code, and its failures."""
    entry = _CODES.get(visit.path("code"))
    if entry is None:
        raise not_found()
    _, chosen = await _suppliers(visit)
    failures, more = await _failures(visit, chosen, entry.code)
    return visit.render(
        "error_code.html",
        entry=entry,
        failures=[(row, _links(row)) for row in failures],
        more=more,
        days=DAYS,
        stale=await visit.read(stale_since, _VIEWS),
        address=f"{ROOT}/imports/{Filter(code=entry.code).query()}",
    )


async def _failures(visit: Visit, suppliers: Sequence[str], code: str) -> tuple[Sequence[FailureCount], Pages]:
    """Return a page of the failures of imports, of one code or "" for all."""
    query = partial(failure_counts, suppliers=suppliers, today=_today(), days=DAYS, code=code)
    kind = tuple[NumberKey, NumberKey, TextKey, TextKey, TextKey]
    return await page_of(visit, "after", query, kind, AT_ONCE)


async def _refusals(visit: Visit, suppliers: Sequence[str]) -> tuple[Sequence[RefusalCount], Pages]:
    """Return a page of the problems of refused requests."""
    query = partial(refused_requests, suppliers=suppliers, today=_today(), days=DAYS)
    kind = tuple[NumberKey, TextKey, TextKey, TextKey]
    return await page_of(visit, "refused-after", query, kind, AT_ONCE, anchor="refused")


def _today() -> date:
    return now().astimezone(MARKET_TIME).date()


def _links(row: FailureCount) -> dict[str, str]:
    """Return the addresses of the accounts that still fail, of those that were fixed, and of the code."""
    listed = Filter(supplier=row.supplier, code=row.code, path=row.path)
    return {
        "open": f"{ROOT}/imports/{listed.query(fixed='no')}",
        "fixed": f"{ROOT}/imports/{listed.query(fixed='yes')}",
        "code": f"{ROOT}/errors/{quote(row.code, safe='')}/",
    }


async def _suppliers(visit: Visit) -> tuple[list[str], list[str]]:
    """Return the codes of all suppliers that the user sees, and of those that the filter selects."""
    codes = await visit.read(supplier_codes, visit.person.listed_reach)
    chosen = visit.query("supplier")
    return codes, [code for code in codes if chosen in ("", code)]
