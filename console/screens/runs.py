"""Runs: progress, problems and results of accounts that were sent under one name, and remedies."""

import asyncio
import base64
import time
import zlib
from datetime import datetime
from functools import partial
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from api.description.problem_sentences import sentence_at
from api.endpoints.reconciling import CHECK_EVERY_S, WAIT_S, Reconciling, source_manifest, unbalanced
from api.http.body_checks import run_on_body
from api.http.database import in_thread
from api.http.errors import not_found
from console.access.people import DECIDERS, EVERYBODY, OPERATORS
from console.access.visit import ROOT, Visit, action, page
from console.presentation.formats import Formats
from console.presentation.listing import Filter, hidden, revealed
from console.presentation.rendering import segment
from console.presentation.texts import N_
from console.screens.errors import supplier_chips
from console.screens.paging import TextKey, page_of
from eventstore.aggregates.import_process import STATUSES
from projections.platform.totals import Totals
from projections.queries.run_differences import altered_accounts
from projections.queries.supplier_overview import supplier_codes
from projections.versions.overview import stale_since
from projections.views.account_release import run_released_at
from projections.views.import_run import IMPORT_RUN, RunState, count_runs, newest_runs, run_state
from schemas.base import Problem
from schemas.run import RunRecord

AT_ONCE = 50
MAX_PROBLEMS = 100
"""Problems shown of a run, the most frequent first."""
MAX_DIFFERENCES = 20
"""Differences in an address, encrypted."""
BUCKET = "buckets."
"""Beginning of the places of groups of accounts in a comparison."""
Share = tuple[str, int, float]


@page("/runs/", roles=EVERYBODY, nav=N_("Runs"))
async def run_list(visit: Visit) -> Response:
    """List the runs of the suppliers that the user sees, the newest first."""
    codes = await visit.read(supplier_codes, visit.person.listed_reach)
    chosen = visit.query("supplier")
    suppliers = [code for code in codes if chosen in ("", code)]
    query = partial(newest_runs, suppliers=suppliers)
    states, more = await page_of(visit, "before", query, tuple[datetime, TextKey, TextKey], AT_ONCE)
    return visit.render(
        "runs.html",
        runs=[(state, _shares(state.record), _failures(state.record)) for state in states],
        more=more,
        total=await visit.read(count_runs, suppliers),
        codes=codes,
        chips=supplier_chips(visit, codes),
        supplier=chosen,
        stale=await visit.read(stale_since, (IMPORT_RUN,)),
    )


@page("/runs/{supplier}/{run}/", roles=EVERYBODY)
async def run_page(visit: Visit) -> Response:
    """Show a run: its progress, its problems, and the operations on its accounts."""
    state = await _state(visit)
    record = state.record
    listed = Filter(supplier=record.import_supplier, run=record.run)
    response = visit.render(
        "run.html",
        state=state,
        run=record,
        shares=_shares(record),
        failures=_failures(record),
        imports=[
            (status, number, f"{ROOT}/imports/{listed.query(status=status)}") for status, number, _ in _shares(record)
        ],
        imports_address=f"{ROOT}/imports/{listed.query()}",
        failures_address=f"{ROOT}/imports/export/{listed.query(status='ERRORED')}",
        problems=[(error, sentence_at(error.code, error.path)) for error in record.errors[:MAX_PROBLEMS]],
        warnings=[(error, sentence_at(error.code, error.path)) for error in record.warnings[:MAX_PROBLEMS]],
        released_at=await visit.read(run_released_at, record.import_supplier, record.run),
        may_decide=visit.person.may(DECIDERS),
        may_operate=visit.person.may(OPERATORS),
        compared=_compared(visit),
        stale=await visit.read(stale_since, (IMPORT_RUN,)),
    )
    return visit.live(response, "live", is_live=state.is_waiting)


@action("/runs/{supplier}/{run}/compare/", roles=DECIDERS)
async def compare_run(visit: Visit) -> Response:
    """Compare a manifest of the source with the platform.

    The page shows the differences, or a certificate if there are no differences. While a worker adds up the run, the
    page shows the progress.
    """
    state = await _state(visit)
    here, body = (
        f"{ROOT}/runs/{segment(visit.path('supplier'))}/{segment(visit.path('run'))}/",
        visit.form.secret("file"),
    )
    reconciling, manifest = (
        Reconciling(visit.services),
        await run_on_body(body.encode(), source_manifest, body.encode()),
    )
    is_certificate = bool(visit.form.text("certificate"))
    job = await reconciling.job(state, is_present=is_certificate)
    deadline = time.monotonic() + WAIT_S
    while not job.has_ended and time.monotonic() < deadline:
        await asyncio.sleep(CHECK_EVERY_S)
        job = await reconciling.job(state, is_present=is_certificate)
    if not job.has_ended or job.error:
        shown = Formats(visit.language).number
        text = N_(
            "The accounts of the run are being added up: %(done)s of %(total)s are done. "
            "Send the manifest again in a moment."
        )
        values = {"done": shown(job.accounts_done), "total": shown(job.accounts)}
        return visit.redirect(here, notice=visit._(text, **values))
    totals = await reconciling.record(state, msgspec.json.decode(job.totals, type=Totals))
    unequal = await run_on_body(body.encode(), unbalanced, manifest, totals)
    if is_certificate and not unequal:
        certificate = await reconciling.certified(state, manifest, totals, visit.organisation)
        certificate.headers["Content-Disposition"] = 'attachment; filename="certificate.json"'
        return certificate
    sentences = await _sentences(visit, unequal)
    found = base64.b64encode(zlib.compress(msgspec.json.encode((len(sentences), sentences[:MAX_DIFFERENCES])))).decode()
    return visit.redirect(f"{here}?{urlencode({'compared': hidden(found, visit.token)})}#compared")


async def _sentences(visit: Visit, unequal: list[Problem]) -> list[tuple[str, str]]:
    """Return places and sentences of the differences. Accounts that the platform has altered are first, by number."""
    buckets = [problem.attr.removeprefix(BUCKET) for problem in unequal if problem.attr.startswith(BUCKET)]
    sentences = [
        (problem.attr, Formats(visit.language).sentence(problem.detail))
        for problem in unequal
        if not problem.attr.startswith(BUCKET)
    ]
    if not buckets:
        return sentences
    supplier, run = visit.path("supplier"), visit.path("run")
    altered = await in_thread(altered_accounts, visit.services.ledger, supplier, run, buckets)
    text = visit._(
        N_("The platform has lost or altered this account. Rebuild the account's views on the page of the account.")
    )
    places = visit._(
        N_(
            "Accounts differ in %(shown)s of 4,096 groups of accounts. "
            "The command `importbook reconcile` lists the accounts that differ."
        ),
        shown=Formats(visit.language).number(len(buckets)),
    )
    return [*((external, text) for external in altered), ("buckets", places), *sentences]


def _compared(visit: Visit) -> tuple[int, list[tuple[str, str]]] | None:
    """Return the number of differences in the address, and the first differences; None for an address without
    differences.
    """
    text = revealed(visit.query("compared"), visit.token)
    try:
        return msgspec.json.decode(zlib.decompress(base64.b64decode(text)), type=tuple[int, list[tuple[str, str]]])
    except (ValueError, zlib.error, msgspec.DecodeError):  # no text, or another encrypted text of the session
        return None


async def _state(visit: Visit) -> RunState:
    state = await visit.read(run_state, visit.path("supplier"), visit.path("run"))
    if state is None:
        raise not_found()
    return state


def _shares(record: RunRecord) -> list[Share]:
    """Return (status, number, share) of each status with imports, in the order of a process."""
    present = [(status, record.by_status.get(status, 0)) for status in STATUSES]
    return [(status, number, number / record.total) for status, number in present if number]


def _failures(record: RunRecord) -> int:
    return sum(record.by_status.get(status, 0) for status in ("ERRORED", "DRY_RUN_ERRORED"))
