"""The auditors' verbs for taking a history along: `export` to a file, `replay` of a file by today's code."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from cli.audit import MomentParam
from cli.known import require_supplier
from cli.operator import open_ledger
from cli.say import say
from cli.tell import json_option, tell
from eventstore.aggregates import supplier
from eventstore.aggregates.import_process import ImportErrored, ImportProcess, ImportProcessed
from eventstore.aggregates.supplier import Supplier
from eventstore.events import Recorded
from eventstore.operations.export import (
    PayloadLine,
    body_of,
    header_of,
    read_export,
)
from eventstore.operations.export import export as write_export
from eventstore.replay import Replay
from market.judging import Terms
from projections.history import AsOf
from workers.process_imports import judged_account

MAX_TOLD = 100


@click.command("export")
@click.option("--supplier", "supplier_code", required=True, help="Whose history.")
@click.option("--from", "first", type=MomentParam(is_end=False), help="Not before: a position, a time, or a day.")
@click.option("--to", "last", type=MomentParam(), help="Not after: a position, a time, or a day.")
@click.option("--payloads", is_flag=True, help="Also what was sent: personal data.")
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path, dir_okay=False), help="FILE.ndjson.zst")
@json_option
def export_history(
    supplier_code: str, first: AsOf | None, last: AsOf | None, payloads: bool, output: Path, as_json: bool
) -> None:
    """Write a supplier's history into a file, streamed; `replay` reads it."""
    first, last = first or AsOf(), last or AsOf()
    bounds = {
        "first_position": first.position,
        "first_time": first.time,
        "last_position": last.position,
        "last_time": last.time,
    }
    header = header_of(supplier_code, _text(first), _text(last))
    with open_ledger() as ledger, ledger.connection() as connection:
        require_supplier(connection, supplier_code)
        connection.execute("SET statement_timeout = 0")
        end = write_export(connection, output, header, bounds, payloads=payloads)
    told = {"file": str(output), "supplier": supplier_code, "events": end.events, "payloads": end.payloads}
    tell(f"{output} has {end.events} events and {end.payloads} payloads of {supplier_code}.", told, as_json=as_json)


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@json_option
def replay(file: Path, as_json: bool) -> None:
    """Run today's code over the history in FILE; name each event that it would decide otherwise. Exit code 1 then."""
    replayed = Replay()
    bodies: dict[str, tuple[str, bytes]] = {}
    judged = diverged = 0
    differing: list[dict[str, Any]] = []
    for line in read_export(file):
        if isinstance(line, PayloadLine):
            bodies[line.stream] = (line.sha256, body_of(line))  # the newest of a stream is what is processed
            continue
        recorded = line.recorded()
        for sentence in (*_divergences(replayed, recorded), *_judgement(replayed, recorded, bodies)):
            diverged += 1
            if diverged > MAX_TOLD:
                continue
            differing.append({"position": recorded.position, "stream": recorded.stream, "detail": sentence})
            if not as_json:
                say(f"position {recorded.position}, {recorded.stream}: {sentence}")
        if isinstance(recorded.event, ImportProcessed | ImportErrored):
            judged += bodies.pop(recorded.stream, None) is not None
    told = f"{replayed.events} events of {replayed.streams} streams replayed, {judged} payloads judged again"
    partial = f", {len(replayed.partial)} streams begin before the file" if replayed.partial else ""
    counts = {"events": replayed.events, "streams": replayed.streams, "payloads": judged}
    counts |= {"partial_streams": len(replayed.partial), "different": diverged}
    tell(f"{told}{partial}: {diverged} would end differently.", counts | {"differences": differing}, as_json=as_json)
    if diverged:
        sys.exit(1)


def _divergences(replayed: Replay, recorded: Recorded) -> Iterator[str]:
    yield from (divergence.says for divergence in replayed.divergences([recorded]))


def _judgement(replayed: Replay, recorded: Recorded, bodies: dict[str, tuple[str, bytes]]) -> Iterator[str]:
    """Whether today's rules say of the payload what was said of it then."""
    if not isinstance(recorded.event, ImportProcessed | ImportErrored) or recorded.stream not in bodies:
        return
    process: ImportProcess | None = replayed.state_of(recorded.stream)
    digest, body = bodies[recorded.stream]
    if process is None or process.staged is None or process.staged.payload_sha256 != digest:
        return
    findings = judged_account(body, process, _terms(replayed, recorded.supplier or ""), recorded.recorded_at)
    is_refused = not hasattr(findings, "external_account_number")
    if isinstance(recorded.event, ImportProcessed) and is_refused:
        yield f"was processed; today's rules refuse it: {getattr(findings, 'detail', '')}"
    elif isinstance(recorded.event, ImportErrored) and _is_of_rules(recorded.event) and not is_refused:
        yield "was refused; today's rules accept it"


def _terms(replayed: Replay, supplier_code: str) -> Terms:
    """The supplier's settings as they were then; the standard ones where the file does not begin with the supplier."""
    then: Supplier = replayed.state_of(supplier.stream_of(supplier_code)) or Supplier()
    return Terms(strictness=then.strictness, unknown_fields=then.unknown_fields)


def _is_of_rules(event: ImportErrored) -> bool:
    """Whether rules refused it, and not what was missing then, which a replay cannot know."""
    missing = ("market_participant_not_found@", "path_does_not_exist_in_file_store@")
    return event.code == "account_failed_validation" and not any(p.startswith(missing) for p in event.problems)


def _text(moment: AsOf) -> str | None:
    if moment.position is not None:
        return str(moment.position)
    return moment.time.isoformat() if moment.time else None
