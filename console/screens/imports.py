"""The list of imports, with filters, bulk actions and an export as CSV."""

import zlib
from base64 import b64decode, b64encode
from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec
from starlette.responses import Response

from api.description.problem_sentences import sentence_at
from api.http.errors import not_found
from console.access.people import DECIDERS, EVERYBODY
from console.access.requests import request_task, requested_notice
from console.access.visit import ROOT, Visit, action, page
from console.presentation.formats import Formats
from console.presentation.listing import (
    NAMES,
    SEARCH,
    Filter,
    csv_in,
    hidden,
    import_address,
    problem_of_row,
    revealed,
)
from console.presentation.names import NAMES as NAMES_OF
from console.presentation.rendering import segment
from console.presentation.texts import N_
from console.screens.paging import invalid_key
from eventstore.aggregates.aggregate import Command
from eventstore.aggregates.import_process import STATUSES, CancelImport, RetryImport, stream_of
from eventstore.aggregates.owner_task import OwnerTaskKind
from eventstore.clock import now
from projections.auxiliary.refused_attempts import refused_attempts
from projections.queries.import_list import (
    ListedRow,
    ListFilter,
    ListPage,
    imports_by_name,
    list_imports,
    names_of_imports,
    row_details,
)
from projections.queries.supplier_overview import counts_by_status, supplier_codes
from projections.versions.overview import Stale, stale_since
from projections.views.account_search import ACCOUNT_SEARCH
from projections.views.import_failure import IMPORT_FAILURE
from projections.views.import_run import IMPORT_RUN, run_state
from redaction.masking import mask_name, mask_postcode
from schemas.run import RunRecord
from workers.operations import packed
from workers.proposals import MANY

MOST_AT_ONCE = 10_000
"""Imports per bulk action. The command line has no limit."""
AT_ONCE = 500
"""Imports per transaction."""
MAX_LINES = 100
"""Commands shown per bulk action."""
EXPORTED_AT_ONCE = 1_000
MAX_ADDRESS = 6_000
"""Characters of an encrypted selection in an address. The server refuses addresses of more than 8 KiB."""
_WITHIN_S = 30.0
_UNREADABLE = N_(
    "The filter or the selection in the address cannot be read, for example because it is of an earlier session. "
    "Open the list, and filter and select again."
)


ACTIONS: dict[str, tuple[type[RetryImport | CancelImport], str]] = {
    "retry": (RetryImport, "ERRORED"),
    "cancel": (CancelImport, "PENDING"),
}
"""Bulk actions by name: the command, and the status that imports must have."""


@page("/imports/", roles=EVERYBODY, nav=N_("Imports"))
async def imports(visit: Visit) -> Response:
    """Show a page of the list."""
    chosen, after = _filter_of_address(visit), visit.query("after")
    codes = await _codes(visit)
    suppliers = [code for code in codes if chosen.supplier in ("", code)]
    listed = await _page(visit, chosen.restricted_to(codes), after)
    attempts: dict[str, Any] = {}
    if chosen.q and not after:
        for attempt in await visit.read(refused_attempts, chosen.q, suppliers):
            attempts.setdefault(attempt.supplier, attempt)  # the newest import is first
    run = await _run(visit, suppliers, chosen.run) if chosen.run else None
    counts = await _counts(visit, chosen, codes, run)
    return visit.render(
        "imports.html",
        chosen=chosen,
        fields=chosen.fields,
        codes=codes,
        rows=await _shown_rows(visit, listed.imports),
        chips=_chips(visit, chosen, codes, counts),
        total=sum(counts.get((chosen.supplier, status), 0) for status in STATUSES if chosen.status in ("", status))
        if counts
        else None,
        attempts=[
            (row, import_address(row.supplier, row.external_account_number), sentence_at(row.code, ""))
            for row in attempts.values()
        ],
        run=run,
        next_page=chosen.query(after=listed.next_after) if listed.next_after else "",
        is_first=not after,
        stale=await _stale(visit, chosen),
        may_decide=visit.person.may(DECIDERS),
    )


class ShownRow(msgspec.Struct, frozen=True, kw_only=True):
    """An import in the list with its masked person and place, and its newest run."""

    row: ListedRow
    address: str
    person: str
    place: str
    sentence: str
    run: str
    run_address: str


async def _shown_rows(visit: Visit, rows: Sequence[ListedRow]) -> list[ShownRow]:
    """Return the rows as the page shows them."""
    details = await visit.read(row_details, rows)
    shown = []
    for row in rows:
        detail = details[stream_of(row.supplier, row.external_account_number)]
        shown.append(
            ShownRow(
                row=row,
                address=import_address(row.supplier, row.external_account_number),
                person=mask_name(detail.names.title()),
                place=mask_postcode(detail.postcode),
                sentence=problem_of_row(row),
                run=detail.run,
                run_address=f"{ROOT}/runs/{segment(row.supplier)}/{segment(detail.run)}/",
            )
        )
    return shown


Counts = dict[tuple[str, str], int]
"""Numbers of imports by supplier, "" for all, and status."""


async def _counts(visit: Visit, chosen: Filter, codes: Sequence[str], run: RunRecord | None) -> Counts:
    """Return the numbers of imports; empty if the filter has other fields than supplier and status, or than a run."""
    if run is not None and not (chosen.code or chosen.day or chosen.q):
        by_supplier = {run.import_supplier: run.by_status}
    elif any(getattr(chosen, name) for name in NAMES if name not in ("supplier", "status")):
        return {}
    else:
        by_supplier = await visit.read(counts_by_status, codes)
    counts: Counts = {}
    for code, by_status in by_supplier.items():
        for status, number in by_status.items():
            for key in ((code, status), ("", status)):
                counts[key] = counts.get(key, 0) + number
    return counts


MAX_CHIPS = 12
"""Most suppliers that are shown as chips. With more suppliers, the user types or selects a supplier."""


def _chips(visit: Visit, chosen: Filter, codes: Sequence[str], counts: Counts) -> dict[str, Any]:
    """Return the chips of statuses and suppliers as (name, number, address, is chosen), and chips of other filters."""

    def number(supplier: str, status: str) -> int | None:
        wanted = STATUSES if not status else (status,)
        return sum(counts.get((supplier, status), 0) for status in wanted) if counts else None

    def address(**changes: str) -> str:
        return f"{ROOT}/imports/{msgspec.structs.replace(chosen, **changes).query()}"

    names = NAMES_OF["state_names"]
    statuses = [("", visit._("All")), *((status, visit._(names[status])) for status in STATUSES)]
    shown = [(status, name) for status, name in statuses if not counts or number(chosen.supplier, status)]
    suppliers = [("", visit._("All suppliers")), *((code, code) for code in codes)]
    others = [(name, getattr(chosen, name), address(**{name: ""})) for name in ("code", "path", "run", "day")]
    return {
        "statuses": [
            (name, number(chosen.supplier, status), address(status=status), status == chosen.status)
            for status, name in shown
        ],
        "suppliers": [
            (name, number(code, chosen.status), address(supplier=code), code == chosen.supplier)
            for code, name in suppliers
        ]
        if 1 < len(codes) <= MAX_CHIPS
        else [],
        "others": [other for other in others if other[1]],
        "without_text": address(q="", search=""),
        "without_fixed": address(fixed=""),
    }


async def _stale(visit: Visit, chosen: Filter) -> Stale | None:
    """Return the lag of the views that the filter needs; None if the filter needs no such view."""
    needed = {ACCOUNT_SEARCH: chosen.q, IMPORT_RUN: chosen.run, IMPORT_FAILURE: chosen.code or chosen.path}
    views = [view for view, value in needed.items() if value]
    return await visit.read(stale_since, views) if views else None


async def _run(visit: Visit, suppliers: Sequence[str], run: str) -> RunRecord | None:
    """Return the record of the run in the filter, if the filter selects one supplier."""
    state = await visit.read(run_state, suppliers[0], run) if len(suppliers) == 1 else None
    return state.record if state else None


@action("/imports/find/", roles=EVERYBODY)
async def find(visit: Visit) -> Response:
    """Redirect to the list with the filter of the form."""
    return visit.redirect(f"{ROOT}/imports/{_filter_of_form(visit).query()}")


def _filter_of_address(visit: Visit) -> Filter:
    search = visit.query(SEARCH)
    return Filter.of(dict(visit.request.query_params) | {"q": revealed(search, visit.token)}, search)


def _exact_filter(visit: Visit) -> Filter:
    """Return the filter of the address. Raises ApiError 400 if a part of it would be ignored."""
    listed = _filter_of_address(visit)
    if listed.misread:
        raise visit.refusal(400, _UNREADABLE)
    return listed


def _selected(visit: Visit) -> list[str]:
    """Return the names of the selected imports. Raises ApiError 400 for a selection of another session."""
    selected = visit.query("chosen")
    if not selected:
        return []
    try:
        return zlib.decompress(b64decode(revealed(selected, visit.token))).decode().split("\n")
    except (ValueError, zlib.error):
        raise visit.refusal(400, _UNREADABLE) from None


def _filter_of_form(visit: Visit) -> Filter:
    text = visit.form.text("q")
    search = hidden(text, visit.token) if text else ""
    return Filter.of({name: visit.form.text(name) for name in NAMES}, search)


@page("/imports/export/", roles=EVERYBODY)
async def export_list(visit: Visit) -> Response:
    """Return the whole list as CSV."""
    query = partial(_export_page, criteria=_exact_filter(visit).restricted_to(await _codes(visit)))
    headers = {"Content-Disposition": 'attachment; filename="imports.csv"'}
    return await visit.services.lists.answer(visit, query, "", csv_in(visit.language), headers)


async def _export_page(connection: Any, after: str, criteria: ListFilter) -> tuple[Sequence[ListedRow], str | None]:
    listed = await list_imports(connection, criteria, after=after, limit=EXPORTED_AT_ONCE)
    return listed.imports, listed.next_after or None


@action("/imports/decide/", roles=DECIDERS)
async def choose(visit: Visit) -> Response:
    """Redirect to the preview of the bulk action. The address contains selection and search text encrypted."""
    listed, is_whole, names = _filter_of_form(visit), visit.form.text("scope") == "all", visit.form.all("chosen")
    if visit.form.text("verb") not in ACTIONS:
        raise not_found()
    if not is_whole and not names:
        notice = visit._("Nothing was selected. Select imports, or all imports that fit the filter.")
        return visit.redirect(f"{ROOT}/imports/{listed.query()}", notice=notice)
    selected = "" if is_whole else hidden(b64encode(zlib.compress("\n".join(names).encode())).decode(), visit.token)
    if len(selected) > MAX_ADDRESS:
        raise visit.refusal(400, N_("Too many imports are selected. Select fewer, or all that fit the filter."))
    more = {"verb": visit.form.text("verb"), "scope": "all" if is_whole else "", "chosen": selected}
    return visit.redirect(f"{ROOT}/imports/decide/{listed.query(**more)}")


@page("/imports/decide/", roles=DECIDERS)
async def preview(visit: Visit) -> Response:
    """Show the number of imports before the bulk action, and a command that does the same."""
    verb, listed, is_whole = visit.query("verb", "retry"), _exact_filter(visit), visit.query("scope") == "all"
    names = [] if is_whole else _selected(visit)
    chosen = await _selection(visit, verb, listed, None if is_whole else names)
    is_plain = not (listed.run or listed.day or listed.q or listed.path or listed.fixed)
    return visit.render(
        "imports_decide.html",
        verb=verb,
        listed=listed,
        fields=listed.fields,
        chosen=[] if is_whole else names,
        is_whole=is_whole,
        number=len(chosen),
        is_proposal=len(chosen) > MANY and verb in visit.console.settings.four_eyes,
        is_cut=len(chosen) == MOST_AT_ONCE,
        most=MOST_AT_ONCE,
        examples=[(name, import_address(*name)) for name in chosen[:5]],
        is_one_command=is_whole and listed.supplier and is_plain and (verb == "retry" or not listed.code),
        commands=chosen[:MAX_LINES],
    )


@action("/imports/decided/", roles=DECIDERS)
async def decide(visit: Visit) -> Response:
    """Execute the bulk action in several short transactions."""
    reason = visit.reason()
    verb, listed, is_whole = visit.form.text("verb"), _filter_of_form(visit), visit.form.text("scope") == "all"
    chosen = await _selection(visit, verb, listed, None if is_whole else visit.form.all("chosen"))
    kind: OwnerTaskKind = "retry" if verb == "retry" else "cancel"
    if len(chosen) > MANY and kind in visit.console.settings.four_eyes:
        if len({code for code, _ in chosen}) > 1:
            raise visit.refusal(400, N_("A proposal must concern one supplier only. Select imports of one supplier."))
        arguments = {"supplier": chosen[0][0], "accounts": packed([external for _, external in chosen])}
        await request_task(visit, kind, arguments, reason)
        return visit.redirect(f"{ROOT}/imports/{listed.query()}", notice=requested_notice(visit, kind))
    changed = 0
    for start in range(0, len(chosen), AT_ONCE):
        streams = [stream_of(*name) for name in chosen[start : start + AT_ONCE]]
        commands: dict[str, Command] = dict.fromkeys(streams, ACTIONS[verb][0](reason=reason))
        execute = visit.services.ledger.execute_many
        outcomes = await visit.written_within(_WITHIN_S, execute, commands, at=now(), by=visit.person.by)
        changed += sum(outcome.recorded is not None for outcome in outcomes)
    is_retry = verb == "retry"
    notice = N_("Imports that are processed again: %(number)s.") if is_retry else N_("Cancelled imports: %(number)s.")
    shown = Formats(visit.language).number(changed)
    return visit.redirect(f"{ROOT}/imports/{listed.query()}", notice=visit._(notice, number=shown))


async def _selection(visit: Visit, verb: str, listed: Filter, chosen: list[str] | None) -> list[tuple[str, str]]:
    """Return the imports of the action: chosen imports, or all imports of the filter. Raises ApiError 404."""
    if verb not in ACTIONS:
        raise not_found()
    status = ACTIONS[verb][1]
    if chosen is None:
        return await _matching(visit, status, listed)
    names = [value.partition("/")[::2] for value in chosen]
    own = [(code, external) for code, external in names if external and visit.person.may_touch(code)][:MOST_AT_ONCE]
    rows: Sequence[ListedRow] = await visit.read(imports_by_name, own)
    return [(row.supplier, row.external_account_number) for row in rows if row.status == status]


async def _matching(visit: Visit, status: str, listed: Filter) -> list[tuple[str, str]]:
    """Return at most MOST_AT_ONCE imports that match the filter and have the status of the action."""
    if listed.status not in ("", status):
        return []
    criteria = msgspec.structs.replace(listed, status=status).restricted_to(await _codes(visit))
    return await visit.read(partial(names_of_imports, most=MOST_AT_ONCE), criteria)


async def _page(visit: Visit, criteria: ListFilter, after: str) -> ListPage:
    try:
        return await visit.read(partial(list_imports, list_filter=criteria, after=after))
    except ValueError as error:
        raise invalid_key(visit, "after") from error


async def _codes(visit: Visit) -> list[str]:
    return await visit.read(supplier_codes, visit.person.listed_reach)
