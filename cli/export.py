"""The auditors' verbs for taking a history along: `export` to a file, `replay` of a file by today's code."""

import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import click
import msgspec
from psycopg import Connection

from cli.audit import MomentParam, position_of
from cli.known import require_supplier
from cli.operator import open_ledger
from cli.prove import connected
from cli.say import say
from cli.spreading import spread_option, spread_progress
from cli.tell import json_option, tell
from eventstore.aggregates import supplier
from eventstore.aggregates.import_process import ImportErrored, ImportProcessed
from eventstore.events import Recorded
from eventstore.operations.export import (
    PayloadLine,
    body_of,
    header_of,
    read_export,
)
from eventstore.operations.export import export as write_export
from eventstore.replay import Replay
from projections.archiving import told_of_detached
from projections.history import AsOf
from workers.replaying import MAX_TOLD, Different, Replayed, judgement, terms_of
from workers.spread_verbs import replay_spread


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
    header = header_of(supplier_code, _text(first), _text(last))
    with open_ledger() as ledger, ledger.connection() as connection:
        require_supplier(connection, supplier_code)
        bounds = {"first": _first(connection, first), "last": position_of(connection, last)}
        connection.execute("SET statement_timeout = 0")
        end = write_export(connection, output, header, bounds, payloads=payloads)
        more, elsewhere = told_of_detached(connection, supplier_code, end.detached)
    told = {"file": str(output), "supplier": supplier_code, "events": end.events, "payloads": end.payloads}
    sentence = f"{output} has {end.events} events and {end.payloads} payloads of {supplier_code}.{more}"
    tell(sentence, told | elsewhere, as_json=as_json)


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True), required=False)
@click.option("--supplier", "supplier_code", help="With --spread: only this supplier's history.")
@spread_option
@json_option
def replay(file: Path | None, supplier_code: str | None, is_spread: bool, as_json: bool) -> None:
    """Run today's code over the history in FILE; name each event that it would decide otherwise. Exit code 1 then.

    With --spread instead of FILE, the worker processes of all machines replay the log itself, payloads included.
    """
    if (file is None) != is_spread or (supplier_code and not is_spread):
        raise click.UsageError("Name FILE, or say --spread, with --supplier or without.")
    replayed = _replayed_file(file, as_json=as_json) if file else _replayed_log(supplier_code, as_json=as_json)
    told = f"{replayed.events} events of {replayed.streams} streams replayed, {replayed.payloads} payloads judged again"
    partial = f", {replayed.partial_streams} streams begin before the file" if replayed.partial_streams else ""
    counts = msgspec.to_builtins(replayed) | {"differences": msgspec.to_builtins(replayed.differences[:MAX_TOLD])}
    tell(f"{told}{partial}: {replayed.different} would end differently.", counts, as_json=as_json)
    if replayed.different:
        sys.exit(1)


def _replayed_file(file: Path, *, as_json: bool) -> Replayed:
    folded, replayed = Replay(), Replayed()
    bodies: dict[str, tuple[str, bytes]] = {}
    for line in read_export(file):
        if isinstance(line, PayloadLine):
            bodies[line.stream] = (line.sha256, body_of(line))  # the newest of a stream is what is processed
            continue
        recorded = line.recorded()
        for sentence in _different(folded, recorded, bodies.get(recorded.stream)):
            replayed.note(recorded, sentence)
            if not as_json and replayed.different <= MAX_TOLD:
                _say(Different(recorded.position, recorded.stream, sentence))
        if isinstance(recorded.event, ImportProcessed | ImportErrored):
            replayed.payloads += bodies.pop(recorded.stream, None) is not None
    replayed.events, replayed.streams, replayed.partial_streams = folded.events, folded.streams, len(folded.partial)
    return replayed


def _different(folded: Replay, recorded: Recorded, body: tuple[str, bytes] | None) -> Iterator[str]:
    for divergence in folded.divergences([recorded]):
        yield divergence.says
    settings = supplier.stream_of(recorded.supplier or "")
    yield from judgement(folded.state_of(recorded.stream), recorded, body, lambda: terms_of(folded.state_of(settings)))


def _replayed_log(supplier_code: str | None, *, as_json: bool) -> Replayed:
    with connected() as connection, spread_progress("replay", as_json=as_json) as tell_progress:
        if supplier_code is not None:
            require_supplier(connection, supplier_code)
        replayed = replay_spread(connection, supplier_code, tell=tell_progress)
    for different in () if as_json else replayed.differences:
        _say(different)
    return replayed


def _say(different: Different) -> None:
    say(f"position {different.position}, {different.stream}: {different.detail}")


def _first(connection: Connection[Any], moment: AsOf) -> int | None:
    """The first position of a span that begins at a moment, None for an open one."""
    if moment.time is None:
        return moment.position
    before = position_of(connection, AsOf(time=moment.time - timedelta(microseconds=1)))
    return None if before is None else before + 1


def _text(moment: AsOf) -> str | None:
    if moment.position is not None:
        return str(moment.position)
    return moment.time.isoformat() if moment.time else None
