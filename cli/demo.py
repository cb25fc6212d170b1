"""`importledger demo`: the main job on sample data, start to end, on a service of its own."""

import collections
import json
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from api.auth import new_key
from cli.log import configure_logging
from cli.operator import caused_by
from cli.roles import run_service
from cli.settings import Settings
from cli.signals import stop_on_signals
from embedded.folder import DataFolder
from embedded.service import Connections, Service
from eventstore.aggregates import organisation, supplier
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from projections import INLINE

if TYPE_CHECKING:  # the importing party's side is a distribution of its own: only this verb needs it
    from importledger_client import Client
    from importledger_client.book import BookEntry

SUPPLIER = "NORDWIND"
ORGANISATION = "Nordwind Energie"
PROCESSING_TIMEOUT_S = 60.0


SENDERS = 8
ERRORS = Fraction(2, 100)


class Demonstration(msgspec.Struct, frozen=True):
    """What was sent, the codes that each account was refused with, and what became of it."""

    entries: "list[BookEntry]"
    answers: list[tuple[str, ...]]
    statuses: dict[str, int]

    def went_as_expected(self) -> bool:
        """Every good account has a platform account, every spoilt one was refused with the code it was spoilt for."""
        good = sum(entry.expected_code is None for entry in self.entries)
        as_expected = all(
            not codes if entry.expected_code is None else entry.expected_code in codes
            for entry, codes in zip(self.entries, self.answers, strict=True)
        )
        return as_expected and self.statuses.get("PROCESSED", 0) == good


@click.command()
@click.option("--port", default=8000, show_default=True, type=click.IntRange(1, 65535))
@click.option("--accounts", default=1000, show_default=True, type=click.IntRange(1, 1_000_000))
@click.option("--seed", default=1, show_default=True, help="Another seed gives another book.")
@click.option("--data-dir", type=click.Path(path_type=Path), help="Keep the data here; else it is thrown away.")
@click.option("--exit", "is_to_exit", is_flag=True, help="End when it is done, 0 when all went as expected.")
def demo(port: int, accounts: int, seed: int, data_dir: Path | None, is_to_exit: bool) -> None:
    """Start the service, import a sample book of German accounts, and show what became of it."""
    from importledger_client import Client

    settings = Settings.from_environment()
    configure_logging("error")
    stop = stop_on_signals()
    console = Console()
    folder = data_dir or Path(tempfile.mkdtemp(prefix="importledger-demo-"))
    outcome: list[bool] = []

    def show(base_url: str, service: Service, connections: Connections) -> None:
        console.print(f"The import ledger listens on [bold]{base_url}[/bold] and keeps its data in {folder}.")
        api_key = _prepare(connections.admin_url)
        with Client(base_url, api_key) as client:
            demonstration = _import_book(console, client, accounts, seed)
        _report(console, demonstration, base_url, api_key)
        outcome.append(demonstration.went_as_expected())
        if not is_to_exit:
            console.print("The service goes on running. Stop it with Ctrl-C.")
            service.supervisor.watch(stop)

    folder.mkdir(parents=True, exist_ok=True)
    try:
        run_service(
            settings,
            DataFolder(folder),
            show,
            host="127.0.0.1",
            port=_free_port(port),
            workers=1,
            log_folder=folder,
        )
    finally:
        if data_dir is None:
            shutil.rmtree(folder, ignore_errors=True)
    sys.exit(0 if outcome and outcome[0] else 1)


def _prepare(admin_url: str) -> str:
    """A supplier and a key for it."""
    ledger = Ledger(admin_url, views=INLINE)
    fresh = new_key()
    command = organisation.CreateKey(
        key_id=fresh.key_id, secret_sha256=fresh.secret_sha256, role="importer", suppliers=(SUPPLIER,)
    )
    ledger.execute(supplier.stream_of(SUPPLIER), supplier.CreateSupplier(), at=now(), by=caused_by())
    ledger.execute(organisation.stream_of(ORGANISATION), command, at=now(), by=caused_by())
    ledger.close()
    return fresh.api_key


def _import_book(console: Console, client: "Client", accounts: int, seed: int) -> Demonstration:
    from importledger_client.book import book

    with console.status("Generating the book …"):
        entries = list(book(SUPPLIER, accounts, seed=seed, errors=ERRORS))
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    answers = []
    with Progress(*columns, console=console) as progress:
        sending = progress.add_task("Sending the book   ", total=len(entries))
        started = time.monotonic()
        for codes in _created(client, (entry.body for entry in entries)):
            answers.append(codes)
            progress.advance(sending)
        sent_s = time.monotonic() - started
        taken = [entry for entry, codes in zip(entries, answers, strict=True) if not codes]
        processing = progress.add_task("Creating accounts  ", total=len(taken))
        statuses = collections.Counter({"REFUSED": len(entries) - len(taken)})
        for entry in taken:
            ended = client.wait(SUPPLIER, entry.external_account_number, timeout_s=PROCESSING_TIMEOUT_S)
            statuses[ended.status] += 1
            progress.advance(processing)
    console.print(
        f"{len(entries)} accounts in {sent_s:.1f} s; all processed {time.monotonic() - started:.1f} s after the first."
    )
    return Demonstration(entries, answers, dict(statuses))


def _created(client: "Client", bodies: Iterable[bytes]) -> Iterator[tuple[str, ...]]:
    """The codes that each account was refused with, in order."""
    from importledger_client import Refused

    def create(body: bytes) -> tuple[str, ...]:
        try:
            client.create(body)
        except Refused as refused:
            return tuple(error.code for error in refused.errors)
        return ()

    with ThreadPoolExecutor(SENDERS) as pool:
        yield from pool.map(create, bodies)


def _report(console: Console, demonstration: Demonstration, base_url: str, api_key: str) -> None:
    counts = Table("status", "imports", title="What became of the book")
    for status, count in sorted(demonstration.statuses.items()):
        counts.add_row(status, str(count))
    console.print(counts)
    counted = collections.Counter(code for codes in demonstration.answers for code in codes)
    errors = Table("code", "times", title="Why accounts were refused")
    for code, count in counted.most_common(10):
        errors.add_row(code, str(count))
    console.print(errors)
    external = demonstration.entries[0].external_account_number
    console.print("Try it:", style="bold")
    for line in curl_lines(base_url, api_key, external):
        print(line)


def curl_lines(base_url: str, api_key: str, external: str) -> list[str]:
    """Commands to paste: a token, a status, a list, a validation that finds errors."""
    query = json.dumps(
        {"query": f'mutation {{ obtainToken(input: {{organizationSecretKey: "{api_key}"}}) {{ token }} }}'}
    )
    take = """python3 -c 'import json,sys; print(json.load(sys.stdin)["data"]["obtainToken"]["token"])'"""
    bad = json.dumps({"import_supplier": SUPPLIER, "external_account_number": "X-1", "customers": [{"mobile": "1"}]})
    send = "curl -s -H \"Authorization: Token $TOKEN\" -H 'Content-Type: application/json'"
    return [
        f"TOKEN=$(curl -s {base_url}/v1/graphql/ -H 'Content-Type: application/json' -d '{query}' | {take})",
        f"{send} {base_url}/v2/data-import/accounts/{SUPPLIER}/{external}/",
        f"{send} {base_url}/v1/data-import/account-transfer-status/{SUPPLIER}/{external}/",
        f"{send} {base_url}/v2/data-import/accounts/validate/ -d '{bad}'",
    ]


def _free_port(wanted: int) -> int:
    """The wanted port, or any free one where that is taken: a demonstration should not fail on it."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise OSError("no free port")
