"""Cancel and retry imports, one or many of a supplier, and erase a person; with who and why in the log."""

from collections.abc import Sequence

import click

from cli.known import require_import, require_stream, require_supplier
from cli.operator import caused_by, open_ledger
from cli.tell import json_option, tell
from eventstore.aggregates.aggregate import Command
from eventstore.aggregates.import_process import CancelImport, RetryImport, stream_of
from eventstore.clock import now
from eventstore.errors import IllegalTransition, Refused
from eventstore.log.ledger import Ledger
from projections.retention.erasure import erase_contacts, forget_attempts
from projections.views.import_status import SELECT_EXTERNALS
from workers.operations import erase_person

IMPORTS_AT_ONCE = 500


def _given(context: click.Context, parameter: click.Parameter, reason: str) -> str:
    if not reason.strip():
        raise click.BadParameter("it must say why, such as DSR-2026-118.")
    return reason


@click.command()
@click.argument("supplier")
@click.argument("external", required=False)
@click.option("--all", "is_all", is_flag=True, help="Every pending import of the supplier.")
@click.option("--reason", default="", help="Why; kept in the log.")
@json_option
def cancel(supplier: str, external: str | None, is_all: bool, reason: str, as_json: bool) -> None:
    """Cancel a pending import of SUPPLIER: the one of EXTERNAL, or all."""
    _exactly_one(external is not None, is_all)
    with open_ledger() as ledger:
        _require(ledger, supplier, external)
        chosen = [external] if external is not None else _externals(ledger, supplier, "PENDING", None)
        _decide(ledger, supplier, chosen, CancelImport(reason=reason), "cancelled", as_json=as_json)


@click.command()
@click.argument("supplier")
@click.argument("external", required=False)
@click.option("--all", "is_all", is_flag=True, help="Every errored import of the supplier.")
@click.option("--code", help="Every errored import of the supplier with this code: its own, or of one of its problems.")
@click.option("--reason", default="", help="Why; kept in the log.")
@json_option
def retry(supplier: str, external: str | None, is_all: bool, code: str | None, reason: str, as_json: bool) -> None:
    """Process an errored import of SUPPLIER once more: the one of EXTERNAL, those with a code, or all."""
    _exactly_one(external is not None, is_all, code is not None)
    with open_ledger() as ledger:
        _require(ledger, supplier, external)
        chosen = [external] if external is not None else _externals(ledger, supplier, "ERRORED", code)
        _decide(ledger, supplier, chosen, RetryImport(reason=reason), "set to be processed again", as_json=as_json)


@click.command()
@click.argument("supplier")
@click.argument("external", required=False)
@click.option(
    "--reason",
    required=True,
    callback=_given,
    help="Why, such as the number of the request; kept in the log: no names.",
)
@click.confirmation_option(prompt="Payloads, key and platform records of this person will be gone for ever. Go on?")
@json_option
def erase(supplier: str, external: str | None, reason: str, as_json: bool) -> None:
    """Erase the person behind EXTERNAL of SUPPLIER. History and proofs stay, without content.

    Alone, participant/ORGANISATION/CODE names a market participant, whose contacts are erased; the organisation is
    empty for one of the operator: participant//CODE.
    """
    if external is None:
        _erase_contacts(supplier, reason, as_json=as_json)
        return
    named = {"supplier": supplier, "external_account_number": external}
    with open_ledger() as ledger:
        _require(ledger, supplier, None)
        try:
            done = erase_person(ledger, supplier, external, reason, by=caused_by())
        except IllegalTransition as refusal:
            if refusal.status != "NEW":
                sentence = "The import is being processed just now. Try again in a moment."
                raise click.ClickException(sentence) from refusal
            number = forget_attempts(ledger, supplier, external)
            if not number:
                _require(ledger, supplier, external)
            sentence = f"There is no import of {external} for {supplier}; {number} refused attempts are deleted."
            tell(sentence, named | {"is_erased": False, "refused_attempts": number}, as_json=as_json)
            return
    sentence = f"{external} of {supplier} is erased." if done else f"{external} of {supplier} was erased already."
    tell(sentence, named | {"is_erased": True, "is_new": done}, as_json=as_json)


def _erase_contacts(stream: str, reason: str, *, as_json: bool) -> None:
    if not stream.startswith("participant/"):
        raise click.UsageError("Name SUPPLIER and EXTERNAL, or participant/ORGANISATION/CODE.")
    with open_ledger() as ledger:
        with ledger.connection() as connection:
            require_stream(connection, stream)
        done = erase_contacts(ledger, stream, reason=reason, at=now(), by=caused_by())
    sentence = f"The contacts of {stream} are erased." if done else f"The contacts of {stream} were erased already."
    tell(sentence, {"participant": stream, "is_erased": True, "is_new": done is not None}, as_json=as_json)


def _require(ledger: Ledger, supplier: str, external: str | None) -> None:
    """Raises NotThere for a supplier or an import that does not exist."""
    with ledger.connection() as connection:
        if external is None:
            require_supplier(connection, supplier)
        else:
            require_import(connection, supplier, external)


def _exactly_one(*choices: bool) -> None:
    if sum(choices) != 1:
        raise click.UsageError("Name one EXTERNAL, or choose many by an option; not both.")


def _externals(ledger: Ledger, supplier: str, status: str, code: str | None) -> list[str]:
    with ledger.connection() as connection:
        rows = connection.execute(SELECT_EXTERNALS, {"supplier": supplier, "status": status, "code": code})
        return [row["external_account_number"] for row in rows]


def _decide(
    ledger: Ledger, supplier: str, externals: Sequence[str], command: Command, done: str, *, as_json: bool
) -> None:
    """Decide in parts, so that no transaction is long; exit code 1 when any was refused."""
    changed, refusals = 0, []
    for start in range(0, len(externals), IMPORTS_AT_ONCE):
        streams = [stream_of(supplier, external) for external in externals[start : start + IMPORTS_AT_ONCE]]
        for outcome in ledger.execute_many(dict.fromkeys(streams, command), at=now(), by=caused_by()):
            changed += outcome.recorded is not None
            if outcome.refusal:
                refusals.append(_why(outcome.refusal, done))
    told = {"imports": len(externals), "changed": changed, "refused": len(refusals)}
    tell(f"{changed} of {len(externals)} imports {done}.", told, as_json=as_json)
    if refusals:
        raise click.ClickException(f"{len(refusals)} refused: {refusals[0]}")


def _why(refusal: Refused, done: str) -> str:
    """Return the refusal in the words of the verb that was typed."""
    if isinstance(refusal, IllegalTransition):
        return f"an import that is {refusal.status} cannot be {done}."
    return str(refusal)
