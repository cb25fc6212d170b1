"""`importbook pull`: write a supplier's accounts from the platform as a book."""

from pathlib import Path

import click

from importledger_client.commands import NOTHING_DONE, OK, SOMETHING_WRONG, common
from importledger_client.display import EVERY_S, Pace, Progress, counted
from importledger_client.errors import NotFound
from importledger_client.language import _
from importledger_client.pulled import ACCOUNT_KIND, BookFiles
from importledger_client.unfinished import UNFINISHED

_BULK = {
    "delivery_note": "/v1/data-import/delivery-note/bulk/",
    "energy_amount": "/v1/data-import/energy-amount/bulk/",
    "market_participant_invoice": "/v1/data-import/market-participant-invoice/bulk/",
}
"""Address of the endpoint that imports the records of a kind."""
_LOST = "MISSING"


@click.command(epilog="Example: importbook pull NORDWIND -o book.ndjson.zst")
@click.argument("supplier", metavar="SUPPLIER")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="New file of accounts, compressed if it ends with .zst. Records get files beside it.",
)
@click.option(
    "--parquet",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Folder for tables of the same accounts, in Parquet.",
)
@common.service_options
def pull(supplier: str, output: Path, folder: Path | None, access: common.Access) -> int:
    """Write a supplier's accounts from the platform as a book.

    `push` can send the book to another ledger. Records that were added after the import are in files beside the book,
    one for each kind. Needs a key that may read histories (auditor, support, operator); the log records that the key
    has read each account. Exit code 1 if the platform has lost an account.
    """
    found = folder.iterdir() if folder is not None and folder.exists() else iter(())
    if any(not path.name.startswith(UNFINISHED) for path in found):  # a killed process has left such a folder
        raise common.Stop("{file} must be empty or not exist: a pulled book replaces no file.", file=folder)
    with BookFiles(output, folder) as files:
        for path in map(files.path, (ACCOUNT_KIND, *_BULK)):
            if path.exists():
                raise common.Stop("{file} must not exist: a pulled book replaces no file.", file=path)
        _read(supplier, files, access)
        if not files.counts[ACCOUNT_KIND]:
            _show_left_out(files)
            sentence = _("{supplier} must have an account on the platform. It has none.", supplier=supplier)
            common.print_line(common.err(), sentence)
            return NOTHING_DONE
        files.finish()
    console = common.out()
    for kind, number in files.counts.items():
        common.print_line(console, f"{counted(number, kind.replace('_', ' '))} {_('in {file}', file=files.path(kind))}")
    for kind in files.counts.keys() & _BULK:
        sentence = _(
            "`push` sends accounts only: POST {file} to {address} after them.",
            file=files.path(kind),
            address=_BULK[kind],
        )
        common.print_line(console, sentence)
    if folder is not None:
        common.print_line(console, _("The tables are in {folder}.", folder=folder))
    _show_left_out(files)
    common.next_step(console, "manifest", str(output), "-o", f"{output.name.partition('.')[0]}.manifest.json")
    return SOMETHING_WRONG if files.left_out[_LOST] else OK


def _read(supplier: str, files: BookFiles, access: common.Access) -> None:
    """Write all contents of the supplier, with progress. Raises Stop for a supplier that the key does not see."""
    pace, done = Pace(), 0
    with Progress(common.err(), first_after_s=EVERY_S) as progress:
        client = access.client(progress.print_line)
        try:
            total = client.progress(supplier).total
            for contents in client.pull(supplier):
                files.add(contents)
                done += 1
                progress.show(pace.line(_("imports"), done, 0, done / max(total, done)), done / max(total, done))
        except NotFound as error:
            raise common.Stop(
                "The service has no supplier {supplier} that this key may read.", supplier=supplier
            ) from error


def _show_left_out(files: BookFiles) -> None:
    """Print the number of imports without an account on the platform, by status."""
    for status, number in sorted(files.left_out.items()):
        reason = _("the platform has lost the account: the operator heals it") if status == _LOST else status
        imports = counted(number, "import")
        common.print_line(common.err(), _("Left out: {imports}, {reason}", imports=imports, reason=reason))
