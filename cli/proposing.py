"""Proposals of verbs: an action that `IMPORTLEDGER_FOUR_EYES` lists is only proposed."""

import secrets
from collections.abc import Mapping

import click

from cli.language import N_, _, counted
from cli.output import print_result, text_of
from cli.service.settings import Settings
from eventstore.aggregates.owner_task import (
    PROPOSAL_LASTS,
    SECOND_PERSON,
    OwnerTaskKind,
    RequestOwnerTask,
    stream_of,
    with_mac,
)
from eventstore.clock import now
from eventstore.log.authority import AuthorityKey
from eventstore.log.ledger import Ledger
from workers.proposals import with_preview

ACTIONS = {kind: action for action, kind in SECOND_PERSON.items()}
"""Names of actions in `IMPORTLEDGER_FOUR_EYES` and in sentences, by kind of task."""
KEPT = {
    "post_account_data": N_("with records"),
    "release": N_("released"),
    "erasure": N_("erased"),
    "reference": N_("to which another account refers"),
    "other_run": N_("that another run has sent first"),
    "pending": N_("whose import has not ended"),
    "unreadable": N_("with an unreadable event"),
    "not_previewed": N_("that were not in the approved preview"),
}
"""Words after the numbers of accounts that are not reverted, by reason."""
_WORDS = {
    "revertible": N_("revertible"),
    "failed": N_("failed"),
    "released": N_("to release"),
    "erased": N_("to erase"),
    "imports": N_("imports"),
    "former": N_("is the live version"),
    "version": N_("is the new version"),
}
"""Words after the numbers of a preview."""


def is_listed(kind: OwnerTaskKind) -> bool:
    """Return True if a second person must approve this kind of task."""
    return kind in Settings.from_environment().four_eyes


def authority() -> AuthorityKey:
    """Return the key of the MACs that the relay checks. Raises SettingError without this key."""
    # imported here: the module imports the servers, which most verbs do not need
    from cli.service.roles import request_key

    return AuthorityKey(request_key(Settings.from_environment()))


def is_proposed(
    ledger: Ledger, kind: OwnerTaskKind, arguments: Mapping[str, str], reason: str, *, by: str, as_json: bool
) -> bool:
    """Write a proposal if a second person must approve the action, and print its id and the command that approves it.

    Returns False if nobody must approve it. Raises UsageError without a reason.
    """
    if not is_listed(kind):
        return False
    if not reason.strip():
        raise click.UsageError(_("A second person must approve this: give a reason with --reason."))
    task_id, at = f"t_{secrets.token_hex(8)}", now()
    request = RequestOwnerTask(kind=kind, arguments=dict(arguments), user=by, reason=reason, requested_at=at)
    request = with_mac(with_preview(ledger, request), task_id, authority().mac)
    ledger.execute(stream_of(task_id), request, at=at, by=by)
    ends_at = at + PROPOSAL_LASTS
    sentence = _(
        "{proposal} proposes: {action}, {numbers}. Nothing was changed. Another person must approve it before "
        "{time}: importledger approve {proposal}",
        proposal=task_id, action=_(ACTIONS[kind]), numbers=numbers_of(request.preview), time=text_of(ends_at),
    )  # fmt: skip
    shown = {"proposal": task_id, "action": ACTIONS[kind], "preview": request.preview, "ends_at": ends_at}
    print_result(sentence, shown, as_json=as_json)
    return True


def numbers_of(preview: Mapping[str, int]) -> str:
    """Return the numbers of a preview with their words."""
    return ", ".join(_number_of(name, number) for name, number in preview.items())


def _number_of(name: str, number: int) -> str:
    words = _WORDS.get(name, KEPT.get(name, name))
    shown = counted(number, words, words)
    return _("{number} (kept)", number=shown) if name in KEPT else shown
