"""What the verbs share: options, consoles, the way to the service, and what ends a verb."""

import functools
import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click
from rich.console import Console

from importledger_client import notes
from importledger_client.commands.exit_codes import NOTHING_DONE
from importledger_client.errors import NotFound
from importledger_client.visible import visible

if TYPE_CHECKING:
    from importledger_client.client import Client

F = TypeVar("F", bound=Callable[..., Any])

_PLACE = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}\Z")
"""How W3C writes a place in a trace."""
_RUN = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,64}\Z")


class Stop(Exception):
    """The end of a verb: a sentence on standard error, and an exit code."""

    def __init__(self, sentence: str, code: int = NOTHING_DONE) -> None:
        super().__init__(sentence)
        self.code = code


class Access:
    """Where the service is, as the options say."""

    def __init__(self, url: str | None, key: str | None, *, insecure_http: bool = False) -> None:
        self.url, self.key, self._insecure_http = url, key, insecure_http

    def client(self, on_wait: Callable[[str, float], None] | None = None) -> "Client":
        """A client until the verb ends. Loaded here: verbs that send nothing start without an HTTP library."""
        from importledger_client.client import Client

        client = Client(
            self.url,
            self.key,
            traceparent=traceparent_of_shell(),
            on_wait=on_wait,
            insecure_http=self._insecure_http,
        )
        click.get_current_context().call_on_close(client.close)
        return client

    @property
    def words(self) -> list[str]:
        """To repeat in a command that is printed; a key never is."""
        url = ["--url", self.url] if self.url and self.url != os.environ.get("IMPORTLEDGER_URL") else []
        return [*url, "--insecure-http"] if self._insecure_http else url


def traceparent_of_shell() -> str | None:
    """The place in a trace that the shell is in, where one is set; what is none is left alone."""
    said = os.environ.get("TRACEPARENT", "")
    return said if _PLACE.match(said) else None


def reaches_the_service(verb: F) -> F:
    """Gives a verb the options --url, --key and --insecure-http, as `access`."""

    @click.option("--url", help="The service's address; else IMPORTLEDGER_URL.")
    @click.option("--key", help="The organisation's key; else IMPORTLEDGER_KEY, which does not show in process lists.")
    @click.option("--insecure-http", is_flag=True, help="Send the key over plain HTTP to another machine.")
    @functools.wraps(verb)
    def wrapped(*arguments: Any, url: str | None, key: str | None, insecure_http: bool, **options: Any) -> Any:
        return verb(*arguments, access=Access(url, key, insecure_http=insecure_http), **options)

    return wrapped  # type: ignore[return-value]


def run_name(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """A run's name as the service takes it: it becomes part of file names and addresses."""
    if value is not None and not _RUN.match(value):
        raise click.BadParameter(
            "A run must have 1 to 64 letters, digits, full stops, underscores and hyphens, and must not be . or .."
        )
    return value


def out() -> Console:
    """Standard output: results."""
    return Console(highlight=False, markup=False, emoji=False)


def err() -> Console:
    """Standard error: progress, and what went wrong."""
    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def say(console: Console, text: str = "") -> None:
    """A line that is never folded: commands are to be copied."""
    console.print(visible(text), soft_wrap=True)


def command(*words: str) -> str:
    """A command line as one types it."""
    return shlex.join(["importbook", *words])


def next_step(console: Console, *words: str) -> None:
    """The exact next command."""
    say(console, f"next:  {command(*words)}")


def supplier_of(run: str, given: str | None, *others: str | None) -> str:
    """The supplier that a run is about: as given, else as noted by the push, else as the others say. Raises Stop."""
    if given:
        return given
    note = notes.recall(run, Path.cwd())
    known = (note.suppliers if note else []) or [other for other in others if other]
    if len(known) == 1:
        return known[0]
    if known:
        raise Stop(f"The run {run} has accounts of {', '.join(known)}: say which with --supplier.")
    raise Stop(f"Nothing is noted here about the run {run}: say its supplier with --supplier.")


def no_such_run(run: str, supplier: str, error: NotFound) -> NoReturn:
    raise Stop(f"The service knows no run {run} of {supplier}.") from error
