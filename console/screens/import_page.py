"""One import: its state, what happened to it, what is wrong with it and where, and what it became."""

from typing import Any

import msgspec
from starlette.responses import Response

from api.endpoints.problem_queries import import_problems
from api.http.errors import not_found, query_not_valid
from console.access.disclosing import is_shown
from console.access.people import EVERYBODY, MENDERS, OPERATORS
from console.access.visit import Visit, action, page
from console.presentation.formats import Formats
from console.presentation.listing import command_line, import_address
from console.presentation.timeline import STATE_NAMES, STATE_TONES, Step, kind_name, step_of, waits_for
from console.screens.import_parts import (
    attempts_of_page,
    changes_of_page,
    line_of_page,
    past_of,
    records_of_page,
    tables_of_page,
    tree_of_page,
    versions_of_page,
)
from console.screens.owner_words import told_tasks
from console.screens.paging import pages
from eventstore.aggregates.aggregate import Command
from eventstore.aggregates.disclosure import PersonalDataShown
from eventstore.aggregates.import_process import (
    CancelImport,
    ImportPostponed,
    ImportStaged,
    ImportStarted,
    RetryImport,
    stream_of,
)
from eventstore.aggregates.owner_task import OwnerTaskKind
from eventstore.clock import now
from eventstore.events import Recorded
from projections.queries.account_parts import seal_over
from projections.queries.history import AHEAD, AsOf, MomentAhead, status_record
from projections.unlogged.typed_reasons import MAX_REASON, reasons_of
from projections.unlogged.user_details import details_of
from projections.views.owner_task import owner_tasks
from schemas.base import Problem, code_and_path
from schemas.sentence import Sentence

_NO_REASON = Sentence("Say why.", "Bitte einen Grund angeben.")
_NOT_CONFIRMED = Sentence(
    "What was typed is not the account's number.", "Was eingegeben wurde, ist nicht die Nummer des Kontos."
)
_NO_MOMENT = Sentence("Give a position or a time.", "Anzugeben ist eine Position oder ein Zeitpunkt.")


class Entry(msgspec.Struct, frozen=True):
    """An event of the time line."""

    recorded: Recorded
    step: Step


@page("/imports/{supplier}/{external}/", roles=EVERYBODY)
async def import_page(visit: Visit) -> Response:
    """The page, with persons masked until somebody asks for them."""
    return await import_shown(visit)


@action("/imports/{supplier}/{external}/retry/", roles=MENDERS)
async def retry_import(visit: Visit) -> Response:
    """Have it processed once more."""
    return await _decided(visit, RetryImport(reason=_typed_reason(visit)), visit._("It is processed again."))


@action("/imports/{supplier}/{external}/cancel/", roles=MENDERS)
async def cancel_import(visit: Visit) -> Response:
    """Have it not processed."""
    return await _decided(visit, CancelImport(reason=_typed_reason(visit)), visit._("It is cancelled."))


@action("/imports/{supplier}/{external}/heal/", roles=OPERATORS)
async def heal_account(visit: Visit) -> Response:
    """Ask for everything that projections say of the account to be made anew."""
    return await _asked_for(visit, "heal")


@action("/imports/{supplier}/{external}/erase/", roles=OPERATORS)
async def erase_person(visit: Visit) -> Response:
    """Ask for the person to be erased; the number has to be typed, since it cannot be undone."""
    if visit.form.text("typed") != visit.path("external"):
        raise query_not_valid(Problem("typed", "invalid", _NOT_CONFIRMED))
    return await _asked_for(visit, "erase")


async def _asked_for(visit: Visit, kind: OwnerTaskKind) -> Response:
    """Ask for what needs the rights of the database's owner. Raises ApiError 404 where there is no import."""
    supplier, external, reason = visit.path("supplier"), visit.path("external"), _typed_reason(visit)
    if not (await visit.read(past_of, supplier, external, None)).own:
        raise not_found()
    await visit.ask(kind, {"supplier": supplier, "external": external}, reason)
    return visit.redirect(
        import_address(supplier, external), notice=visit._("It was asked for. The page shows how far it is.")
    )


async def _decided(visit: Visit, command: Command, notice: str) -> Response:
    supplier, external = visit.path("supplier"), visit.path("external")
    await visit.execute(stream_of(supplier, external), command)
    return visit.redirect(import_address(supplier, external), notice=notice)


def _typed_reason(visit: Visit) -> str:
    """Raises NotValid where there is none."""
    reason = visit.form.text("reason")[:MAX_REASON]
    if not reason:
        raise query_not_valid(Problem("reason", "required", _NO_REASON))
    return reason


async def _position_asked(visit: Visit) -> int | None:
    """The position that belongs to the moment in `?as_of=`; None without one. Raises NotValid."""
    text = visit.query("as_of")
    try:
        return await visit.read(AsOf.of(text).read_position) if text else None
    except MomentAhead as error:
        raise query_not_valid(Problem("as_of", "invalid", AHEAD)) from error
    except ValueError as error:
        raise query_not_valid(Problem("as_of", "invalid", _NO_MOMENT)) from error


async def import_shown(visit: Visit) -> Response:  # long: it gathers what a page of many parts shows
    """The page of the import, or of what was refused about one that never was."""
    supplier, external = visit.path("supplier"), visit.path("external")
    entry = await visit.services.directory.supplier(supplier)
    if entry is None:
        raise not_found()
    whole = await visit.read(past_of, supplier, external, None)
    attempts, more_attempts = await attempts_of_page(visit, supplier, external)
    if not whole.own:
        if not attempts:
            raise not_found()
        return visit.render(
            "import_refused.html",
            supplier=supplier,
            external=external,
            attempts=_told(attempts),
            more_attempts=more_attempts,
        )
    is_clear = await is_shown(visit, supplier, external)
    upto = await _position_asked(visit)
    past = whole if upto is None else await visit.read(past_of, supplier, external, upto)
    record = status_record(past.own)
    if record is None:
        raise not_found()
    problems = import_problems(past.since_staged)
    tree, version = await tree_of_page(visit, past, problems.errors, problems.warnings, is_clear=is_clear)
    number = record.service_identifier
    line, more_events = await line_of_page(visit, supplier, external, upto)
    records, more_records = await records_of_page(visit, supplier, external)
    changes, more_changes = await changes_of_page(visit, past, is_clear=is_clear)
    versions, more_versions = versions_of_page(visit, past)
    is_live = record.status in ("PENDING", "IN_PROGRESS") and upto is None
    tasks = await visit.read(owner_tasks, "", {"supplier": supplier, "external": external}, 5)
    response = visit.render(
        "import.html",
        supplier=supplier,
        external=external,
        address=import_address(supplier, external),
        record=record,
        state_name=visit._(STATE_NAMES[record.status]),
        tone=STATE_TONES.get(record.status, ""),
        waits=_waits(visit, past.own, record.status, entry.status),
        attempt=_attempt(past.own),
        is_live=is_live,
        entries=await _entries(visit, line.events),
        more_events=more_events,
        as_of=visit.query("as_of"),
        line=line,
        problems=problems,
        tree=tree,
        more_tree=pages(visit, "tree-after", tree.next_after if tree else None, anchor="payload-head"),
        version=version,
        versions=versions,
        more_versions=more_versions,
        is_erased=past.is_erased,
        is_clear=is_clear,
        changes=changes,
        more_changes=more_changes,
        compared=(visit.query("from"), visit.query("to")),
        tables=await tables_of_page(visit, number, is_clear=is_clear) if number else [],
        records=[(kind_name(one.kind.replace("-", "_"), visit._), one) for one in records],
        more_records=more_records,
        attempts=_told(attempts),
        more_attempts=more_attempts,
        seal=await visit.read(seal_over, line.last_then),
        tasks=await told_tasks(visit, tasks),
        may_mend=visit.person.may(MENDERS),
        may_operate=visit.person.may(OPERATORS),
        heal_line=command_line("projections", "heal", supplier, external),
        erase_line=command_line("erase", supplier, external, "--reason", "…"),
        retry_line=command_line("retry", supplier, external, "--reason", "…"),
        cancel_line=command_line("cancel", supplier, external, "--reason", "…"),
        proof_line=command_line("proof", supplier, external, "-o", "proof.zip"),
        history_line=command_line("history", supplier, external),
        payload_line=command_line("history", supplier, external, "--payloads"),
    )
    response = visit.live(response, "tasks", is_live=any(task.is_open for task in tasks))
    return visit.live(response, "live", is_live=is_live)


def _waits(visit: Visit, own: list[Recorded], status: str, supplier_status: str) -> str:
    event = own[-1].event
    due = event.not_before if isinstance(event, ImportStaged) else None
    due = event.due_at if isinstance(event, ImportPostponed) else due
    lease = event.lease_until if isinstance(event, ImportStarted) else None
    due = due if due is not None and due > now() else None
    moment = Formats(visit.language).moment
    due_text, lease_text = (moment(one) if one else "" for one in (due, lease))
    return waits_for(status, supplier_status, due_text, lease_text, visit._)


def _attempt(own: list[Recorded]) -> int | None:
    return next((one.event.attempt for one in reversed(own) if isinstance(one.event, ImportStarted)), None)


async def _entries(visit: Visit, events: list[Recorded]) -> list[Entry]:
    """The time line with the names of those who did something and their reasons."""
    ids = {one.caused_by.partition(":")[2] for one in events if one.caused_by.startswith("user:")}
    users = {user: one.shown for user, one in (await visit.read(details_of, ids)).items()} if ids else {}
    shown_events = [one.event for one in events if isinstance(one.event, PersonalDataShown)]
    typed = await visit.read(reasons_of, [event.reason for event in shown_events]) if shown_events else {}
    reasons = {reason: one.content for reason, one in typed.items()}
    return [Entry(one, step_of(one, visit._, users, reasons)) for one in events]


def _told(attempts: Any) -> list[dict[str, Any]]:
    return [
        {
            "at": one.attempted_at,
            "operation": one.operation,
            "code": one.code,
            "problems": [code_and_path(name) for name in one.problems],
        }
        for one in attempts
    ]


SCREENS = (import_page, retry_import, cancel_import, heal_account, erase_person)
