"""The list of imports: found and narrowed by everything, decided about many at once, taken along as CSV."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec
from starlette.responses import Response

from api.http.database import in_time
from api.http.errors import not_found, query_not_valid
from console.access.people import EVERYBODY, MENDERS
from console.access.visit import ROOT, Visit, action, page
from console.presentation.listing import CSV, NAMES, SEARCH, Asked, command_line, import_address
from console.presentation.texts import N_
from console.presentation.timeline import STATE_NAMES, STATE_TONES
from console.screens.paging import no_place
from eventstore.aggregates.aggregate import Command
from eventstore.aggregates.import_process import CancelImport, RetryImport, stream_of
from eventstore.clock import now
from projections.queries.import_list import ListedRow, ListPage, Narrowed, imports_named, list_imports
from projections.queries.supplier_overview import supplier_codes
from projections.unlogged.refused_attempts import attempts_of_number
from projections.unlogged.typed_reasons import MAX_REASON
from projections.views.import_run import run_state
from schemas.base import Problem
from schemas.run import RunRecord
from schemas.sentence import Sentence

MOST_AT_ONCE = 10_000
"""Imports that one form decides about; the command line takes any number."""
AT_ONCE = 500
MAX_LINES = 100
"""Commands that are shown."""
EXPORTED_AT_ONCE = 1_000
_WITHIN_S = 30.0

_NO_REASON = Sentence("Say why.", "Bitte einen Grund angeben.")


class Verb(msgspec.Struct, frozen=True):
    """What is decided about many imports: the state that they must be in, and what is said."""

    name: str
    status: str
    headline: str
    explains: str
    button: str
    done: str
    nothing: str

    def command(self, reason: str) -> Command:
        return RetryImport(reason=reason) if self.name == "retry" else CancelImport(reason=reason)


VERBS = {
    "retry": Verb(
        "retry",
        "ERRORED",
        N_("Retry failed imports"),
        N_("Each is processed once more, with what was sent last. Others are left as they are."),
        N_("Retry"),
        N_("%(number)s imports are processed again."),
        N_("None of these imports has failed, so there is nothing to retry."),
    ),
    "cancel": Verb(
        "cancel",
        "PENDING",
        N_("Cancel waiting imports"),
        N_("They are not processed, until the importer sends them again. Others are left as they are."),
        N_("Cancel imports"),
        N_("%(number)s imports are cancelled."),
        N_("None of these imports is waiting, so there is nothing to cancel."),
    ),
}


@page("/imports/", roles=EVERYBODY, nav=N_("Imports"))
async def imports(visit: Visit) -> Response:
    """A page of the list."""
    asked = _asked(visit)
    codes = await _codes(visit)
    suppliers = [code for code in codes if not asked.supplier or code == asked.supplier]
    listed = await _page(visit, asked.narrowed(codes), visit.query("after"))
    attempts = []
    if asked.q and not visit.query("after"):
        attempts = await visit.read(attempts_of_number, asked.q, suppliers)
    return visit.render(
        "imports.html",
        asked=asked,
        fields=_fields(asked),
        codes=codes,
        states=[(state, visit._(name)) for state, name in STATE_NAMES.items()],
        tones=STATE_TONES,
        rows=[(row, import_address(row.supplier, row.external_account_number)) for row in listed.imports],
        attempts=[(one, import_address(one.supplier, one.external_account_number)) for one in _last(attempts)],
        run=await _run(visit, suppliers, asked.run) if asked.run and not visit.query("after") else None,
        next_page=asked.query(after=listed.next_after) if listed.next_after else "",
        is_first=not visit.query("after"),
        first_page=asked.query(),
        export=f"{ROOT}/imports/export/{asked.query()}",
        may_mend=visit.person.may(MENDERS),
        search_line=command_line("search", asked.q) if asked.q else "",
    )


async def _run(visit: Visit, suppliers: Sequence[str], run: str) -> RunRecord | None:
    """The record of the run that the list is narrowed to, once one supplier is left."""
    if len(suppliers) != 1:
        return None
    state = await visit.read(run_state, suppliers[0], run)
    return state.record if state else None


@action("/imports/find/", roles=EVERYBODY)
async def find(visit: Visit) -> Response:
    """Lead to the list that the form asks for."""
    return visit.redirect(f"{ROOT}/imports/{_asked_by_form(visit).query()}")


def _asked(visit: Visit) -> Asked:
    """The list that the address asks for."""
    search = visit.query(SEARCH)
    return Asked.of(dict(visit.request.query_params) | {"q": visit.revealed(search)}, search)


def _asked_by_form(visit: Visit) -> Asked:
    """The list that the form asks for."""
    text = visit.form.text("q")
    return Asked.of({name: visit.form.text(name) for name in NAMES}, visit.hidden(text))


@page("/imports/export/", roles=EVERYBODY)
async def export_list(visit: Visit) -> Response:
    """Return the whole list as CSV."""
    narrowed = _asked(visit).narrowed(await _codes(visit))
    headers = {"Content-Disposition": 'attachment; filename="imports.csv"'}
    query = partial(_export_page, narrowed=narrowed)
    return await visit.services.lists.answer(visit, query, "", CSV, headers)


async def _export_page(connection: Any, after: str, narrowed: Narrowed) -> tuple[Sequence[ListedRow], str | None]:
    listed = await list_imports(connection, narrowed, after=after, limit=EXPORTED_AT_ONCE)
    return listed.imports, listed.next_after or None


@action("/imports/decide/", roles=MENDERS)
async def preview(visit: Visit) -> Response:
    """What would be decided: about how many imports, and the command that does the same."""
    verb, asked, chosen = await _selection(visit)
    names = visit.form.all("chosen")
    is_whole = visit.form.text("scope") == "all"
    lines = _lines(verb, asked, chosen, is_whole=is_whole)
    return visit.render(
        "imports_decide.html",
        verb=verb,
        asked=asked,
        fields=_fields(asked),
        chosen=[] if is_whole else names,
        is_whole=is_whole,
        number=len(chosen),
        is_cut=len(chosen) == MOST_AT_ONCE,
        most=MOST_AT_ONCE,
        examples=[(one, import_address(*one)) for one in chosen[:5]],
        lines=lines,
        left_lines=0 if is_whole and len(lines) == 1 else len(chosen) - len(lines),
        headline=visit._(verb.headline),
        explains=visit._(verb.explains),
        nothing=visit._(verb.nothing),
        button=visit._(verb.button),
    )


@action("/imports/decided/", roles=MENDERS)
async def decide(visit: Visit) -> Response:
    """Do it, in parts, so that no transaction is long."""
    reason = visit.form.text("reason")[:MAX_REASON]
    if not reason:
        raise query_not_valid(Problem("reason", "required", _NO_REASON))
    verb, asked, chosen = await _selection(visit)
    changed = 0
    for start in range(0, len(chosen), AT_ONCE):
        streams = [stream_of(*one) for one in chosen[start : start + AT_ONCE]]
        commands = dict.fromkeys(streams, verb.command(reason))
        deciding = asyncio.to_thread(visit.services.ledger.execute_many, commands, at=now(), by=visit.person.by)
        outcomes = await in_time(deciding, within_s=_WITHIN_S)
        changed += sum(outcome.recorded is not None for outcome in outcomes)
    notice = visit._(verb.done, number=changed)
    return visit.redirect(f"{ROOT}/imports/{asked.query()}", notice=notice)


async def _selection(visit: Visit) -> tuple[Verb, Asked, list[tuple[str, str]]]:
    """The verb, the list, and the imports of it that the verb concerns. Raises ApiError 404."""
    verb = VERBS.get(visit.form.text("verb"))
    if verb is None:
        raise not_found()
    asked = _asked_by_form(visit)
    if visit.form.text("scope") == "all":
        return verb, asked, await _matching(visit, verb, asked)
    names = [tuple(one.split("/", 1)) for one in visit.form.all("chosen") if "/" in one]
    mine = [(code, external) for code, external in names if visit.person.may_touch(code)][:MOST_AT_ONCE]
    rows: Sequence[ListedRow] = await visit.read(imports_named, mine)
    return verb, asked, [(row.supplier, row.external_account_number) for row in rows if row.status == verb.status]


async def _matching(visit: Visit, verb: Verb, asked: Asked) -> list[tuple[str, str]]:
    """All of the list that are in the verb's state, 10,000 at most."""
    if asked.status not in ("", verb.status):
        return []
    narrowed = msgspec.structs.replace(asked, status=verb.status).narrowed(await _codes(visit))
    chosen: list[tuple[str, str]] = []
    after: str | None = ""
    while len(chosen) < MOST_AT_ONCE and after is not None:
        rows, after = await visit.read(_export_page, after, narrowed)
        chosen += [(row.supplier, row.external_account_number) for row in rows]
    return chosen[:MOST_AT_ONCE]


def _lines(verb: Verb, asked: Asked, chosen: Sequence[tuple[str, str]], *, is_whole: bool) -> list[str]:
    """The commands that do the same: one for the whole of a supplier, or for a code, where there is such a command.

    Otherwise one for each import, as many as are shown.
    """
    is_plain = not (asked.run or asked.day or asked.q or asked.path or asked.mended)
    if is_whole and asked.supplier and is_plain and not asked.code:
        return [command_line(verb.name, asked.supplier, "--all", "--reason", "…")]
    if is_whole and asked.supplier and is_plain and verb.name == "retry":
        return [command_line("retry", asked.supplier, "--code", asked.code, "--reason", "…")]
    return [command_line(verb.name, *one, "--reason", "…") for one in chosen[:MAX_LINES]]


async def _page(visit: Visit, narrowed: Narrowed, after: str) -> ListPage:
    async def asked(connection: Any) -> ListPage:
        return await list_imports(connection, narrowed, after=after)

    try:
        return await visit.read(asked)
    except ValueError as error:
        raise no_place("after") from error


async def _codes(visit: Visit) -> list[str]:
    reach = visit.person.reach
    return await visit.read(supplier_codes, None if reach is None else sorted(reach))


def _fields(asked: Asked) -> list[tuple[str, str]]:
    """What a form says of the list, so that what it is sent for is about the same imports."""
    return [(name, getattr(asked, name)) for name in NAMES if getattr(asked, name)]


def _last(attempts: Sequence[Any]) -> list[Any]:
    """The newest attempt of each supplier."""
    newest: dict[str, Any] = {}
    for one in attempts:
        newest.setdefault(one.supplier, one)
    return list(newest.values())


SCREENS = (imports, find, export_list, preview, decide)
