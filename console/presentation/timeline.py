"""The events of an account in words: what happened, who did it, under which code. Pure."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

from console.presentation.texts import N_
from eventstore.aggregates import import_process as imports
from eventstore.aggregates.aggregate import Event
from eventstore.aggregates.customer_mail import MailDelivered, MailFailed, MailPostponed, MailRequested, MailStarted
from eventstore.aggregates.disclosure import PersonalDataShown
from eventstore.aggregates.post_account import RecordCancellationChanged, RecordImported
from eventstore.events import Recorded, Unreadable

Tone = Literal["", "good", "warn", "bad", "busy"]
Say = Callable[..., str]
"""A text in the reader's language: `say("… %(name)s …", name=value)`."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a time line."""

    words: str
    by: str
    tone: Tone = ""
    code: str = ""
    reason: str = ""
    """What somebody has typed, which may speak of persons."""
    detail: str = ""


_KINDS = {
    "delivery_note": N_("Delivery note"),
    "energy_amount": N_("Energy amount"),
    "invoice": N_("Market participant invoice"),
}
_ORDINALS = (
    "",
    N_("first attempt"),
    N_("second attempt"),
    N_("third attempt"),
    N_("fourth attempt"),
    N_("fifth attempt"),
)


def step_of(recorded: Recorded, say: Say, users: Mapping[str, str], reasons: Mapping[str, str]) -> Step:
    """The event in words; `users` are the names of users and `reasons` typed texts by id, as far as they are known."""
    by = actor(recorded.caused_by, say, users)
    event = recorded.event
    match event:
        case imports.ImportErrored(code=code) | imports.DryRunErrored(code=code):
            return Step(words=_failed(event, say), by=by, tone="bad", code=code, detail=_detail(event))
        case imports.ImportPostponed(code=code) | MailPostponed(code=code):
            words = say(N_("The attempt ended without an outcome and is repeated later"))
            return Step(words=words, by=by, tone="warn", code=code)
        case MailFailed(code=code):
            return Step(words=say(N_("The e-mail was given up")), by=by, tone="bad", code=code)
        case imports.ImportCancelled(reason=reason):
            return Step(words=say(N_("It was cancelled")), by=by, tone="warn", reason=reason)
        case imports.ImportRetried(reason=reason):
            return Step(words=say(N_("It was set to be processed again")), by=by, reason=reason)
        case imports.SubjectErased(reason=reason):
            words = say(N_("The person was erased: payloads, key and platform records are gone"))
            return Step(words=words, by=by, tone="warn", reason=reason)
        case PersonalDataShown(reason=reason):
            return Step(words=say(N_("Personal data was shown")), by=by, reason=reasons.get(reason, ""))
        case Unreadable(topic=topic):
            words = say(N_("An event that this version cannot read: %(topic)s"), topic=topic)
            return Step(words=words, by=by, tone="warn")
        case _:
            words, tone = _went_on(event, say)
            return Step(words=words or f"{type(event).__name__}", by=by, tone=tone)


def _went_on(event: Event, say: Say) -> tuple[str, Tone]:
    """What happened where nothing has gone wrong."""
    match event:
        case imports.ImportStaged(is_dry_run=True):
            return say(N_("It was sent, for a dry run")), ""
        case imports.ImportStaged(run=run) if run:
            return say(N_("It was sent, in the run %(run)s"), run=run), ""
        case imports.ImportStaged():
            return say(N_("It was sent")), ""
        case imports.ImportStarted(worker=worker, attempt=attempt):
            return say(
                N_("Worker %(worker)s took it up, %(attempt)s"), worker=worker, attempt=nth(attempt, say)
            ), "busy"
        case imports.ImportProcessed(account_number=number):
            return say(N_("The account %(number)s was created"), number=number), "good"
        case imports.DryRunSucceeded():
            return say(N_("The dry run succeeded: the account could be created")), "good"
        case MailRequested():
            return say(N_("An e-mail to the customer was asked for")), ""
        case MailStarted(attempt=attempt):
            return say(N_("The e-mail is being sent, %(attempt)s"), attempt=nth(attempt, say)), "busy"
        case MailDelivered():
            return say(N_("The mail server has taken the e-mail")), "good"
        case RecordImported(is_cancelled=is_cancelled):
            said = N_("A record was attached, as cancelled") if is_cancelled else N_("A record was attached")
            return say(said), ""
        case RecordCancellationChanged(is_cancelled=is_cancelled):
            said = N_("The attached record was cancelled") if is_cancelled else N_("The attached record is valid again")
            return say(said), ""
        case _:
            return "", ""


def _failed(event: imports.ImportErrored | imports.DryRunErrored, say: Say) -> str:
    number = len(event.problems)
    is_dry = isinstance(event, imports.DryRunErrored)
    if number == 1:
        return say(N_("The dry run failed, for one problem") if is_dry else N_("It failed, for one problem"))
    if number:
        said = N_("The dry run failed, for %(number)s problems") if is_dry else N_("It failed, for %(number)s problems")
        return say(said, number=number)
    return say(N_("The dry run failed") if is_dry else N_("It failed"))


def _detail(event: imports.ImportErrored | imports.DryRunErrored) -> str:
    return "" if event.problems else event.detail


def nth(attempt: int, say: Say) -> str:
    """`second attempt`."""
    if attempt < len(_ORDINALS):
        return say(_ORDINALS[attempt])
    return say(N_("attempt %(number)s"), number=attempt)


def actor(caused_by: str, say: Say, users: Mapping[str, str]) -> str:
    """Who caused an event, as people name them."""
    kind, _, name = caused_by.partition(":")
    match kind:
        case "user":
            return users.get(name) or say(N_("User %(id)s"), id=name)
        case "operator":
            return say(N_("%(name)s, on the command line"), name=name)
        case "worker":
            return say(N_("Worker %(number)s"), number=name)
        case "sweeper" | "relay" | "api":
            return say(N_("The service"))
        case _:
            return caused_by


def kind_name(kind: str, say: Say) -> str:
    """What a kind of attached record is called."""
    return say(_KINDS[kind]) if kind in _KINDS else kind


STATE_NAMES = {
    "PENDING": N_("Waits"),
    "IN_PROGRESS": N_("In progress"),
    "PROCESSED": N_("Processed"),
    "ERRORED": N_("Failed"),
    "CANCELLED": N_("Cancelled"),
    "DRY_RUN_SUCCEEDED": N_("Dry run succeeded"),
    "DRY_RUN_ERRORED": N_("Dry run failed"),
}
STATE_TONES: dict[str, Tone] = {
    "IN_PROGRESS": "busy",
    "PROCESSED": "good",
    "ERRORED": "bad",
    "DRY_RUN_SUCCEEDED": "good",
    "DRY_RUN_ERRORED": "bad",
    "CANCELLED": "warn",
}


def waits_for(status: str, supplier_status: str, due: Any, lease: Any, say: Say) -> str:
    """What happens next, in a sentence; `due` and `lease` are moments as they are shown, "" for none."""
    match status:
        case "PENDING" if supplier_status == "paused":
            return say(N_("It waits because the supplier is paused: it is processed once the supplier is ongoing."))
        case "PENDING" if due:
            return say(N_("It waits until %(moment)s, and is processed then."), moment=due)
        case "PENDING":
            return say(N_("It waits for a free worker."))
        case "IN_PROGRESS" if lease:
            return say(N_("A worker has it until %(moment)s; others may take it then."), moment=lease)
        case "IN_PROGRESS":
            return say(N_("A worker has it."))
        case "ERRORED":
            return say(
                N_("Nothing happens by itself: mend the cause, then retry it, or have the importer send it again.")
            )
        case "DRY_RUN_ERRORED" | "DRY_RUN_SUCCEEDED":
            return say(N_("A dry run has changed nothing. The importer sends the account again to create it."))
        case "CANCELLED":
            return say(N_("It is not processed. If the importer sends it again, it starts anew."))
        case "PROCESSED":
            return say(N_("Nothing more is to be done: the account exists."))
        case _:
            return ""
