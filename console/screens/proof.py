"""Checkpoints, the verification of the log, and the comparison with a checkpoint that a user keeps."""

import tempfile
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from starlette.responses import Response

from console.access.people import READERS
from console.access.requests import request_task, requested_notice
from console.access.visit import ROOT, Visit, action, page
from console.presentation.listing import hidden, revealed
from console.presentation.texts import N_
from console.screens.paging import NumberKey, key_in, pages
from console.screens.tasks import shown_tasks
from eventstore.events import supplier_in
from eventstore.log.intake_stop import read_intake_stop
from eventstore.proof.checkpoint_list import (
    Comparison,
    checkpoint_page,
    compare_with_log,
    newest_signed,
    sealing_keys,
)
from eventstore.proof.proof import NotProvable, write_proof
from projections.queries.history import account_streams
from projections.views.owner_task import owner_tasks

MAX_NOTE = 4_000
"""Characters of a checkpoint. Longer texts are not checkpoints."""
_WITHIN_S = 30.0

VERDICTS: dict[str, tuple[str, str]] = {
    "agrees": ("good", N_("The log matches this checkpoint: no event that the checkpoint covers was altered.")),
    "differs": ("bad", N_("The log does not match this checkpoint: an event that the checkpoint covers was altered.")),
    "longer": ("bad", N_("The log has fewer events than this checkpoint: the end of the log is missing.")),
    "lost": ("warn", N_("This checkpoint covers events that were lost; the loss is recorded in a later checkpoint.")),
    "stranger": ("warn", N_("This checkpoint belongs to another log or another key.")),
    "unreadable": ("bad", N_("This is not a signed checkpoint.")),
    "not_signed": ("bad", N_("The signature is not valid: the checkpoint was altered, or another key signed it.")),
    "not_sealed": (
        "warn",
        N_("This checkpoint has more events than the service has sealed so far. Try again after the next checkpoint."),
    ),
}


@page("/proof/", roles=READERS, nav=N_("Proof"))
async def proof(visit: Visit) -> Response:
    """Show the checkpoints, the keys, the last verification, and the comparison with a checkpoint in the address."""
    if not visit.query("compared"):
        return await _shown(visit, None, "")
    note = revealed(visit.query("compared"), visit.token)
    return await _shown(visit, await _compared(visit, note), note)


@action("/proof/compare/", roles=READERS)
async def compare_checkpoint(visit: Visit) -> Response:
    """Redirect to the comparison of the log with a checkpoint that the user has uploaded or pasted."""
    note = _note_in(visit.form.secret("file").strip() or visit.form.secret("note"))
    return visit.redirect(f"{ROOT}/proof/?compared={hidden(note, visit.token)}#compared")


@action("/proof/verify/", roles=READERS)
async def verify_log(visit: Visit) -> Response:
    """Request the verification of the log against its checkpoints and, if given, the user's checkpoint.

    The user's checkpoint is recorded in the log, so it must be signed by the log's own key.
    """
    visit.require_all()
    arguments = {"all": "yes" if visit.form.text("all") else ""}
    if text := visit.form.secret("against").strip():
        arguments["against"] = (await _compared(visit, _note_in(text))).note
        if not arguments["against"]:
            raise visit.refusal(400, N_("The text must be a checkpoint that this log's key has signed."))
    await request_task(visit, "log_verify", {name: value for name, value in arguments.items() if value})
    return visit.redirect(f"{ROOT}/proof/", notice=requested_notice(visit, "log_verify"))


@page("/imports/{supplier}/{external}/proof.zip", roles=READERS)
async def download_proof(visit: Visit) -> Response:
    """Download the events of an account with their proof, without payloads."""
    supplier, external = visit.path("supplier"), visit.path("external")

    def work() -> bytes:
        with visit.services.ledger.connection() as connection, tempfile.TemporaryDirectory() as folder:
            newest = newest_signed(connection)
            if newest is None:
                raise NotProvable
            file = Path(folder, "proof.zip")
            streams = account_streams(connection, supplier, external)
            checkpoint, note, key = newest
            write_proof(connection, file, streams, (checkpoint, note), key, further_notes={}, payloads=False)
            return file.read_bytes()

    try:
        content = await visit.written_within(_WITHIN_S, work)
    except NotProvable as error:
        raise visit.refusal(404, N_("No checkpoint covers this account yet.")) from error
    headers = {"Content-Disposition": 'attachment; filename="proof.zip"'}
    return Response(content, media_type="application/zip", headers=headers)


@page("/proof/checkpoint.note", roles=READERS)
async def download_checkpoint(visit: Visit) -> Response:
    """Download the newest signed checkpoint, to keep it outside the service."""
    listed = await visit.read(checkpoint_page, None)
    if listed.newest is None:
        raise visit.refusal(404, N_("There is no checkpoint yet."))
    headers = {"Content-Disposition": f'attachment; filename="checkpoint-{listed.newest.size}.note"'}
    return Response(listed.newest.note, media_type="text/plain; charset=utf-8", headers=headers)


def _note_in(text: str) -> str:
    """Return the text with the line ends that checkpoints have; "" for a text that is too long for a checkpoint."""
    return text.replace("\r\n", "\n") if len(text) <= MAX_NOTE else ""


async def _compared(visit: Visit, note: str) -> Comparison:
    def work() -> Comparison:
        with visit.services.ledger.connection() as connection:
            return compare_with_log(connection, note)

    return await visit.written_within(_WITHIN_S, work)


async def _shown(visit: Visit, comparison: Comparison | None, note: str) -> Response:
    reach = visit.person.reach
    listed = await visit.read(checkpoint_page, key_in(visit, "before", NumberKey))
    tasks = await visit.read(owner_tasks, "log_verify", {}, 5)
    results = [msgspec.json.decode(task.outcome) for task in tasks if task.outcome][:1]
    findings = [(finding, supplier_in(finding)) for outcome in results for finding in outcome.get("problems", ())]
    seen = [finding for finding, supplier in findings if reach is None or supplier in reach]
    tasks = tasks if reach is None else []
    verdict = VERDICTS[comparison.verdict] if comparison else None
    response = visit.render(
        "proof.html",
        listed=listed,
        keys=await visit.read(sealing_keys),
        more=pages(visit, "before", listed.next_before or None, path=f"{ROOT}/proof/"),
        tasks=await shown_tasks(visit, tasks),
        results=results,
        findings=seen,
        hidden=len(findings) - len(seen),
        comparison=comparison,
        verdict=(verdict[0], visit._(verdict[1])) if verdict else None,
        note=note,
        may_ask=reach is None,
        stop=await visit.read(read_intake_stop),
        kept_at=_moment(comparison.time) if comparison else None,
    )
    return visit.live(response, "tasks", is_live=any(task.is_open for task in tasks))


def _moment(text: str) -> datetime | None:
    """Return the time in a checkpoint, or None."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
