"""The verbs `cancel`, `retry` and `erase`. The log records the operator and the reason."""

from collections.abc import Sequence

import click

from cli.known import require_known, require_stream
from cli.language import N_, Confirmation, _, counted, translated
from cli.operator import caused_by, open_ledger, reason_option
from cli.output import ShortText, json_option, print_result
from cli.proposing import is_proposed
from eventstore.aggregates.aggregate import Command
from eventstore.aggregates.import_process import CancelImport, RetryImport, stream_of
from eventstore.clock import now
from eventstore.errors import IllegalTransition, Refused
from eventstore.log.ledger import Ledger, Loaded
from projections.auxiliary.typed_reasons import MAX_REASON
from projections.retention.erasure import erase_contacts, forget_attempts
from workers.operations import decide_imports, erase_person, imports_of
from workers.proposals import MANY


def _given(context: click.Context, parameter: click.Parameter, reason: str) -> str:
    if not reason.strip():
        raise click.BadParameter(_("A reason must be given, such as DSR-2026-118."))
    return reason


@click.command()
@click.argument("supplier")
@click.argument("external", required=False)
@click.option("--all", "is_all", is_flag=True, help="All pending imports of the supplier.")
@reason_option
@json_option
def cancel(supplier: str, external: str | None, is_all: bool, reason: str, as_json: bool) -> None:
    """Cancel one or all pending imports of a supplier.

    EXTERNAL is the external account number at SUPPLIER.
    """
    _exactly_one(external is not None, is_all)
    with open_ledger() as ledger:
        require_known(ledger, supplier, external)
        chosen = [external] if external is not None else imports_of(ledger, "cancel", {"supplier": supplier})
        arguments = {"supplier": supplier}
        if len(chosen) > MANY and is_proposed(ledger, "cancel", arguments, reason, by=caused_by(), as_json=as_json):
            return
        _decide(ledger, supplier, chosen, CancelImport(reason=reason), N_("cancelled"), as_json=as_json)


@click.command()
@click.argument("supplier")
@click.argument("external", required=False)
@click.option("--all", "is_all", is_flag=True, help="All errored imports of the supplier.")
@click.option("--code", help="Code of errored imports, or of one of their problems.")
@reason_option
@json_option
def retry(supplier: str, external: str | None, is_all: bool, code: str | None, reason: str, as_json: bool) -> None:
    """Process errored imports of a supplier again.

    EXTERNAL is the external account number at SUPPLIER. Instead of EXTERNAL, choose imports with --code or --all.
    """
    _exactly_one(external is not None, is_all, code is not None)
    with open_ledger() as ledger:
        require_known(ledger, supplier, external)
        arguments = {"supplier": supplier} | ({"code": code} if code is not None else {})
        chosen = [external] if external is not None else imports_of(ledger, "retry", arguments)
        if len(chosen) > MANY and is_proposed(ledger, "retry", arguments, reason, by=caused_by(), as_json=as_json):
            return
        _decide(ledger, supplier, chosen, RetryImport(reason=reason), N_("set to be processed again"), as_json=as_json)


@click.command()
@click.argument("supplier")
@click.argument("external", required=False)
@click.option(
    "--reason",
    required=True,
    type=ShortText(MAX_REASON),
    callback=_given,
    help="Reason, such as the number of the request, kept in the log: no personal data.",
)
@click.confirmation_option(cls=Confirmation, prompt=N_("Erase payloads, key and platform records permanently. Go on?"))
@json_option
def erase(supplier: str, external: str | None, reason: str, as_json: bool) -> None:
    """Erase a person, or the contacts of a market participant.

    EXTERNAL is the external account number at SUPPLIER. Deletes payloads, key, platform records and refused requests.
    History and proofs stay, without content.

    Instead of SUPPLIER and EXTERNAL, participant/ORGANISATION/CODE names a market participant, whose contacts are
    erased. A participant of the operator has no organisation: participant//CODE.
    """
    if external is None:
        _erase_contacts(supplier, reason, as_json=as_json)
        return
    named = {"supplier": supplier, "external_account_number": external}
    with open_ledger() as ledger:
        require_known(ledger, supplier)
        stream = stream_of(supplier, external)
        is_import = not isinstance(loaded := ledger.try_load([stream])[stream], Loaded) or loaded.version > 0
        arguments = {"supplier": supplier, "external": external}
        if is_import and is_proposed(ledger, "erase", arguments, reason, by=caused_by(), as_json=as_json):
            return
        try:
            done = erase_person(ledger, supplier, external, reason, by=caused_by())
        except IllegalTransition as refusal:
            if refusal.status != "NEW":
                sentence = _("The import is being processed just now. Try again in a moment.")
                raise click.ClickException(sentence) from refusal
            number = forget_attempts(ledger, supplier, external)
            if not number:
                require_known(ledger, supplier, external)
            deleted = counted(number, "refused attempt is", "refused attempts are")
            sentence = _(
                "There is no import of {external} for {code}; {attempts} deleted.",
                external=external, code=supplier, attempts=deleted,
            )  # fmt: skip
            print_result(sentence, named | {"is_erased": False, "refused_attempts": number}, as_json=as_json)
            return
    account = {"external": external, "code": supplier}
    sentence = N_("{external} of {code} is erased.") if done else N_("{external} of {code} was erased already.")
    print_result(_(sentence, **account), named | {"is_erased": True, "is_new": done}, as_json=as_json)


def _erase_contacts(stream: str, reason: str, *, as_json: bool) -> None:
    if not stream.startswith("participant/"):
        raise click.UsageError(_("Name SUPPLIER and EXTERNAL, or participant/ORGANISATION/CODE."))
    with open_ledger() as ledger:
        with ledger.connection() as connection:
            require_stream(connection, stream)
        if is_proposed(ledger, "erase", {"participant": stream}, reason, by=caused_by(), as_json=as_json):
            return
        done = erase_contacts(ledger, stream, reason=reason, at=now(), by=caused_by())
    sentence = (
        N_("The contacts of {stream} are erased.") if done else N_("The contacts of {stream} were erased already.")
    )
    result = {"participant": stream, "is_erased": True, "is_new": done is not None}
    print_result(_(sentence, stream=stream), result, as_json=as_json)


def _exactly_one(*choices: bool) -> None:
    if sum(choices) != 1:
        raise click.UsageError(_("Name one EXTERNAL or give an option that chooses many, not both."))


def _decide(
    ledger: Ledger, supplier: str, externals: Sequence[str], command: Command, done: str, *, as_json: bool
) -> None:
    """Execute the command in batches, so that transactions stay short. Exit with 1 if an import was refused."""
    changed, refusals = 0, []
    for outcome in decide_imports(ledger, supplier, externals, command, by=caused_by()):
        changed += outcome.recorded is not None
        if outcome.refusal:
            refusals.append(_why(outcome.refusal, done))
    result = {"imports": len(externals), "changed": changed, "refused": len(refusals)}
    imports = counted(len(externals), "import")
    sentence = _("{changed} of {imports} {done}.", changed=changed, imports=imports, done=_(done))
    print_result(sentence, result, as_json=as_json)
    if refusals:
        raise click.ClickException(_("{number} refused: {first}", number=len(refusals), first=refusals[0]))


def _why(refusal: Refused, done: str) -> str:
    """Return the reason of a refusal. `done` is the participle of the verb, such as "cancelled"."""
    if isinstance(refusal, IllegalTransition):
        return _("an import that is {status} cannot be {done}.", status=refusal.status, done=_(done))
    return translated(refusal)
