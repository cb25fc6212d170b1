"""The events of an account in words: what happened, who did it, under which code. Pure."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from console.presentation.names import Tone
from console.presentation.texts import N_
from eventstore.aggregates import import_process as imports
from eventstore.aggregates.aggregate import Event
from eventstore.aggregates.customer_mail import MailDelivered, MailFailed, MailPostponed, MailRequested, MailStarted
from eventstore.aggregates.disclosure import PersonalDataShown
from eventstore.aggregates.post_account import RecordCancellationChanged, RecordImported
from eventstore.events import Recorded, Unreadable

Translate = Callable[..., str]
"""A text in the reader's language: `translate("… %(name)s …", name=value)`."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a time line."""

    words: str
    by: str
    tone: Tone = ""
    code: str = ""
    reason: str = ""
    """A text that a user has typed, which may name persons."""
    detail: str = ""


_POSTPONED = N_("The attempt ended without an outcome and is repeated later")
_WORDS: dict[type[Event] | type[Unreadable], tuple[str, Tone]] = {
    imports.ImportStaged: (N_("It was sent"), ""),
    imports.ImportStarted: (N_("Worker %(worker)s took it up, attempt %(attempt)s"), "busy"),
    imports.ImportPostponed: (_POSTPONED, "warn"),
    imports.ImportProcessed: (N_("The account %(account_number)s was created"), "good"),
    imports.ImportErrored: (N_("It failed"), "bad"),
    imports.ImportCancelled: (N_("It was cancelled"), "warn"),
    imports.ImportRetried: (N_("It was set to be processed again"), ""),
    imports.DryRunSucceeded: (N_("The dry run succeeded: the account could be created"), "good"),
    imports.DryRunErrored: (N_("The dry run failed"), "bad"),
    imports.SubjectErased: (N_("The person was erased: payloads, key and platform records are gone"), "warn"),
    MailRequested: (N_("An e-mail to the customer was asked for"), ""),
    MailStarted: (N_("The e-mail is being sent, attempt %(attempt)s"), "busy"),
    MailPostponed: (_POSTPONED, "warn"),
    MailDelivered: (N_("The mail server has taken the e-mail"), "good"),
    MailFailed: (N_("The e-mail was given up"), "bad"),
    PersonalDataShown: (N_("Personal data was shown"), ""),
    RecordImported: (N_("A record was attached"), ""),
    RecordCancellationChanged: (N_("The attached record is valid again"), ""),
    Unreadable: (N_("An event that this version cannot read: %(topic)s"), "warn"),
}
_ACTORS = {
    "operator": N_("%(name)s, on the command line"),
    "worker": N_("Worker %(name)s"),
    "sweeper": N_("The service"),
    "relay": N_("The service"),
    "api": N_("The service"),
}


def step_of(recorded: Recorded, translate: Translate, users: Mapping[str, str], reasons: Mapping[str, str]) -> Step:
    """The event in words. `users` are names of users and `reasons` typed texts, by id; erased ones are missing."""
    event = recorded.event
    text, tone = _WORDS.get(type(event), (type(event).__name__, ""))
    match event:
        case imports.ImportStaged(is_dry_run=True):
            text = N_("It was sent, for a dry run")
        case imports.ImportStaged(run=run) if run:
            text = N_("It was sent, in the run %(run)s")
        case RecordImported(is_cancelled=True):
            text = N_("A record was attached, as cancelled")
        case RecordCancellationChanged(is_cancelled=True):
            text = N_("The attached record was cancelled")
    reason = getattr(event, "reason", "")
    return Step(
        words=translate(text, **msgspec.structs.asdict(event)),
        by=actor(recorded.caused_by, translate, users),
        tone=tone,
        code=getattr(event, "code", ""),
        reason=reasons.get(reason, "") if isinstance(event, PersonalDataShown) else reason,
        detail="" if getattr(event, "problems", ()) else getattr(event, "detail", ""),
    )


def actor(caused_by: str, translate: Translate, users: Mapping[str, str]) -> str:
    """The name of who or what caused an event."""
    kind, _, name = caused_by.partition(":")
    if kind == "user":
        return users.get(name) or translate(N_("User %(name)s"), name=name)
    return translate(_ACTORS[kind], name=name) if kind in _ACTORS else caused_by


def waits_for(status: str, supplier_status: str, due: Any, lease: Any, translate: Translate) -> str:
    """What happens next, in a sentence; `due` and `lease` are moments as they are shown, "" for none."""
    text = {
        "PENDING": N_("It waits for a free worker."),
        "IN_PROGRESS": N_("A worker has it."),
        "ERRORED": N_("Nothing happens by itself: mend the cause, then retry it, or have the importer send it again."),
        "DRY_RUN_ERRORED": N_("A dry run has changed nothing. The importer sends the account again to create it."),
        "DRY_RUN_SUCCEEDED": N_("A dry run has changed nothing. The importer sends the account again to create it."),
        "CANCELLED": N_("It is not processed. If the importer sends it again, it starts anew."),
        "PROCESSED": N_("Nothing more is to be done: the account exists."),
    }[status]
    if status == "PENDING" and supplier_status == "paused":
        text = N_("It waits because the supplier is paused: it is processed once the supplier is ongoing.")
    elif status == "PENDING" and due:
        text = N_("It waits until %(moment)s, and is processed then.")
    elif status == "IN_PROGRESS" and lease:
        text = N_("A worker has it until %(moment)s; others may take it then.")
    return translate(text, moment=due or lease)
