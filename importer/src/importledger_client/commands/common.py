"""Parts that verbs share: options, consoles, the client, the files to read, and the end of a verb."""

import functools
import os
import re
import shlex
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click
from rich.console import Console

from importledger_client import notes
from importledger_client.commands import NOTHING_DONE
from importledger_client.display import EVERY_S, counted, number, visible
from importledger_client.error_counts import ErrorCounts
from importledger_client.errors import NotFound
from importledger_client.failures_workbook import is_workbook, sources_at
from importledger_client.language import _, is_german
from importledger_client.sources import Source
from importledger_client.tables.reading import is_table

if TYPE_CHECKING:
    from importledger_client.client import Client

F = TypeVar("F", bound=Callable[..., Any])

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}\Z")
"""Form of a W3C traceparent."""
SHOWN_KINDS = 5
_OFFLINE = frozenset({"generate", "map", "fix", "manifest"})
"""Verbs without the options of the service."""
_RUN = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,64}\Z")


class Stop(Exception):
    """Ends a verb with a sentence on standard error, in the user's language, and an exit code."""

    def __init__(self, text: str, code: int = NOTHING_DONE, /, **values: Any) -> None:
        super().__init__(_(text, **values))
        self.code = code


class Access:
    """Address and key of the service, from the options."""

    def __init__(self, url: str | None, key: str | None, *, insecure_http: bool = False) -> None:
        self.url, self.key, self._insecure_http = url, key, insecure_http

    def client(self, print_line: Callable[[str], None] | None = None) -> "Client":
        """Return a client that is closed at the end of the verb.

        While the service is unavailable, `print_line` is called with a sentence every few seconds.
        """
        from importledger_client.client import Client  # imported here: verbs that send nothing need no HTTP library

        last = float("-inf")

        def on_wait(why: str, seconds: float) -> None:
            nonlocal last
            if print_line is not None and time.monotonic() - last > EVERY_S:
                last = time.monotonic()
                print_line(_("The service cannot be used now; trying again: {why}", why=why))

        client = Client(
            self.url,
            self.key,
            traceparent=traceparent_of_shell(),
            on_wait=on_wait,
            insecure_http=self._insecure_http,
            language="de" if is_german() else "en",
        )
        click.get_current_context().call_on_close(client.close)
        return client

    @property
    def words(self) -> list[str]:
        """Options to repeat in a printed command, without the key."""
        url = ["--url", self.url] if self.url and self.url != os.environ.get("IMPORTLEDGER_URL") else []
        return [*url, "--insecure-http"] if self._insecure_http else url


def traceparent_of_shell() -> str | None:
    """Return TRACEPARENT of the environment, or None unless it is a W3C traceparent."""
    traceparent = os.environ.get("TRACEPARENT", "")
    return traceparent if _TRACEPARENT.match(traceparent) else None


def service_options(verb: F) -> F:
    """Give a verb the options --url, --key and --insecure-http, as `access`."""

    @click.option("--url", metavar="URL", help="Address of the service. [default: IMPORTLEDGER_URL]")
    @click.option("--key", metavar="KEY", help="Key; visible in process lists. [default: IMPORTLEDGER_KEY]")
    @click.option("--insecure-http", is_flag=True, help="Permission to send the key to another machine over http://.")
    @functools.wraps(verb)
    def wrapped(*arguments: Any, url: str | None, key: str | None, insecure_http: bool, **options: Any) -> Any:
        return verb(*arguments, access=Access(url, key, insecure_http=insecure_http), **options)

    return wrapped  # type: ignore[return-value]


mapping_option = click.option(
    "--mapping",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="M.yaml",
    help="Mapping from columns to accounts, for CSV, XLSX and Parquet files.",
)
files_argument = click.argument("files", nargs=-1, required=True, metavar="FILE…")
run_supplier_option = click.option(
    "--supplier", metavar="CODE", help="Supplier of the run. [default: as noted by `push`]"
)
book_supplier_option = click.option(
    "--supplier", metavar="CODE", help="Supplier of all accounts. [default: the one that each names]"
)


def run_name(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Return the name of a run, which becomes part of file names and addresses. Raises BadParameter."""
    if value is not None and not _RUN.match(value):
        raise click.BadParameter(
            _("A run must have 1 to 64 letters, digits, full stops, underscores and hyphens, and must not be . or ..")
        )
    return value


def sources_of(
    files: Sequence[str], mapping: Path | None, supplier: str | None, *, is_strict: bool = False
) -> list[Source]:
    """Return the files as sources of lines. Raises Stop for a table without a mapping, and Unreadable.

    With `is_strict`, an incomplete mapping yields no account.
    """
    for file in files if mapping is None else ():
        if is_table(file) and not is_workbook(file):
            proposal = command("map", "init", file)
            raise Stop(
                "{file} is a table and needs --mapping. Propose one with: {proposal}", file=file, proposal=proposal
            )
    return sources_at(files, str(mapping or ""), supplier, is_strict=is_strict)


def out() -> Console:
    """Return a console on standard output, for results."""
    return Console(highlight=False, markup=False, emoji=False)


def err() -> Console:
    """Return a console on standard error, for progress and errors."""
    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def print_line(console: Console, *texts: str) -> None:
    """Print each text as a line, without folding it, so that commands can be copied."""
    for text in texts:
        console.print(visible(text), soft_wrap=True)


def of_system(error: OSError) -> str:
    """Return the sentence for an error of the operating system: the file, then the reason."""
    if not error.strerror:
        return str(error)
    if not error.filename:
        return f"{_(error.strerror)}."
    return f"{error.filename}: {_(error.strerror)}."


def report_kinds(console: Console, title: str, error_counts: ErrorCounts) -> None:
    """Print the title and the most frequent kinds. Print nothing for an empty tally."""
    if not error_counts.accounts:
        return
    print_line(console, title)
    for code, path in error_counts.most_frequent()[:SHOWN_KINDS]:
        print_line(console, f"  {number(error_counts.numbers[code, path]):>9}  {code}  {path}".rstrip())
    more = len(error_counts.numbers) - SHOWN_KINDS
    if more > 0:
        print_line(console, "  " + _("and {more}", more=counted(more, "more kind")))


def command(*words: str) -> str:
    """Return a command line of importbook, quoted for a shell."""
    return shlex.join(["importbook", *words])


def label(name: str) -> str:
    """Return the label of a count or sum of a manifest."""
    return _(name.replace("_", " "))


def next_step(console: Console, *words: str, access: Access | None = None) -> None:
    """Print the next command, with the options of `access` unless its verb needs no service."""
    options = access.words if access is not None and words[0] not in _OFFLINE else []
    print_line(console, _("next:  {command}", command=command(*words, *options)))


def words_of(*, mapping: str = "", supplier: str | None = "", mode: str = "create") -> list[str]:
    """Return the options that a printed command repeats."""
    mapped = ["--mapping", mapping] if mapping else []
    return [*mapped, *(["--supplier", supplier] if supplier else []), *(["--mode", mode] if mode != "create" else [])]


def supplier_of(run: str, given: str | None, *given_suppliers: str | None) -> str:
    """Return the supplier of a run: the given supplier, the supplier in the notes of `push`, or the only supplier of
    `given_suppliers`. Raises Stop.
    """
    if given:
        return given
    note = notes.load_note(run, Path.cwd())
    known = (note.suppliers if note else []) or [given_supplier for given_supplier in given_suppliers if given_supplier]
    if len(known) == 1:
        return known[0]
    if known:
        shown = ", ".join(known)
        raise Stop("The run {run} has accounts of {suppliers}: choose one with --supplier.", run=run, suppliers=shown)
    if note:
        raise Stop("No line of the run {run} named a supplier: name it with --supplier.", run=run)
    raise Stop("This folder has no note on the run {run}: name its supplier with --supplier.", run=run)


def no_such_run(run: str, supplier: str, error: NotFound) -> NoReturn:
    raise Stop("The service has no run {run} of {supplier}.", run=run, supplier=supplier) from error
