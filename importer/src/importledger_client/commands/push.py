"""`importbook push`: a whole book to the service, as often as one likes."""

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec
from rich.console import Console

from importledger_client import notes
from importledger_client.commands.common import Access, err, next_step, out, reaches_the_service, run_name, say
from importledger_client.commands.exit_codes import INTERRUPTED, NOTHING_DONE, OK, SOMETHING_WRONG
from importledger_client.commands.inputs import mapping_option, sources_of
from importledger_client.commands.watch import watch_runs
from importledger_client.display import Progress, duration, number, progress
from importledger_client.errors import ImportLedgerError
from importledger_client.failures import FailureFiles, csv_path, is_of_failures, ndjson_path
from importledger_client.memory import keep_memory_flat
from importledger_client.protocol import MODES
from importledger_client.pushing import Limit, Pushing
from importledger_client.sources import STDIN, Unreadable
from importledger_client.tally import Tally

if TYPE_CHECKING:
    from importledger_client.client import Client

_RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?)(?:/s)?\Z")
_LIMIT = re.compile(r"([0-9]+)\Z|([0-9]+(?:\.[0-9]+)?)\s*%\Z")
SHOWN_KINDS = 5
TOLD_EVERY_S = 5.0


def _limit(context: click.Context, parameter: click.Parameter, value: str | None) -> Limit:
    match = _LIMIT.match(value.strip()) if value is not None else None
    if value is not None and match is None:
        raise click.BadParameter(f"{value!r} is neither a number nor a share such as 2%.")
    if match is None:
        return Limit()
    if match.group(2) and float(match.group(2)) > 100:
        raise click.BadParameter(f"{value!r} must be a share between 0% and 100%, or a number of accounts.")
    return Limit(count=int(match.group(1))) if match.group(1) else Limit(percent=float(match.group(2)))


def _rate(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    match = _RATE.match(value.strip()) if value is not None else None
    if value is not None and (match is None or float(match.group(1)) <= 0):
        raise click.BadParameter(f"{value!r} is not a rate such as 200/s.")
    return float(match.group(1)) if match else None


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE…")
@click.option("--supplier", help="The supplier of all accounts; else each line names its own.")
@click.option("--mode", type=click.Choice(MODES), help="create (the default), validate, or dry_run.")
@click.option("--run", "run", callback=run_name, metavar="NAME", help="The run's name; else the file's.")
@click.option("--max-errors", "limit", callback=_limit, metavar="N|P%", help="Stop when more than this is refused.")
@click.option("--rate", callback=_rate, metavar="N/s", help="Accounts a second at most.")
@click.option("--connections", default=4, show_default=True, type=click.IntRange(1, 64))
@click.option("--json", "is_json", is_flag=True, help="End with the summary as JSON on standard output.")
@click.option("--wait", "is_to_wait", is_flag=True, help="Wait until everything has ended, as `watch` does.")
@mapping_option
@reaches_the_service
def push(
    files: tuple[str, ...],
    supplier: str | None,
    mode: str | None,
    run: str | None,
    limit: Limit,
    rate: float | None,
    connections: int,
    is_json: bool,
    is_to_wait: bool,
    mapping: Path | None,
    access: Access,
) -> int:
    """Send a book: NDJSON, plain, .gz or .zst (- is standard input); or CSV, XLSX, Parquet with --mapping.

    Running it again is resuming it. Exit code 0: all accepted or there before; 1: some refused; 2: wrong use or
    nothing done; 130: interrupted.
    """
    keep_memory_flat()
    known = notes.recall(run or notes.run_named_after(files[0], "create"), Path.cwd())
    mode = mode or (known.mode if known and is_of_failures(files[0]) else "create")
    run = run or notes.run_named_after(files[0], mode)
    pushing = Pushing(run, mode, supplier, sources_of(files, mapping, supplier, is_strict=True), rate)
    console = err()
    shown_progress = progress(console, run)
    client = access.client(_teller(shown_progress))
    code = _pushed(pushing, client, shown_progress, limit, connections)
    shown_on = err() if is_json else out()
    _report(shown_on, pushing)
    if is_json:
        click.echo(msgspec.json.encode({"summary": pushing.summary}).decode())
    taken, words = pushing.summary.accepted + pushing.summary.replayed, _next_command(pushing, code)
    if is_to_wait and taken and not pushing.ending and mode != "validate":
        suppliers = sorted(pushing.suppliers)
        expected = taken if len(suppliers) == 1 else 1
        watched, afterwards = watch_runs(client, run, suppliers, console, shown_on, expected)
        code, words = max(code, watched), words if code else afterwards
    if words:
        next_step(shown_on, *words, *access.words)
    return code


def _pushed(pushing: Pushing, client: "Client", shown: Progress, limit: Limit, connections: int) -> int:
    """Send everything, and say how it ended."""
    files = FailureFiles(pushing.run, Path.cwd())
    is_whole = False
    try:
        with shown:
            most = max(1, int(pushing.rate / 2)) if pushing.rate else None
            lines = pushing.lines_to_send(files)
            batches = client.push_batches(
                lines, mode=pushing.mode, run=pushing.run, connections=connections, most_lines=most
            )
            for batch in batches:
                pushing.take(batch, files)
                shown.show(pushing.receipts, pushing.summary.refused, pushing.share())
                if limit.is_passed(pushing.summary.refused, pushing.receipts, is_end=False):
                    pushing.ending = "Stopped: too many accounts were refused."
                    return SOMETHING_WRONG
            is_whole = True
    except KeyboardInterrupt:
        pushing.ending = "Interrupted. What was accepted is there; the same command again goes on from here."
        return INTERRUPTED
    except (ImportLedgerError, Unreadable) as error:
        pushing.ending = str(error)
        is_difference = isinstance(error, Unreadable) and error.is_difference
        return SOMETHING_WRONG if pushing.receipts or is_difference else NOTHING_DONE
    finally:
        client_files = frozenset(Path(name).resolve() for source in pushing.sources for name in source.files)
        files.close(is_whole=is_whole, keep=client_files)
        pushing.remember()
    if not pushing.receipts:
        pushing.ending = "There was nothing to send."
        return NOTHING_DONE
    if limit.is_passed(pushing.summary.refused, pushing.receipts, is_end=True):
        pushing.ending = "Too many accounts were refused."
    return SOMETHING_WRONG if pushing.summary.refused else OK


def _teller(shown: Progress) -> Callable[[str, float], None]:
    """Says now and then that the service is away."""
    told = 0.0

    def tell(why: str, seconds: float) -> None:
        nonlocal told
        if time.monotonic() - told > TOLD_EVERY_S:
            told = time.monotonic()
            shown.say(f"The service cannot be used just now, trying again: {why}")

    return tell


def _report(console: Console, pushing: Pushing) -> None:
    """The summary, and what accounts were refused for."""
    said, seconds = pushing.summary, pushing.pace.seconds
    say(
        console,
        f"run {pushing.run} · {pushing.mode} · {number(said.lines)} lines in {duration(seconds)}"
        f" ({number(pushing.pace.rate(pushing.receipts))}/s)",
    )
    say(
        console,
        f"accepted {number(said.accepted)} · replayed {number(said.replayed)} · refused {number(said.refused)}"
        + (f" · with warnings {number(said.warned)}" if said.warned else ""),
    )
    for source in pushing.sources:
        for sentence in source.written():
            say(console, sentence)
    _report_problems(console, pushing)
    if pushing.ending:
        say(console, pushing.ending)


def _report_problems(console: Console, pushing: Pushing) -> None:
    mend, table = ndjson_path(pushing.run, Path()).name, csv_path(pushing.run, Path()).name
    _report_kinds(console, "Most frequent errors:", pushing.tally)
    is_mended = pushing.receipts and not pushing.summary.refused and is_of_failures(pushing.sources[0].name)
    if is_mended and pushing.mode != "create":
        say(console, "These accounts would be accepted. Correct them in the whole book, too, before you send it.")
    if pushing.tally.accounts:
        say(console, f"Fix these accounts in {mend}; {table} lists every error.")
    _report_kinds(console, "Most frequent warnings:", pushing.warned)
    if pushing.warned.accounts:
        say(console, f"Accounts with warnings are accepted; {table} lists every warning.")


def _report_kinds(console: Console, title: str, tally: Tally) -> None:
    if not tally.accounts:
        return
    say(console, title)
    for code, path in tally.most()[:SHOWN_KINDS]:
        say(console, f"  {number(tally.numbers[code, path]):>9}  {code}  {path}".rstrip())
    rest = len(tally.numbers) - SHOWN_KINDS
    if rest > 0:
        say(console, f"  and {rest} more kinds")


def _next_command(pushing: Pushing, code: int) -> list[str]:
    """What to do now, as the words of a command; none where nothing can be said."""
    of_supplier = ["--supplier", pushing.supplier] if pushing.supplier else []
    files = [name for source in pushing.sources for name in source.files]
    mapped = [word for source in pushing.sources[:1] for word in source.words]
    in_mode = [] if pushing.mode == "create" else ["--mode", pushing.mode]
    if code == NOTHING_DONE:
        return []
    if mapped and not pushing.receipts:
        return ["map", "check", mapped[-1], files[0]]
    if code == INTERRUPTED or (pushing.ending and not pushing.summary.refused):
        again = ["push", *files, *mapped, *of_supplier, *in_mode, "--run", pushing.run]
        return again if files != [STDIN] else []
    if pushing.summary.refused:
        return ["errors", pushing.run, *of_supplier]
    if pushing.mode != "create" and is_of_failures(files[0]):
        return []
    if pushing.mode != "create":
        run = notes.run_named_after(files[0], "create")
        run = run if run != pushing.run else f"{run[:61]}-go"
        return ["push", *files, *mapped, *of_supplier, "--run", run, "--wait"]
    return ["watch", pushing.run, *of_supplier]
