"""Failures by cause, which is a code and a field: accounts that fail now, examples, and remedies."""

from collections.abc import Sequence
from datetime import date
from functools import partial
from typing import Any
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from api.description.catalogue import CATALOGUE
from api.description.problem_sentences import sentence_at
from api.http.errors import not_found
from console.access.people import DECIDERS, EVERYBODY
from console.access.visit import ROOT, Visit, page
from console.presentation.formats import Formats
from console.presentation.importer_text import text_about_cause
from console.presentation.listing import Filter
from console.presentation.rendering import segment
from console.presentation.texts import N_
from console.screens.imports import MAX_CHIPS
from console.screens.paging import NumberKey, TextKey, page_of
from eventstore.clock import now
from projections.queries.supplier_overview import FAILED, counts_by_status, supplier_codes
from projections.versions.overview import stale_since
from projections.views.error_statistics import ERROR_STATISTICS, refused_requests
from projections.views.import_failure import (
    IMPORT_FAILURE,
    FailureCause,
    FailureCount,
    failure_causes,
    failure_counts,
    failure_examples,
)
from schemas.base import MARKET_TIME

DAYS = 14
AT_ONCE = 50
_VIEWS = (ERROR_STATISTICS, IMPORT_FAILURE)
_CODES = {entry.code: entry for entry in CATALOGUE}


@page("/errors/", roles=EVERYBODY, nav=N_("Errors"))
async def errors(visit: Visit) -> Response:
    """Show the causes of failures, the causes with most accounts first, and the refusals of the last 14 days."""
    codes, chosen = await _suppliers(visit)
    query = partial(failure_causes, suppliers=chosen, today=_today(), days=DAYS)
    kind = tuple[NumberKey, NumberKey, TextKey, TextKey]
    causes, more_failures = await page_of(visit, "after", query, kind, AT_ONCE)
    examples = await visit.read(failure_examples, causes)
    refused = partial(refused_requests, suppliers=chosen, today=_today(), days=DAYS)
    key = tuple[NumberKey, TextKey, TextKey, TextKey]
    refusals, more_refusals = await page_of(visit, "refused-after", refused, key, AT_ONCE, anchor="refused")
    counts = await visit.read(counts_by_status, chosen)
    failing = sum(by_status.get(status, 0) for by_status in counts.values() for status in FAILED)
    return visit.render(
        "errors.html",
        chips=supplier_chips(visit, codes),
        codes=codes,
        supplier=visit.query("supplier"),
        causes=[
            (_shown_cause(visit, cause), examples.get((cause.code, cause.path), []), _links(visit, cause, chosen))
            for cause in causes
        ],
        failing=failing,
        today=_today(),
        may_decide=visit.person.may(DECIDERS),
        more_failures=more_failures,
        refusals=[(row, sentence_at(row.code, row.path)) for row in refusals],
        more_refusals=more_refusals,
        days=DAYS,
        stale=await visit.read(stale_since, _VIEWS),
    )


@page("/errors/{code}/", roles=EVERYBODY)
async def error_code(visit: Visit) -> Response:
    """Show the meaning of a code, its rules, and the numbers of its failures by field and supplier."""
    entry = _CODES.get(visit.path("code"))
    if entry is None:
        raise not_found()
    _, chosen = await _suppliers(visit)
    query = partial(failure_counts, suppliers=chosen, today=_today(), days=DAYS, code=entry.code)
    kind = tuple[NumberKey, NumberKey, TextKey, TextKey, TextKey]
    failures, more = await page_of(visit, "after", query, kind, AT_ONCE)
    return visit.render(
        "error_code.html",
        entry=entry,
        failures=[(row, _links_of_row(row)) for row in failures],
        more=more,
        days=DAYS,
        stale=await visit.read(stale_since, _VIEWS),
        address=f"{ROOT}/imports/{Filter(code=entry.code).query()}",
    )


def _shown_cause(visit: Visit, cause: FailureCause) -> dict[str, Any]:
    """Return the cause with its sentence, and the text for the importers of its accounts."""
    says, formats = sentence_at(cause.code, cause.path), Formats(visit.language)
    number = formats.number(cause.open)
    text = text_about_cause(cause.suppliers, number, cause.code, cause.path, says, visit._, formats.sentence)
    return msgspec.structs.asdict(cause) | {"sentence": says, "text": text}


def supplier_chips(visit: Visit, codes: Sequence[str]) -> list[tuple[str, None, str, bool]]:
    """Return the suppliers as chips (name, no number, address on this page, is chosen); no chips for a single supplier
    or too many suppliers.
    """
    if not 1 < len(codes) <= MAX_CHIPS:
        return []
    chosen, here = visit.query("supplier"), visit.request.url.path
    named = [("", visit._("All suppliers")), *((code, code) for code in codes)]
    return [(name, None, f"{here}?{urlencode({'supplier': code})}", code == chosen) for code, name in named]


def _today() -> date:
    return now().astimezone(MARKET_TIME).date()


def _links_of_row(row: FailureCount) -> dict[str, str]:
    """Return the addresses of the accounts that still fail, and of the accounts that were fixed."""
    listed = Filter(supplier=row.supplier, code=row.code, path=row.path)
    return {name: f"{ROOT}/imports/{listed.query(fixed=fixed)}" for name, fixed in (("open", "no"), ("fixed", "yes"))}


def _links(visit: Visit, cause: FailureCause, chosen: Sequence[str]) -> dict[str, Any]:
    """Return the addresses of a cause's accounts, of their list as CSV, and of the code; and the filter as fields."""
    suppliers = chosen if visit.query("supplier") else cause.suppliers
    listed = Filter(supplier=suppliers[0] if len(suppliers) == 1 else "", code=cause.code, path=cause.path, fixed="no")
    return {
        "open": f"{ROOT}/imports/{listed.query()}",
        "fixed": f"{ROOT}/imports/{listed.query(fixed='yes')}",
        "csv": f"{ROOT}/imports/export/{listed.query()}",
        "code": f"{ROOT}/errors/{segment(cause.code)}/",
        "fields": listed.fields,
    }


async def _suppliers(visit: Visit) -> tuple[list[str], list[str]]:
    """Return the codes of all suppliers that the user sees, and of the suppliers that the filter selects."""
    codes = await visit.read(supplier_codes, visit.person.listed_reach)
    chosen = visit.query("supplier")
    return codes, [code for code in codes if chosen in ("", code)]
