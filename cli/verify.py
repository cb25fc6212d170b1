"""The verb `verify`, which compares the log with its signed checkpoints."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from cli.addresses import connected, database_url
from cli.language import N_, _, counted, translated
from cli.output import json_option, progress_bar
from cli.service.sealing import LogCheck, check_log, checkpoint_copies, known_verifier
from cli.service.settings import Settings
from eventstore.proof.checkpoints import CopiesUnavailable, read_note
from eventstore.proof.sample_verifier import read_population
from eventstore.proof.statement import check_statement
from eventstore.proof.verification import CheckpointNote
from eventstore.proof.verifier import Invalid, key_argument, read_key, read_statement
from projections.queries.run_sample import staged_accounts
from redaction.text import counted as in_english

_CHECKPOINT = re.compile(r"[^\n]+\n[0-9]+\n[A-Za-z0-9+/=]+\n(?:[^\n]+\n)*\n")
_NO_CHECKPOINT = N_("{file} must be a checkpoint that `seal` has printed: {error}.")
_NO_CERTIFICATE = N_("{file} must be a certificate of a run: {error}.")
FILE = click.Path(path_type=Path, dir_okay=False, exists=True)
against_option = click.option(
    "--against",
    "against",
    multiple=True,
    type=FILE,
    metavar="CHECKPOINT",
    help="Checkpoint file that you kept; repeatable.",
)


def _keys(context: click.Context, option: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    try:
        keys = tuple(map(key_argument, given))
        for key in keys:
            read_key(key)
    except Invalid as error:
        raise click.BadParameter(f"{translated(error)}.", context, option) from error
    return keys


key_option = click.option(
    "--key",
    "keys",
    multiple=True,
    metavar="VKEY",
    callback=_keys,
    help="Verifier key of the log, or a file with it; repeatable after a change.",
)


@click.command()
@click.argument("certificates", metavar="[CERTIFICATE.json]...", nargs=-1, type=FILE)
@click.option("--all", "is_full", is_flag=True, help="Full verification: all events, payloads, answers and guards.")
@against_option
@key_option
@click.option("--jobs", default=2, show_default=True, type=click.IntRange(1, 64), help="Processes that open payloads.")
@json_option
def verify(
    certificates: tuple[Path, ...],
    is_full: bool,
    against: tuple[Path, ...],
    keys: tuple[str, ...],
    jobs: int,
    as_json: bool,
) -> None:
    """Verify the log against its signed checkpoints.

    Compares the log with the checkpoints in the database, the checkpoints outside the database, your checkpoints, and
    the checkpoints in CERTIFICATE files. Verifies the signatures of these files. For a sample.json, also checks that it
    was drawn from all accounts of its run.

    Without --all, computes only the hashes of the newest 100,000 events again, and reads the hashes of older events
    from the stored tree. Prints each problem as a sentence on standard error. Exit code 1 if there is a problem.
    """
    settings = Settings.from_environment()
    trusted = keys or (known_verifier(settings),)
    forged, unreadable = list[str](), list[str]()
    notes = {file: _read_kind(file, _NO_CHECKPOINT, _refuse_other) for file in against}
    statements = {file: _read_kind(file, _NO_CERTIFICATE, read_statement) for file in certificates}
    signed = _certificates(statements, trusted, forged)
    # Read before the snapshot, because the log grows and is sealed meanwhile.
    checkpoints = [*signed, *_outside_checkpoints(settings, notes, unreadable)]
    check = check_log(database_url(), trusted, checkpoints, progress_bar("events"), is_full=is_full, jobs=jobs)
    problems = unreadable + check.problems
    if as_json:
        report = _report(check) | {"problems": forged + problems}
        click.echo(json.dumps(report | ({"certificates": len(signed)} if certificates else {})))
    else:
        for certificate in signed:
            click.echo(_("{source} is signed with the log's key", source=translated(certificate.source)))
        click.echo("\n".join(_lines(check)))
    _raise_problems(problems, forged)


def _report(check: LogCheck) -> dict[str, Any]:
    events, payloads = check.events, check.payloads
    report = msgspec.to_builtins(events) | {"unanchored": events.head - events.anchored, "seconds": check.seconds}
    if payloads and check.answers:
        report |= {"payloads": payloads.matching, "erased": payloads.erased, "answers": check.answers.matching}
        report |= {"detached": payloads.detached, "archives": payloads.archives}
    return dict(report)


def _lines(check: LogCheck) -> Iterator[str]:
    events, payloads = check.events, check.payloads
    yield from map(translated, events.continued)
    remainder = "" if payloads else _(" of {number:,} (older ones taken from the stored tree)", number=events.head)
    yield _(
        "{events} hashed again in {seconds:.1f} s, {rate:,.0f} a second",
        events=counted(events.hashed, "event") + remainder, seconds=check.seconds,
        rate=events.hashed / max(check.seconds, 0.001),
    )  # fmt: skip
    if payloads and check.answers:
        matching = counted(payloads.matching, "payload matches its digest", "payloads match their digests")
        yield _(
            "{payloads}, {persons} erased",
            payloads=matching,
            persons=counted(payloads.erased, "person was", "persons were"),
        )
        for code, url in payloads.archives.items():
            yield _(
                "DETACHED  payloads of {code} are in {url}: `importledger archive verify {code}`", code=code, url=url
            )
        if payloads.detached:
            detached = counted(payloads.detached, "payload is", "payloads are")
            yield _("{payloads} not in the database, but in archives according to the log", payloads=detached)
        yield counted(
            check.answers.matching, "remembered answer matches its digest", "remembered answers match their digests"
        )
    agreeing = counted(events.checkpoints, "checkpoint that agrees", "checkpoints that agree")
    yield _("anchored up to position {position:,} by {checkpoints}", position=events.anchored, checkpoints=agreeing)
    if tail := events.head - events.anchored:
        values = {"number": tail, "position": events.anchored}
        if tail == 1:
            finding = N_("NOT ANCHORED: {number:,} event after position {position:,} is in no checkpoint yet.")
        else:
            finding = N_("NOT ANCHORED: {number:,} events after position {position:,} are in no checkpoint yet.")
        yield f"{_(finding, **values)} {_('`importledger seal` signs one.')}"


def _raise_problems(problems: Sequence[str], forged: Sequence[str]) -> None:
    """Print all problems, problems of certificates first. Raises ClickException if there are problems."""
    for sentence in [*forged, *problems]:
        click.echo(translated(sentence), err=True)
    if forged and not problems:
        raise click.ClickException(_("the log matches its signatures, but a certificate does not."))
    if all(sentence.startswith("WARNED") for sentence in problems) and problems:
        raise click.ClickException(_("the log matches its signatures, but other data does not match the log."))
    if problems and all(sentence.startswith(("NOT SIGNED", "UNANCHORED")) for sentence in problems):
        raise click.ClickException(_("a checkpoint is not signed with this key. No event was found altered."))
    if problems:
        raise click.ClickException(_("the log does not match its signatures."))


def _outside_checkpoints(
    settings: Settings, against: Mapping[Path, str], problems: list[str]
) -> Iterator[CheckpointNote]:
    """Yield the checkpoints outside the database, and the caller's checkpoints.

    If the checkpoints outside cannot be read, add a problem.
    """
    try:
        for source, note in checkpoint_copies(settings).notes():
            yield CheckpointNote(source, note)
    except CopiesUnavailable as error:
        problems.append(f"UNREADABLE  the checkpoints that are kept outside cannot be read: {error}")
    for file, note in against.items():
        yield CheckpointNote(str(file), note)


def _refuse_other(note: str) -> None:
    """Raise Invalid for a text that is not a checkpoint."""
    if not _CHECKPOINT.match(note):
        raise Invalid("this is no signed checkpoint")


def _read_kind(file: Path, refusal: str, read: Callable[[str], Any]) -> str:
    """Return the text of a file. Raises BadParameter with this refusal for a file of another kind."""
    try:
        text = read_note(file)
        read(text)
    except Invalid as error:
        raise click.BadParameter(_(refusal, file=file, error=translated(error))) from error
    return text


def _certificates(files: Mapping[Path, str], keys: Sequence[str], problems: list[str]) -> list[CheckpointNote]:
    """Return the checkpoints in signed certificates and samples. Errors are added to `problems`."""
    certificates = []
    for file, statement in files.items():
        try:
            checkpoint, members = check_statement(statement, keys), read_statement(statement)
            is_sample = "population" in members
            source = f"sample {file}" if is_sample else f"certificate {file}"
            certificates.append(CheckpointNote(source, members["checkpoint"]))
            if is_sample:
                problems += _population_problems(file, members, checkpoint.size)
        except Invalid as error:
            problems.append(f"NOT SIGNED  {file}: {error}")
    return certificates


def _population_problems(file: Path, sample: Mapping[str, Any], size: int) -> Iterator[str]:
    """Yield a sentence if a sample was not drawn from all accounts of its run. Raises Invalid."""
    listed = {position for positions in read_population(file.parent, sample, size).values() for position in positions}
    with connected() as connection:
        staged = set(staged_accounts(connection, sample["import_supplier"], sample["run"], size))
    if missing := sorted(staged - listed):
        accounts = in_english(len(missing), "account of the run was", "accounts of the run were")
        yield f"INCOMPLETE  {file}: {accounts} left out, the first at position {missing[0]}"
    if others := sorted(listed - staged):
        accounts = in_english(len(others), "account is", "accounts are")
        yield f"INCOMPLETE  {file}: {accounts} not of the run, the first at position {others[0]}"
