"""The verb `replay`, which runs today's code and rules over an exported history and names differences."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import msgspec

from cli.language import _, counted, translated
from cli.output import json_option, print_line, print_result
from eventstore.aggregates import supplier
from eventstore.aggregates.import_process import ImportErrored, ImportProcess, ImportProcessed
from eventstore.aggregates.supplier import Supplier
from eventstore.events import Recorded
from eventstore.operations.export import PayloadLine, body_of, read_export
from eventstore.replay import Replay
from market.submission_check import Terms
from workers.actors.stored_account import checked_account

MAX_LISTED = 100


class Different(msgspec.Struct, frozen=True):
    """An event or an account for which today's code gives another result; `detail` is a sentence."""

    position: int
    stream: str
    detail: str


class Replayed(msgspec.Struct):
    """Counts of a replay, and the first events that would end differently."""

    events: int = 0
    streams: int = 0
    payloads: int = 0
    partial_streams: int = 0
    different: int = 0
    differences: list[Different] = []


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@json_option
def replay(file: Path, as_json: bool) -> None:
    """Replay an exported history with today's code and rules.

    Lists the events in FILE for which today's code decides differently. Exit code 1 if there are such events.
    """
    replayed = _replayed(file, as_json=as_json)
    begin = counted(replayed.partial_streams, "stream begins", "streams begin")
    partial = _(", {streams} before the file", streams=begin) if replayed.partial_streams else ""
    sentence = _(
        "{events} of {streams} replayed, {payloads} checked again{partial}: {number} would end differently.",
        events=counted(replayed.events, "event"), streams=counted(replayed.streams, "stream"),
        payloads=counted(replayed.payloads, "payload"), partial=partial, number=replayed.different,
    )  # fmt: skip
    print_result(sentence, msgspec.to_builtins(replayed), as_json=as_json)
    if replayed.different:
        sys.exit(1)


def _replayed(file: Path, *, as_json: bool) -> Replayed:
    history, replayed = Replay(), Replayed()
    bodies: dict[str, tuple[str, bytes]] = {}
    for line in read_export(file):
        if isinstance(line, PayloadLine):
            bodies[line.stream] = (
                line.sha256,
                body_of(line),
            )  # a worker processes the newest payload of a stream
            continue
        recorded = line.recorded()
        for sentence in _different(history, recorded, bodies.get(recorded.stream)):
            replayed.different += 1
            if replayed.different <= MAX_LISTED:
                replayed.differences.append(Different(recorded.position, recorded.stream, sentence))
                if not as_json:
                    place = _("position {position}, {stream}", position=recorded.position, stream=recorded.stream)
                    print_line(f"{place}: {translated(sentence)}")
        if isinstance(recorded.event, ImportProcessed | ImportErrored):
            replayed.payloads += bodies.pop(recorded.stream, None) is not None
    replayed.events, replayed.streams, replayed.partial_streams = history.events, history.streams, len(history.partial)
    return replayed


def _different(history: Replay, recorded: Recorded, body: tuple[str, bytes] | None) -> Iterator[str]:
    for divergence in history.divergences([recorded]):
        yield divergence.says
    settings = supplier.stream_of(recorded.supplier or "")
    yield from _changed_outcome(
        history.state_of(recorded.stream), recorded, body, lambda: _terms_of(history.state_of(settings))
    )


def _changed_outcome(
    process: ImportProcess | None, recorded: Recorded, body: tuple[str, bytes] | None, terms: Callable[[], Terms]
) -> Iterator[str]:
    """Yield a sentence if today's rules accept a payload that was refused, or refuse a payload that was processed.

    `body` is the digest and the content of the payload.
    """
    if not isinstance(recorded.event, ImportProcessed | ImportErrored) or body is None:
        return
    digest, content = body
    if process is None or process.staged is None or process.staged.payload_sha256 != digest:
        return
    findings = checked_account(content, process, terms(), recorded.recorded_at)
    is_refused = not hasattr(findings, "external_account_number")
    if isinstance(recorded.event, ImportProcessed) and is_refused:
        yield f"was processed; today's rules refuse it: {getattr(findings, 'detail', '')}"
    elif isinstance(recorded.event, ImportErrored) and _is_of_rules(recorded.event) and not is_refused:
        yield "was refused; today's rules accept it"


def _terms_of(settings: Supplier | None) -> Terms:
    """Return the terms of a supplier's settings; the default terms for an unknown supplier."""
    settings = settings or Supplier()
    return Terms(strictness=settings.strictness, unknown_fields=settings.unknown_fields)


def _is_of_rules(event: ImportErrored) -> bool:
    """Return True if rules caused the error.

    False for a missing document or participant, since an export has neither.
    """
    missing = ("market_participant_not_found@", "path_does_not_exist_in_file_store@")
    return event.code == "account_failed_validation" and not any(p.startswith(missing) for p in event.problems)
