"""One import: its status, history, problems, payloads and platform records."""

import re
from datetime import datetime
from functools import partial
from typing import Annotated, Any
from urllib.parse import urlencode

import msgspec
from msgspec import Meta
from starlette.responses import Response

from api.description.problem_sentences import problem_of, sentence_at
from api.endpoints.history_queries import as_of
from api.endpoints.problem_queries import import_problems, missing_paths, naming_paths
from api.http.body_checks import run_on_body
from api.http.errors import not_found
from api.http.limits import MAX_ANSWER_BYTES
from console.access.people import DECIDERS, EVERYBODY, OPERATORS, READERS
from console.access.requests import request_task, requested_notice
from console.access.visit import ROOT, Visit, action, page
from console.presentation.formats import Formats
from console.presentation.importer_text import text_about_account
from console.presentation.listing import import_address
from console.presentation.names import NAMES
from console.presentation.payload_tree import (
    PayloadTree,
    naming_person,
    payload_tree,
    person_in,
    shown_value,
    values_at,
)
from console.presentation.rendering import segment
from console.presentation.texts import N_
from console.presentation.timeline import WITH_REASON, Step, actor, step_of, waits_for
from console.screens.paging import NumberKey, Pages, TextKey, invalid_key, key_in, page_of, pages
from console.screens.personal_data import is_shown
from console.screens.tasks import shown_tasks
from eventstore.aggregates.aggregate import Command
from eventstore.aggregates.import_process import (
    CancelImport,
    ImportPostponed,
    ImportStaged,
    ImportStarted,
    RetryImport,
    SubjectErased,
    stream_of,
)
from eventstore.aggregates.owner_task import OwnerTaskKind
from eventstore.clock import now
from eventstore.errors import IllegalTransition
from eventstore.events import Recorded, Unreadable
from projections.auxiliary.refused_attempts import refused_attempts
from projections.auxiliary.typed_reasons import texts_of
from projections.auxiliary.user_details import details_of
from projections.queries.account_parts import PAGE, attached_records, platform_records, seal_over
from projections.queries.history import TimeLine, account_time_line, newest_of_import, status_record
from projections.queries.missing_documents import document_paths
from projections.views.account_release import account_released_at
from projections.views.owner_task import owner_tasks
from redaction.masking import masked_path, masked_tree
from schemas.base import MARKET_TIME
from schemas.difference import FieldChange, bounded_difference
from schemas.reading.work import COMPARISON_BOUNDS
from schemas.status import ImportProblems

EVENTS_AT_ONCE = 100
ATTEMPTS_AT_ONCE = 50
VERSIONS_AT_ONCE = 50
CHANGES_AT_ONCE = 200
"""Rows per page of each list."""
MAX_COMPARED = 10
"""Payloads with which reasons are compared. If an account has more payloads, all reasons are masked."""
_AFTER_ALL = 10**18
_IN_UTC = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,6})?Z")
_PATHS = {"reading": ("readings",)}
"""Paths in a payload of tables whose fields are masked by their path."""


TABS = {
    "history": N_("History"),
    "received": N_("Payload"),
    "platform": N_("Platform records"),
    "proof": N_("Proof"),
    "attached": N_("Attached records"),
}
"""Parts of the page, one at a time."""
_TAB_OF = {"rows-after": "platform", "records-after": "attached"} | dict.fromkeys(
    ("payload", "tree-after", "versions-before", "changes-after", "from", "to"), "received"
)
"""Part of the page by parameter of the address."""


def _tab(visit: Visit) -> str:
    """Return the part of the page that the address names, or to which its parameters belong."""
    tab = visit.query("tab")
    if tab == "proof" and not visit.person.may(READERS):
        return "history"
    return tab if tab in TABS else next((_TAB_OF[name] for name in _TAB_OF if visit.query(name)), "history")


def _tabs(visit: Visit, current: str) -> list[tuple[str, str, None, bool]]:
    """Return the parts of the page as (address, name, no number, is current)."""
    address = import_address(visit.path("supplier"), visit.path("external"))
    as_of = {"as_of": visit.query("as_of")} if visit.query("as_of") else {}
    return [
        (f"{address}?{urlencode({'tab': tab} | as_of)}", visit._(name), None, tab == current)
        for tab, name in TABS.items()
        if tab != "proof" or visit.person.may(READERS)
    ]


class TableKey(msgspec.Struct, frozen=True, array_like=True):
    """A platform table, and the key of the row before a page."""

    table: TextKey
    row: tuple[TextKey | Annotated[int, Meta(ge=0, lt=2**31)], ...]


class ImportHistory(msgspec.Struct, frozen=True):
    """The readable events of an import up to a position."""

    import_events: list[Recorded]

    @property
    def staged(self) -> list[Recorded]:
        """The events with a payload, newest first."""
        return [recorded for recorded in reversed(self.import_events) if isinstance(recorded.event, ImportStaged)]

    @property
    def is_erased(self) -> bool:
        return any(isinstance(recorded.event, SubjectErased) for recorded in self.import_events)

    @property
    def last_attempt(self) -> int | None:
        """Number of the newest attempt; None before the first attempt."""
        started = [
            recorded.event.attempt for recorded in self.import_events if isinstance(recorded.event, ImportStarted)
        ]
        return started[-1] if started else None


@page("/imports/{supplier}/{external}/", roles=EVERYBODY)
async def import_page(visit: Visit) -> Response:
    """Show an import, or the refused attempts of an account that was never accepted."""
    supplier, external = visit.path("supplier"), visit.path("external")
    entry = await visit.services.directory.supplier(supplier)
    if entry is None:
        raise not_found()
    whole = await _history_of(visit, supplier, external, None)
    query = partial(refused_attempts, external=external, suppliers=[supplier])
    rows, more_attempts = await page_of(
        visit, "attempts-before", query, NumberKey, ATTEMPTS_AT_ONCE, key_attribute="number", anchor="attempts"
    )
    attempts = [(row, sentence_at(row.code, ""), [problem_of(name) for name in row.problems]) for row in rows]
    common: dict[str, Any] = {
        "supplier": supplier,
        "external": external,
        "attempts": attempts,
        "more_attempts": more_attempts,
    }
    if whole.import_events:
        return await _accepted(visit, whole, entry.status, common)
    if not attempts:
        raise not_found()
    return visit.render("import_refused.html", **common, as_of="")


async def _accepted(visit: Visit, whole: ImportHistory, supplier_status: str, common: dict[str, Any]) -> Response:
    supplier, external = common["supplier"], common["external"]
    is_clear = await is_shown(visit, supplier, external)
    upto = await as_of(visit.services.pool, visit.request) if visit.query("as_of") else None
    history = whole if upto is None else await _history_of(visit, supplier, external, upto)
    record = status_record(history.import_events)
    if record is None:
        return visit.render("import_refused.html", **common, as_of=visit.query("as_of"))
    tab = _tab(visit)
    line, more_events = await _line(visit, supplier, external, upto)
    is_live = record.status in ("PENDING", "IN_PROGRESS") and upto is None
    tasks = await visit.read(owner_tasks, "", {"supplier": supplier, "external": external}, 5)
    number = record.service_identifier
    response = visit.render(
        "import.html",
        **common,
        **await _summary(visit, history, is_clear=is_clear),
        **await _part(visit, tab, history, number, is_clear=is_clear),
        entries=await _entries(visit, line.events, history, is_clear=is_clear) if tab == "history" else [],
        more_events=more_events,
        tab=tab,
        tabs=_tabs(visit, tab),
        address=import_address(supplier, external),
        record=record,
        waits=_waits(visit, history, record.status, supplier_status),
        attempt=history.last_attempt,
        is_live=is_live,
        as_of=visit.query("as_of"),
        is_erased=history.is_erased,
        is_clear=is_clear,
        released_at=await visit.read(account_released_at, supplier, external) if number and upto is None else None,
        seal=await visit.read(seal_over, line.last_as_of),
        tasks=await shown_tasks(visit, tasks),
        may_decide=visit.person.may(DECIDERS),
        may_operate=visit.person.may(OPERATORS),
    )
    response = visit.live(response, "tasks", is_live=any(task.is_open for task in tasks))
    return visit.live(response, "live", is_live=is_live)


@action("/imports/{supplier}/{external}/retry/", roles=DECIDERS)
async def retry_import(visit: Visit) -> Response:
    """Process the import again."""
    return await _decided(visit, RetryImport(reason=visit.reason()), visit._("The import is processed again."))


@action("/imports/{supplier}/{external}/cancel/", roles=DECIDERS)
async def cancel_import(visit: Visit) -> Response:
    """Cancel the import."""
    return await _decided(visit, CancelImport(reason=visit.reason()), visit._("The import was cancelled."))


@action("/imports/{supplier}/{external}/heal/", roles=OPERATORS)
async def heal_account(visit: Visit) -> Response:
    """Request that all views of the account are rebuilt."""
    return await _request(visit, "heal")


@action("/imports/{supplier}/{external}/erase/", roles=OPERATORS)
async def erase_person(visit: Visit) -> Response:
    """Request that the person is erased. The user must type the account's number, since an erasure cannot be undone."""
    if visit.form.text("typed") != visit.path("external"):
        raise visit.invalid("typed", N_("The typed number must be the account's number."))
    return await _request(visit, "erase")


async def _request(visit: Visit, kind: OwnerTaskKind) -> Response:
    """Request an operation of the database's owner. Raises ApiError 404 if there is no import."""
    supplier, external, reason = visit.path("supplier"), visit.path("external"), visit.reason()
    if not (await _history_of(visit, supplier, external, None)).import_events:
        raise not_found()
    await request_task(visit, kind, {"supplier": supplier, "external": external}, reason)
    return visit.redirect(import_address(supplier, external), notice=requested_notice(visit, kind))


async def _decided(visit: Visit, command: Command, notice: str) -> Response:
    supplier, external = visit.path("supplier"), visit.path("external")
    try:
        await visit.execute(stream_of(supplier, external), command)
    except IllegalTransition as error:
        if error.status == "NEW":
            raise
        name = NAMES["state_names"][error.status]
        notice = visit._("Nothing was changed: the status of the import is “%(status)s” now.", status=visit._(name))
    return visit.redirect(import_address(supplier, external), notice=notice)


async def _history_of(visit: Visit, supplier: str, external: str, upto: int | None) -> ImportHistory:
    events = await visit.read(newest_of_import, supplier, external, upto)
    return ImportHistory([recorded for recorded in events if not isinstance(recorded.event, Unreadable)])


def _waits(visit: Visit, history: ImportHistory, status: str, supplier_status: str) -> str:
    """Return a sentence about the state of the import and its next step."""
    if history.is_erased:
        return visit._("The person was erased. Only the history without personal data is left.")
    event = history.import_events[-1].event
    due = event.not_before if isinstance(event, ImportStaged) else None
    due = event.due_at if isinstance(event, ImportPostponed) else due
    due = due if due is not None and due > now() else None
    lease = event.lease_until if isinstance(event, ImportStarted) else None
    moment = Formats(visit.language).moment
    return waits_for(status, supplier_status, due and moment(due), lease and moment(lease), visit._)


async def _line(visit: Visit, supplier: str, external: str, upto: int | None) -> tuple[TimeLine, Pages]:
    """Return a page of the account's events, newest first."""
    before = key_in(visit, "before", NumberKey) or _AFTER_ALL
    query = partial(account_time_line, before=before, limit=EVENTS_AT_ONCE)
    line = await visit.read(query, supplier, external, upto)
    return line, pages(visit, "before", line.next_before or None, anchor="line")


async def _entries(
    visit: Visit, events: list[Recorded], history: ImportHistory, *, is_clear: bool
) -> list[tuple[Recorded, Step, bool]]:
    """Return the events, each with its description, and whether its reason is masked."""
    ids = {recorded.caused_by.partition(":")[2] for recorded in events if recorded.caused_by.startswith("user:")}
    users = {user: details.display_name for user, details in (await visit.read(details_of, ids)).items()} if ids else {}
    named = {event.reason for recorded in events if isinstance(event := recorded.event, WITH_REASON)}
    reasons = await visit.read(texts_of, named) if named else {}
    steps = [(recorded, step_of(recorded, visit._, users, reasons)) for recorded in events]
    masked = set() if is_clear else await _about_person(visit, {step.reason for _, step in steps} - {""}, history)
    return [(recorded, step, step.reason in masked) for recorded, step in steps]


async def _about_person(visit: Visit, reasons: set[str], history: ImportHistory) -> set[str]:
    """Return the reasons that contain personal data of a payload; all reasons if a payload is missing, or if there are
    too many payloads. Reasons about an erased person were erased. The account's number is not personal data.
    """
    number = visit.path("external")
    if not reasons or history.is_erased:
        return set()
    if len(history.staged) > MAX_COMPARED:
        return reasons
    without_number = {reason.replace(number, ""): reason for reason in reasons}
    named: set[str] = set()
    for staged in history.staged:
        body = await _body(visit, staged)
        if body is None:
            return reasons
        found = await run_on_body(body, naming_person, list(without_number), body)
        named.update(without_number[text] for text in found)
    return named


async def _tables(visit: Visit, number: str, *, is_clear: bool) -> list[dict[str, Any]]:
    """Return the platform rows of the account by table.

    The table in the address begins after the key in the address.
    """
    after = key_in(visit, "rows-after", TableKey)
    try:
        tables = await visit.read(platform_records, number, (after.table, after.row) if after else None)
    except ValueError as error:
        raise invalid_key(visit, "rows-after") from error
    shown = []
    for table in tables:
        rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
        masked = rows if is_clear else [masked_tree(row, path=_PATHS.get(table.table, ())) for row in rows]
        is_open = after is not None and after.table == table.table
        more = (table.table, table.next_after) if table.next_after else None
        shown.append(
            {
                "name": table.table,
                "columns": table.columns,
                "rows": [{name: _shown_cell(visit, value) for name, value in row.items()} for row in masked],
                "is_cut": bool(table.next_after),
                "is_open": is_open,
                "more": pages(visit, "rows-after", more, anchor=f"t-{table.table}", has_begun=is_open),
            }
        )
    return shown


def _shown_cell(visit: Visit, value: Any) -> str:
    """Return a value of the platform as text. Times are shown in German market time, also inside JSON."""
    if isinstance(value, datetime):
        return Formats(visit.language).moment(value)
    text = shown_value(value)
    return _IN_UTC.sub(_in_market_time, text) if isinstance(value, dict | list) else text


def _in_market_time(found: re.Match[str]) -> str:
    return datetime.fromisoformat(found[0]).astimezone(MARKET_TIME).isoformat()


async def _part(
    visit: Visit, tab: str, history: ImportHistory, number: str | None, *, is_clear: bool
) -> dict[str, Any]:
    """Return the values that only this part of the page needs."""
    if tab == "received":
        return await _payloads(visit, history, is_clear=is_clear)
    if tab == "platform":
        return {"tables": await _tables(visit, number, is_clear=is_clear) if number else []}
    if tab == "attached":
        query = partial(attached_records, supplier=visit.path("supplier"), external=visit.path("external"))
        kind = tuple[datetime, TextKey]
        records, more = await page_of(visit, "records-after", query, kind, PAGE, anchor="records-head")
        return {"records": records, "more_records": more}
    return {}


async def _problems(history: ImportHistory, body: bytes | None) -> ImportProblems:
    """Return the problems of the newest payload. Problems of missing documents name the path."""
    start = history.import_events.index(history.staged[0]) if history.staged else 0
    problems = import_problems(history.import_events[start:])
    if body is not None and missing_paths(problems):
        problems = naming_paths(problems, await run_on_body(body, document_paths, body))
    return problems


async def _summary(visit: Visit, history: ImportHistory, *, is_clear: bool) -> dict[str, Any]:
    """Return the person, the problems with the values at their places, and the text for the importer."""
    newest = history.staged[0]
    assert isinstance(newest.event, ImportStaged)
    body = await _body(visit, newest)
    problems = await _problems(history, body)
    persons: list[tuple[str, str]] = []
    values: dict[str, str] = {}
    if body is not None:
        persons = await run_on_body(body, partial(person_in, is_clear=is_clear), body)
        shown = frozenset(missing_paths(problems))
        values = await run_on_body(body, partial(values_at, is_clear=is_clear, shown=shown), body, problems.errors)
    supplier, external, run = visit.path("supplier"), visit.path("external"), newest.event.run
    sentence = Formats(visit.language).sentence
    return {
        "problems": problems,
        "persons": [(visit._(heading), value) for heading, value in persons],
        "values": values,
        "run": run,
        "run_address": f"{ROOT}/runs/{segment(supplier)}/{segment(run)}/",
        "text": text_about_account(supplier, external, run, problems.errors, visit._, sentence),
    }


async def _payloads(visit: Visit, history: ImportHistory, *, is_clear: bool) -> dict[str, Any]:
    """Return the chosen or newest payload as a tree with its problems, and the difference between two payloads."""
    problems = await _problems(history, await _body(visit, history.staged[0]))
    chosen = next((row for row in history.staged if str(row.version) == visit.query("payload")), history.staged[0])
    tree = await _tree(visit, chosen, problems if chosen is history.staged[0] else None, is_clear=is_clear)
    before = key_in(visit, "versions-before", NumberKey) or _AFTER_ALL
    versions = [row for row in history.staged if row.version < before]
    last = versions[VERSIONS_AT_ONCE - 1].version if len(versions) > VERSIONS_AT_ONCE else None
    changes, more_changes = await _changes(visit, history, is_clear=is_clear)
    return {
        "tree": tree,
        "more_tree": pages(visit, "tree-after", tree.next_after if tree else None, anchor="payload-head"),
        "version": chosen.version,
        "versions": [(row, _payload_name(visit, row)) for row in versions[:VERSIONS_AT_ONCE]],
        "more_versions": pages(visit, "versions-before", last, anchor="compare"),
        "changes": changes,
        "more_changes": more_changes,
        "compared": (visit.query("from"), visit.query("to")),
    }


def _payload_name(visit: Visit, staged: Recorded) -> str:
    """Return time, run and sender of a payload."""
    assert isinstance(staged.event, ImportStaged)
    run = visit._("run %(run)s", run=staged.event.run) if staged.event.run else ""
    at, sender = Formats(visit.language).moment(staged.recorded_at), actor(staged.caused_by, visit._, {})
    return ", ".join(filter(None, (at, run, sender)))


async def _tree(visit: Visit, staged: Recorded, problems: Any, *, is_clear: bool) -> PayloadTree | None:
    """Return a page of the payload; None if it was erased."""
    body = await _body(visit, staged)
    if body is None:
        return None
    errors, warnings = (problems.errors, problems.warnings) if problems else ((), ())
    shown = frozenset(missing_paths(problems)) if problems else frozenset()
    after = key_in(visit, "tree-after", NumberKey) or 0
    tree = partial(payload_tree, is_clear=is_clear, shown=shown, after=after)
    return await run_on_body(body, tree, body, errors, warnings)


async def _body(visit: Visit, staged: Recorded) -> bytes | None:
    assert isinstance(staged.event, ImportStaged)
    bodies = await visit.written(visit.services.ledger.payloads, {staged.stream: staged.event.payload_sha256})
    return bodies.get(staged.stream)


async def _changes(visit: Visit, history: ImportHistory, *, is_clear: bool) -> tuple[list[FieldChange] | None, Pages]:
    """Return a page of the difference between two chosen payloads; None if no payloads are chosen."""
    chosen_versions, after = [visit.query("from"), visit.query("to")], key_in(visit, "changes-after", NumberKey) or 0
    if not any(chosen_versions):
        return None, pages(visit, "changes-after", None)
    by_version = {str(row.version): row for row in history.staged}
    if any(version not in by_version for version in chosen_versions):
        raise visit.invalid("from", N_("Select two payloads of this import to compare them."), "invalid_choice")
    bodies = [body for version in chosen_versions if (body := await _body(visit, by_version[version])) is not None]
    if len(bodies) < 2:
        return [], pages(visit, "changes-after", None)
    older, newer = bodies
    compared = await run_on_body(
        max(bodies, key=len), bounded_difference, older, newer, COMPARISON_BOUNDS, MAX_ANSWER_BYTES
    )
    changes = msgspec.json.decode(compared, type=list[FieldChange])[after:]
    more = after + CHANGES_AT_ONCE if len(changes) > CHANGES_AT_ONCE else None
    shown = [_shown_change(change, is_clear=is_clear) for change in changes[:CHANGES_AT_ONCE]]
    return shown, pages(visit, "changes-after", more, anchor="compare")


def _shown_change(change: FieldChange, *, is_clear: bool) -> FieldChange:
    """Return the change with both values as text, masked by the path as in a payload."""
    path = tuple(change.path.split("."))
    sides = {
        name: None if value is None else shown_value(value if is_clear else masked_tree(value, path=path))
        for name, value in (("before", change.before), ("after", change.after))
    }
    return msgspec.structs.replace(change, path=change.path if is_clear else ".".join(masked_path(path)), **sides)
