"""The verbs `proposals`, `approve` and `reject`, with which a second person decides."""

from collections.abc import Iterator
from typing import Any

import click

from cli.addresses import answer_of
from cli.known import NotFound, reason_texts
from cli.language import N_, _, translated
from cli.operator import caused_by, open_ledger
from cli.output import ShortText, json_option, lines_option, print_line, print_result, text_of
from cli.proposing import ACTIONS, authority, numbers_of
from eventstore.aggregates.owner_task import PROPOSAL_LASTS, OwnerTaskRequested
from eventstore.log.ledger import Ledger
from projections.auxiliary.typed_reasons import MAX_REASON
from projections.views.owner_task import OwnerTask, open_proposals, owner_task
from workers.operations import unpacked
from workers.proposals import approve, reject, request_of, require_unchanged

AT_ONCE = 500
"""Proposals of one query."""


@click.command("proposals")
@click.argument("task_id", metavar="[ID]", required=False)
@lines_option
def proposals(task_id: str | None, as_json: bool) -> None:
    """List the proposals that wait for a second person.

    With ID, shows this proposal, also after its end.
    """
    with open_ledger() as ledger:
        if task_id is not None:
            _print(_proposal(ledger, task_id), as_json=as_json)
            return
        for task in _open_proposals():
            shown = _proposal(ledger, task.task_id)
            names = ("proposal", "action", "subject", "user", "reason", "preview", "ends_at")
            line = "  ".join(_shown(name, shown[name]) for name in names)
            print_result(line, shown, as_json=as_json)


def _open_proposals() -> Iterator[OwnerTask]:
    after = None
    while tasks := answer_of(open_proposals, None, after=after, limit=AT_ONCE):
        yield from tasks
        after = tasks[-1].sort_key


@click.command("approve")
@click.argument("task_id", metavar="ID")
@click.option("--yes", "is_confirmed", is_flag=True, help="Approval; without --yes, the proposal is only shown.")
@json_option
def approve_proposal(task_id: str, is_confirmed: bool, as_json: bool) -> None:
    """Approve a proposal of another person.

    Without --yes, shows the proposal with ID. After the approval, the relay carries out the proposed operation, unless
    the accounts or versions that it changes are no longer those of the proposal.
    """
    with open_ledger() as ledger:
        if is_confirmed:
            approve(ledger, authority(), task_id, caused_by())
            sentence = _(
                "{proposal} is approved. The relay carries it out; see `importledger proposals {proposal}`.",
                proposal=task_id,
            )
            print_result(sentence, {"proposal": task_id, "is_approved": True}, as_json=as_json)
            return
        shown, request = _proposal(ledger, task_id), _request(ledger, task_id)
        if shown["status"] == "PROPOSED":
            require_unchanged(ledger, request)
    _print(shown, as_json=as_json)
    if not as_json:
        print_line(_("Nothing was changed. Give --yes to approve it."))


@click.command("reject")
@click.argument("task_id", metavar="ID")
@click.option(
    "--reason", required=True, type=ShortText(MAX_REASON), help="Reason, kept in the log permanently: no personal data."
)
@json_option
def reject_proposal(task_id: str, reason: str, as_json: bool) -> None:
    """Reject a proposal, or withdraw your own.

    The relay does not carry out the operation with ID.
    """
    with open_ledger() as ledger:
        reject(ledger, authority(), task_id, caused_by(), reason)
    sentence = _("{proposal} is rejected.", proposal=task_id)
    print_result(sentence, {"proposal": task_id, "is_approved": False}, as_json=as_json)


def _request(ledger: Ledger, task_id: str) -> OwnerTaskRequested:
    """Return the request of a proposal. Raises NotFound."""
    request = request_of(ledger, task_id)
    if request is None or not request.preview_sha256:
        raise NotFound(_("There is no proposal {proposal}.", proposal=task_id))
    return request


def _proposal(ledger: Ledger, task_id: str) -> dict[str, Any]:
    """Return the members of a proposal: its request in the log, and its status."""
    request, task = _request(ledger, task_id), answer_of(owner_task, task_id)
    assert isinstance(task, OwnerTask), "the view is written with the request"
    assert request.requested_at is not None, "a proposal has its time"
    texts = reason_texts({request.reason, task.decided_for or ""})
    accounts: Any = unpacked(request.arguments.get("accounts", ""))
    return {
        N_("proposal"): task_id,
        N_("action"): ACTIONS.get(request.kind, request.kind),
        N_("subject"): request.arguments | ({"accounts": accounts} if accounts else {}),
        N_("user"): request.user,
        N_("reason"): texts[request.reason] or None,
        N_("preview"): request.preview,
        N_("proposed_at"): request.requested_at,
        N_("ends_at"): request.requested_at + PROPOSAL_LASTS,
        N_("status"): task.status,
        N_("decided_by"): task.decided_by,
        N_("decided_for"): texts[task.decided_for or ""] or None,
        N_("error"): task.error or None,
    }


def _print(shown: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_result("", shown, as_json=True)
        return
    for name, value in shown.items():
        print_line(f"{_(name)} {_shown(name, value)}")


def _shown(name: str, value: Any) -> str:
    match name:
        case "preview":
            return numbers_of(value)
        case "action":
            return _(value)
        case "error" if value:
            return text_of(translated(value))
        case "subject":
            return " ".join(map(text_of, value.values()))
    return text_of(value)
