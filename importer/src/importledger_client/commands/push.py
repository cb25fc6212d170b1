"""`importbook push`: send a book, or resume an interrupted push."""

import contextlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec
from rich.console import Console

from importledger_client import notes
from importledger_client.commands import INTERRUPTED, NOTHING_DONE, OK, SOMETHING_WRONG, common
from importledger_client.commands.manifest import Making
from importledger_client.commands.watch import Expected, watch_runs
from importledger_client.display import EVERY_S, Progress, counted, duration, number
from importledger_client.errors import ImportLedgerError
from importledger_client.failures import FailureFiles, csv_path, is_of_failures, ndjson_path
from importledger_client.language import _
from importledger_client.memory import keep_memory_flat
from importledger_client.protocol import MODES
from importledger_client.pushing import Limit, Pushing
from importledger_client.sources import STDIN, Differs, Unreadable

if TYPE_CHECKING:
    from importledger_client.client import Client

_RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?)(?:/s)?\Z")
_LIMIT = re.compile(r"([0-9]+)\Z|([0-9]+(?:\.[0-9]+)?)\s*%\Z")


def _limit(context: click.Context, parameter: click.Parameter, value: str | None) -> Limit:
    if value is None:
        return Limit()
    match = _LIMIT.match(value.strip())
    if match is None or float(match.group(2) or 0) > 100:
        raise click.BadParameter(
            _("{value!r} must be a share between 0% and 100%, or a number of accounts.", value=value)
        )
    return Limit(count=int(match.group(1))) if match.group(1) else Limit(percent=float(match.group(2)))


def _rate(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    match = _RATE.match(value.strip()) if value is not None else None
    if value is not None and (match is None or float(match.group(1)) <= 0):
        raise click.BadParameter(_("{value!r} must be a rate such as 200/s.", value=value))
    return float(match.group(1)) if match else None


@click.command(epilog="Example: importbook push book.ndjson --mode validate --run reh-1")
@common.files_argument
@common.book_supplier_option
@click.option("--mode", type=click.Choice(MODES), help="Mode of the push. [default: create]")
@click.option("--run", "run", callback=common.run_name, metavar="NAME", help="Name of the run. [default: file name]")
@click.option(
    "--max-errors",
    "limit",
    callback=_limit,
    metavar="N|P%",
    help="Most refusals before the push stops. [default: no limit]",
)
@click.option("--rate", callback=_rate, metavar="N/s", help="Accounts a second at most. [default: no limit]")
@click.option(
    "--connections", default=4, show_default=True, type=click.IntRange(1, 64), help="Requests at the same time."
)
@click.option("--json", "is_json", is_flag=True, help="Summary as JSON on standard output, at the end.")
@click.option(
    "--manifest",
    "output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Manifest to write, as `manifest` does, from the lines that are sent.",
)
@click.option("--wait", "is_to_wait", is_flag=True, help="Watch of the run until all its imports have ended.")
@common.mapping_option
@common.service_options
def push(
    files: tuple[str, ...],
    supplier: str | None,
    mode: str | None,
    run: str | None,
    limit: Limit,
    rate: float | None,
    connections: int,
    is_json: bool,
    output: Path | None,
    is_to_wait: bool,
    mapping: Path | None,
    access: common.Access,
) -> int:
    """Send a book, or resume an interrupted push.

    FILE is NDJSON (plain, .gz, .zst, or - for standard input), or CSV, XLSX or Parquet with --mapping. Exit code 0: the
    service has all accounts; 1: the service refused accounts; 2: wrong usage, or no account sent; 130: interrupted.
    """
    keep_memory_flat()
    known = notes.load_note(run or notes.run_named_after(files[0], "create"), Path.cwd())
    mode = mode or (known.mode if known and is_of_failures(files[0]) else "create")
    run = run or notes.run_named_after(files[0], mode)
    pushing = Pushing(run, mode, supplier, common.sources_of(files, mapping, supplier, is_strict=True), rate)
    console = common.err()
    progress = Progress(console, first_after_s=EVERY_S)
    client = access.client(progress.print_line)
    for source in pushing.sources:
        source.show = progress.show
    shown_on = common.err() if is_json else common.out()
    making = Making(output, pushing.sources, supplier, 1) if output is not None else None
    pushing.on_line = making.add if making else None
    code = _pushed(pushing, client, progress, limit, connections)
    _report(shown_on, pushing)
    if making is not None:
        code = max(code, _manifest_of(pushing, making, shown_on))
    if is_json:
        click.echo(msgspec.json.encode({"summary": pushing.summary}).decode())
    stored, words = sorted(pushing.stored_suppliers()), _next_command(pushing, code)
    if is_to_wait and stored and not pushing.ending and mode != "validate":
        expected = {name: Expected(pushing.accepted[name], pushing.replayed[name]) for name in stored}
        try:
            watched, afterwards = watch_runs(client, run, expected, console, shown_on)
        except (ImportLedgerError, common.Stop) as error:  # not exit code 2, which says that nothing was sent
            common.print_line(console, str(error))
            watched, afterwards = SOMETHING_WRONG, ["watch", run, *common.words_of(supplier=pushing.supplier)]
        code, words = max(code, watched), words if code else afterwards
    if words:
        common.next_step(shown_on, *words, access=access)
    return code


def _manifest_of(pushing: Pushing, making: Making, console: Console) -> int:
    """Write the manifest after a push of all lines, and return the exit code."""
    with contextlib.closing(making):
        if pushing.is_whole:
            return min(making.write(console), SOMETHING_WRONG)
    common.print_line(console, _("No manifest was written, since not all lines were sent."))
    return OK


def _pushed(pushing: Pushing, client: "Client", progress: Progress, limit: Limit, connections: int) -> int:
    """Send all lines, and return the exit code."""
    files = FailureFiles(pushing.run, Path.cwd())
    try:
        with progress:
            most = max(1, int(pushing.rate / 2)) if pushing.rate else None
            lines = pushing.lines_to_send(files)
            batches = client.push_batches(
                lines, mode=pushing.mode, run=pushing.run, connections=connections, most_lines=most
            )
            for batch in batches:
                pushing.add_receipts(batch, files)
                refused, share = pushing.summary.refused, pushing.share()
                progress.show(pushing.pace.line(pushing.run, pushing.receipts, refused, share), share)
                if limit.is_passed(refused, pushing.receipts, is_end=False):
                    pushing.ending = _("Stopped: too many accounts were refused.")
            if pushing.ending:
                return SOMETHING_WRONG
            files.flush()
            pushing.is_whole = True
    except KeyboardInterrupt:
        pushing.ending = _("Interrupted. The service keeps what it has accepted; the same command again resumes here.")
        return INTERRUPTED
    except (ImportLedgerError, Unreadable) as error:
        pushing.ending = str(error)
        return SOMETHING_WRONG if pushing.receipts or isinstance(error, Differs) else NOTHING_DONE
    except OSError as error:
        pushing.ending = common.of_system(error)
        return SOMETHING_WRONG if pushing.receipts else NOTHING_DONE
    finally:
        keep = frozenset(Path(name).resolve() for name in pushing.files)
        files.close(is_whole=pushing.is_whole, keep=keep, keeps_last=pushing.has_no_supplier)
        pushing.has_files = files.is_stored
        pushing.save_note()
    if not pushing.receipts:
        files_sent = ", ".join(pushing.files)
        pushing.ending = _("There was nothing to send: {files} must have an account.", files=files_sent)
        return NOTHING_DONE
    if limit.is_passed(pushing.summary.refused, pushing.receipts, is_end=True):
        pushing.ending = _("Too many accounts were refused.")
    return SOMETHING_WRONG if pushing.summary.refused else OK


def _report(console: Console, pushing: Pushing) -> None:
    """Print the summary and the most frequent errors and warnings."""
    summary, seconds = pushing.summary, pushing.pace.seconds
    common.print_line(
        console,
        _(
            "run {run} · {mode} · {lines} in {time} ({rate}/s)",
            run=pushing.run,
            mode=pushing.mode,
            lines=counted(summary.lines, "line"),
            time=duration(seconds),
            rate=number(pushing.pace.rate(pushing.receipts)),
        ),
    )
    counts = {_("accepted"): summary.accepted, _("replayed"): summary.replayed, _("refused"): summary.refused}
    counts |= {_("with warnings"): summary.warned} if summary.warned else {}
    common.print_line(console, " · ".join(f"{name} {number(count)}" for name, count in counts.items()))
    for source in pushing.sources:
        common.print_line(console, *source.written())
    failures, table = ndjson_path(pushing.run, Path()).name, csv_path(pushing.run, Path()).name
    common.report_kinds(console, _("Most frequent errors:"), pushing.error_counts)
    is_corrected = pushing.receipts and not summary.refused and is_of_failures(pushing.files[0])
    if is_corrected and pushing.mode != "create":
        sentence = _("These accounts would be accepted. Fix them in the whole book, too, before you send it.")
        common.print_line(console, sentence)
    if pushing.has_no_supplier:
        reason = pushing.supplier_sentence
        sentence = _("Refused for the supplier: {reason} Files of the run stay as they are.", reason=reason)
        common.print_line(console, sentence)
    elif pushing.error_counts.accounts and pushing.has_files:
        sentence = _("Fix these accounts in {failures}; {table} lists every error.", failures=failures, table=table)
        common.print_line(console, sentence)
    common.report_kinds(console, _("Most frequent warnings:"), pushing.warned)
    if pushing.warned.accounts and pushing.has_files:
        sentence = _("Accounts with warnings are accepted; {table} lists every warning.", table=table)
        common.print_line(console, sentence)
    if pushing.ending:
        common.print_line(console, pushing.ending)


def _next_command(pushing: Pushing, code: int) -> list[str]:
    """Return the words of the next command, [] if there is no useful next command."""
    files, mapping = pushing.files, pushing.sources[0].mapping
    refused_for_supplier = common.words_of(supplier=pushing.supplier)
    if code == NOTHING_DONE:
        return []
    if mapping and not pushing.receipts:
        return ["map", "check", mapping, files[0]]
    if code == INTERRUPTED or (pushing.ending and not (pushing.summary.refused and pushing.has_files)):
        words = common.words_of(mapping=mapping, supplier=pushing.supplier, mode=pushing.mode)
        return ["push", *files, *words, "--run", pushing.run] if files != [STDIN] else []
    if pushing.has_no_supplier:
        return []
    if pushing.summary.refused:
        return ["errors", pushing.run, *refused_for_supplier]
    if pushing.mode == "create":
        return ["watch", pushing.run, *refused_for_supplier]
    if is_of_failures(files[0]):
        return []
    run = notes.run_named_after(files[0], "create")
    run = run if run != pushing.run else f"{run[:61]}-go"
    return ["push", *files, *common.words_of(mapping=mapping), *refused_for_supplier, "--run", run, "--wait"]
