"""The events of an account in words, with actor, code and reason. Pure."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from console.presentation.names import Tone
from console.presentation.texts import N_
from eventstore.aggregates import import_process as imports
from eventstore.aggregates.aggregate import Event
from eventstore.aggregates.customer_mail import (
    MailCancelled,
    MailDelivered,
    MailFailed,
    MailPostponed,
    MailRequested,
    MailStarted,
)
from eventstore.aggregates.disclosure import PersonalDataShown
from eventstore.aggregates.post_account import RecordCancellationChanged, RecordImported
from eventstore.events import Recorded, Unreadable

Translate = Callable[..., str]
"""Function that returns a text in the reader's language: `translate("… %(name)s …", name=value)`."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One event of the history on a page."""

    words: str
    by: str
    tone: Tone = ""
    code: str = ""
    reason: str = ""
    """A text that a user has typed, which may name persons."""
    detail: str = ""


_WORDS: dict[type[Event] | type[Unreadable], tuple[str, Tone]] = {
    imports.ImportStaged: (N_("Payload received"), ""),
    imports.ImportStarted: (N_("Processing started, attempt %(attempt)s"), "busy"),
    imports.ImportPostponed: (N_("Attempt postponed; the import will be tried again"), "warn"),
    imports.ImportProcessed: (N_("Account %(account_number)s created"), "good"),
    imports.ImportErrored: (N_("Import failed"), "bad"),
    imports.ImportCancelled: (N_("Import cancelled"), "warn"),
    imports.ImportRetried: (N_("Import retried"), ""),
    imports.ImportReverted: (N_("Account %(account_number)s reverted"), "warn"),
    imports.DryRunSucceeded: (N_("Dry run succeeded: the account can be created"), "good"),
    imports.DryRunErrored: (N_("Dry run failed"), "bad"),
    imports.SubjectErased: (N_("Person erased: payloads, encryption key and platform records deleted"), "warn"),
    MailRequested: (N_("E-mail to the customer requested"), ""),
    MailStarted: (N_("Sending the e-mail, attempt %(attempt)s"), "busy"),
    MailPostponed: (N_("Attempt postponed; the e-mail will be sent later"), "warn"),
    MailDelivered: (N_("E-mail accepted by the mail server"), "good"),
    MailFailed: (N_("E-mail not sent: no further attempts"), "bad"),
    MailCancelled: (N_("E-mail not sent: the account was reverted"), "warn"),
    PersonalDataShown: (N_("Personal data shown"), ""),
    RecordImported: (N_("Record attached"), ""),
    RecordCancellationChanged: (N_("Attached record valid again"), ""),
    Unreadable: (N_("Unreadable event: %(topic)s"), "warn"),
}
_WITH_DETAIL = (imports.ImportErrored, imports.DryRunErrored)
"""Events whose detail a page shows, because it contains no personal data.

Details of other events may contain personal data, and are not shown.
"""
_WITH_CODE = (*_WITH_DETAIL, imports.ImportPostponed, MailPostponed, MailFailed)
WITH_REASON = (
    imports.ImportCancelled,
    imports.ImportRetried,
    imports.ImportReverted,
    imports.SubjectErased,
    PersonalDataShown,
)
"""Events with a reason: a text, or the id of a typed reason."""
_ACTORS = {
    "operator": N_("%(name)s, on the command line"),
    "worker": N_("Worker %(name)s"),
    "sweeper": N_("The service"),
    "relay": N_("The service"),
    "api": N_("The service"),
}


def step_of(recorded: Recorded, translate: Translate, users: Mapping[str, str], reasons: Mapping[str, str]) -> Step:
    """Return the event in words. `users` are names by id, `reasons` texts by their text or id."""
    event = recorded.event
    text, tone = _WORDS.get(type(event), (type(event).__name__, ""))
    match event:
        case imports.ImportStaged(is_dry_run=True):
            text = N_("Payload for a dry run received")
        case imports.ImportStaged(run=run) if run:
            text = N_("Payload received, in run %(run)s")
        case RecordImported(is_cancelled=True):
            text = N_("Record attached as cancelled")
        case RecordCancellationChanged(is_cancelled=True):
            text = N_("Attached record cancelled")
    return Step(
        words=translate(text, **msgspec.structs.asdict(event)),
        by=actor(recorded.caused_by, translate, users),
        tone=tone,
        code=event.code if isinstance(event, _WITH_CODE) else "",
        reason=reasons.get(event.reason, "") if isinstance(event, WITH_REASON) else "",
        detail=event.detail if isinstance(event, _WITH_DETAIL) and not event.problems else "",
    )


def actor(caused_by: str, translate: Translate, users: Mapping[str, str]) -> str:
    """Return the display name of an event's actor."""
    kind, _, name = caused_by.partition(":")
    if kind == "user":
        return users.get(name) or translate(N_("User %(name)s"), name=name)
    return translate(_ACTORS[kind], name=name) if kind in _ACTORS else caused_by


def waits_for(status: str, supplier_status: str, due: Any, lease: Any, translate: Translate) -> str:
    """Return a sentence about the next step of an import. `due` and `lease` are formatted times, or ""."""
    text = {
        "PENDING": N_("The import waits for a free worker."),
        "IN_PROGRESS": N_("A worker is processing the import."),
        "ERRORED": N_("Fix the cause and retry the import, or ask the importer to send the account again."),
        "DRY_RUN_ERRORED": N_("A dry run changes nothing. To create the account, the importer must send it again."),
        "DRY_RUN_SUCCEEDED": N_("A dry run changes nothing. To create the account, the importer must send it again."),
        "CANCELLED": N_(
            "The import is not processed. If the importer sends the account again, the import starts again."
        ),
        "PROCESSED": N_("The import is finished: the account exists."),
    }[status]
    if status == "PENDING" and supplier_status == "paused":
        text = N_(
            "The import waits because the supplier is paused. It is processed when the supplier is ongoing again."
        )
    elif status == "PENDING" and due:
        text = N_("The import waits until %(moment)s. It is processed then.")
    elif status == "IN_PROGRESS" and lease:
        text = N_("A worker may process the import until %(moment)s. After that, another worker can take over.")
    return translate(text, moment=due or lease)
