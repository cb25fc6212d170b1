"""The verb `demo`, which imports a sample book with the importer's commands, from export to certificate."""

import contextlib
import io
import json
import os
import shlex
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from rich.console import Console

from api.access.api_key import new_api_key
from cli.language import _
from cli.operator import caused_by
from cli.service.roles import run_service
from cli.service.settings import Settings
from cli.service.signals import stop_on_signals
from embedded.folder import DataFolder
from embedded.service import Connections, Service
from eventstore.aggregates import organisation, supplier
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from projections import INLINE
from projections.auxiliary.user_details import find_user_details
from telemetry.log import begin_process
from workers.operations import SignInLink, create_user, new_details, new_link

SUPPLIER = "NORDWIND"
ORGANISATION = "Nordwind Energie"
USER = "demo@example.org"
ERROR_SHARE = "2%"
REHEARSAL, RUN = "rehearsal", "go-live"


@click.command()
@click.option("--port", default=8000, show_default=True, type=click.IntRange(1, 65535), help="Port to listen on.")
@click.option(
    "--accounts",
    default=1000,
    show_default=True,
    type=click.IntRange(1, 1_000_000),
    help="Accounts in the book.",
)
@click.option("--seed", default=1, show_default=True, help="Seed of the sample book.")
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path),
    help="Data folder [default: a temporary one]",
)
@click.option("--exit", "is_to_exit", is_flag=True, help="End after the import, with exit code 0 if it succeeded.")
def demo(port: int, accounts: int, seed: int, data_dir: Path | None, is_to_exit: bool) -> None:
    """Import a sample book into a new service of its own.

    Shows the commands with which an importer rehearses, imports and certifies a book of German accounts.
    """
    settings = Settings.from_environment()
    begin_process("error")
    stop = stop_on_signals()
    console = Console(highlight=False)
    folder = data_dir or Path(tempfile.mkdtemp(prefix="importledger-demo-"))
    outcome: list[bool] = []

    def show(base_url: str, service: Service, connections: Connections) -> None:
        sentence = _(
            "The import ledger listens on {url} and keeps its data in {folder}.",
            url=f"[bold]{base_url}[/bold]", folder=folder,
        )  # fmt: skip
        console.print(sentence)
        api_key, link = _prepare(connections.admin_url)
        with _importing(base_url, api_key, folder / "importing"):
            outcome.append(_run_steps(console, accounts, seed))
        if is_to_exit:
            return
        console.print(_("The console:"), style="bold")
        print(f"{base_url}/console/")
        print(_("{link} signs in once, within 15 minutes.", link=link.address(base_url)))
        console.print(_("Try it:"), style="bold")
        for line in curl_lines(base_url, api_key, f"{SUPPLIER[:2]}-{seed:02d}{1:07d}"):
            print(line)
        console.print(_("The service continues to run. Stop it with Ctrl-C."))
        service.supervisor.watch(stop)

    folder.mkdir(parents=True, exist_ok=True)
    try:
        run_service(
            settings, DataFolder(folder), show, stop, host="127.0.0.1", port=_free_port(port), log_folder=folder
        )
    finally:
        if data_dir is None:
            shutil.rmtree(folder, ignore_errors=True)
    sys.exit(0 if outcome and outcome[0] else 1)


def _prepare(admin_url: str) -> tuple[str, SignInLink]:
    """Create the supplier, a key for it, and an operator. Return the key and the operator's sign-in link."""
    fresh = new_api_key()
    command = organisation.CreateKey(
        key_id=fresh.key_id, secret_sha256=fresh.secret_sha256, role="importer", suppliers=(SUPPLIER,)
    )
    with contextlib.closing(Ledger(admin_url, views=INLINE)) as ledger:
        ledger.execute(supplier.stream_of(SUPPLIER), supplier.CreateSupplier(), at=now(), by=caused_by())
        ledger.execute(organisation.stream_of(ORGANISATION), command, at=now(), by=caused_by())
        with ledger.connection() as connection:
            known = find_user_details(connection, USER)
        details = known[0] if known else new_details(USER, "", "Platform")
        if not known:
            create_user(ledger, details, "operator", ("*",), by=caused_by())
        return fresh.api_key, new_link(ledger, details.user_id, by=caused_by())


@contextlib.contextmanager
def _importing(base_url: str, api_key: str, folder: Path) -> Iterator[None]:
    """Run the block in the importer's working folder and environment."""
    folder.mkdir(exist_ok=True)
    before = Path.cwd()
    os.environ |= {"IMPORTLEDGER_URL": base_url, "IMPORTLEDGER_KEY": api_key}
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _run_steps(console: Console, accounts: int, seed: int) -> bool:
    """Run each step of an importer with its command. Return True if all ended as expected."""
    started = time.monotonic()
    book = ["generate", "--accounts", str(accounts), "--seed", str(seed), "--supplier", SUPPLIER]
    refused = 1 if accounts >= 50 else 0
    steps: tuple[tuple[list[str], str, int], ...] = (
        ([*book, "--errors", ERROR_SHARE], f"{REHEARSAL}.ndjson", 0),
        (["push", f"{REHEARSAL}.ndjson", "--mode", "validate", "--run", REHEARSAL], "", refused),
        (["errors", REHEARSAL], "", 0),
        (book, f"{RUN}.ndjson", 0),
        (["push", f"{RUN}.ndjson", "--run", RUN, "--wait"], "", 0),
        (["manifest", f"{RUN}.ndjson", "-o", f"{RUN}.manifest.json"], "", 0),
        (["reconcile", RUN, "--manifest", f"{RUN}.manifest.json"], "", 0),
    )
    succeeded = True
    for arguments, output, expected in steps:
        console.print(f"\n$ importbook {shlex.join(arguments)}" + (f" > {output}" if output else ""), style="bold")
        succeeded &= _run(arguments, output) == expected
    console.print("\n" + _("All of it took {seconds:.1f} s.", seconds=time.monotonic() - started))
    return succeeded


def _run(arguments: Sequence[str], output: str) -> int:
    """Run a verb of importbook, which is a separate package, in this process. Return its exit code."""
    from importledger_client.commands.main import run

    if not output:
        return run(arguments)
    with Path(output).open("wb") as file, contextlib.redirect_stdout(io.TextIOWrapper(file)):
        return run(arguments)


def curl_lines(base_url: str, api_key: str, external: str) -> list[str]:
    """Return commands to paste into a shell: two that read a status, and a validation that finds errors."""
    bad = json.dumps({"import_supplier": SUPPLIER, "external_account_number": "X-1", "customers": [{"mobile": "1"}]})
    send = "curl -s -H \"Authorization: Token $KEY\" -H 'Content-Type: application/json'"
    return [
        f"KEY={api_key}",
        f"{send} {base_url}/v2/data-import/accounts/{SUPPLIER}/{external}/",
        f"{send} {base_url}/v1/data-import/account-transfer-status/{SUPPLIER}/{external}/",
        f"{send} {base_url}/v2/data-import/accounts/validate/ -d '{bad}'",
    ]


def _free_port(preferred: int) -> int:
    """Return the wanted port, or a free port if the wanted port is taken."""
    for port in (preferred, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise OSError("no free port")
