"""The verb `search`, which finds accounts and refused attempts."""

from collections.abc import Sequence

import click

from cli.addresses import answer_of
from cli.known import require_supplier
from cli.language import _
from cli.operator import open_ledger
from cli.output import lines_option, print_line, print_result, text_of
from projections.auxiliary.refused_attempts import Attempt, refused_attempts
from projections.views.account_search import MAX_FOUND, search_accounts
from schemas.status import FoundAccount


@click.command()
@click.argument("text")
@click.option("--supplier", "suppliers", multiple=True, help="Supplier of the accounts; repeatable [default: all]")
@click.option("--after", default="", metavar="PLACE", help="Start of the next page, from the end of the previous page.")
@click.option("--limit", default=MAX_FOUND, show_default=True, type=click.IntRange(1, 1_000), help="Accounts a page.")
@lines_option
def search(text: str, suppliers: tuple[str, ...], after: str, limit: int, as_json: bool) -> None:
    """Search accounts of all suppliers.

    TEXT is a name in any order, an account number, an external number, a MaLo-ID, an IBAN, an e-mail address, a
    postcode or a meter number. An external number also finds refused requests.
    """
    if not text.strip() or "\0" in text:
        raise click.BadParameter(_("TEXT must not be empty."), param_hint="TEXT")
    with open_ledger() as ledger, ledger.connection() as connection:
        for supplier in suppliers:
            require_supplier(connection, supplier)
    try:
        page = answer_of(search_accounts, text, suppliers or None, after=after, limit=limit)
    except ValueError as error:
        raise click.BadParameter(
            _("--after must be the value that the previous page has printed."), param_hint="--after"
        ) from error
    attempts = [] if after else answer_of(refused_attempts, text.strip(), suppliers or None)
    _print(page.accounts, attempts, as_json=as_json)
    if page.next_after:
        line = _("There are more: importledger search … --after {place}", place=page.next_after)
        print_result(line, {"next_after": page.next_after}, as_json=as_json)
    if not page.accounts and not attempts and not as_json:
        print_line(_("Nothing was found."))


def _print(accounts: Sequence[FoundAccount], attempts: Sequence[Attempt], *, as_json: bool) -> None:
    for account in accounts:
        number, external = account.service_account_number or "-", text_of(account.external_account_number)
        line = f"{account.import_supplier}  {external}  {account.status}  {number}"
        print_result(line, account, as_json=as_json)
    for attempt in attempts:
        external, at = text_of(attempt.external_account_number), text_of(attempt.attempted_at.replace(microsecond=0))
        problems = text_of(" ".join(attempt.problems))
        refused = _("refused {time}", time=at)
        line = f"{attempt.supplier}  {external}  {refused}  {attempt.operation}  {attempt.code}  {problems}"
        print_result(line, {"refused": attempt}, as_json=as_json)
