"""The verbs of proof: `seal` the log, `verify` it, write a `proof` of one account that anybody can check."""

import contextlib
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
import psycopg
from psycopg import Connection
from psycopg.rows import tuple_row

from cli.addresses import database_url
from cli.known import require_import
from cli.operator import caused_by
from cli.progress import progress_bar
from cli.service.sealing import kept_inside, known_key, outside, sealing_key
from cli.service.settings import Settings
from cli.tell import NewFile, json_option, tell
from eventstore.clock import now
from eventstore.log.intake_stop import end_stop, intake_stop, note_comparison
from eventstore.operations.guards import guards_off
from eventstore.proof.answer_verification import verify_answers
from eventstore.proof.checkpoints import LogKey, OutsideUnavailable, read_note, read_signed
from eventstore.proof.payload_verification import VerifiedPayloads, verifying_payloads
from eventstore.proof.proof import write_proof
from eventstore.proof.sealing import Sealed, continue_from, seal, sealing_lock
from eventstore.proof.statement import check_statement
from eventstore.proof.verification import Kept, Verified, verify_events, wrong_rows
from eventstore.proof.verifier import Checkpoint, Continued, Invalid, loss_of, read_statement
from projections.queries.history import account_streams
from projections.retention.archiving import told_of_detached
from projections.views.access_key import wrong_keys

MAX_REASON = 500


@click.command("seal")
@click.option("--former-key", metavar="VKEY", help="The verifier key before this one, to go on from what it signed.")
@click.option(
    "--continue-from", "position", type=click.IntRange(min=0), metavar="N",
    help="Go on openly from position N, after which signed events are lost for good. Needs --reason.",
)  # fmt: skip
@click.option("--accept", is_flag=True, help="Take accounts in again without sealing the log. Needs --reason.")
@click.option("--reason", help="Reason: kept, and with --continue-from signed forever, so nothing about persons.")
@click.option("--json", "as_json", is_flag=True, help="As one JSON object.")
def seal_log(former_key: str | None, position: int | None, accept: bool, reason: str | None, as_json: bool) -> None:
    """Seal the log up to its last event now, and print the signed checkpoint: keep it, and verify against it later.

    A log that does not continue what was signed is not sealed, and takes no account in. When events were lost, as in a
    failover, and will not come back, --continue-from N --reason TEXT signs "continues from N, lost M–K"; `verify` shows
    it from then on. A signature stays forever: TEXT must hold no personal data. --accept --reason TEXT only ends the
    stop: the log stays unsealed while it differs.
    """
    if accept and position is not None:
        raise click.UsageError("--accept and --continue-from exclude each other.")
    if (position is None and not accept) != (reason is None):
        raise click.UsageError("--reason must be given with --continue-from and with --accept, and only then.")
    if accept:
        _accept(_one_line(reason or ""), as_json=as_json)
        return
    settings = Settings.from_environment()
    key = sealing_key(settings)
    with connected() as connection:
        sealed = sealed_now(connection, key, settings, former_key, position, reason)
    if sealed is None:
        raise click.ClickException("The log is empty: there is nothing to seal.")
    if as_json:
        told = {"size": sealed.checkpoint.size, "root": sealed.checkpoint.root.hex(), "time": sealed.checkpoint.time}
        click.echo(json.dumps(told | {"is_new": sealed.is_new, "key": key.verifier, "note": sealed.note}))
        return
    click.echo(sealed.note, nl=False)
    click.echo(f"Verifier key: {key.verifier}", err=True)


def _accept(reason: str, *, as_json: bool) -> None:
    """End the stop of the intake, and seal nothing. Or let it begin where the log cannot be compared."""
    with connected() as connection:
        stop = intake_stop(connection)
        if stop is None and note_comparison(connection, by=caused_by(), reason=reason):
            sentence = (
                "Intake continues. The log was not compared with its checkpoints: the relay does so before it seals."
            )
            tell(sentence, {"is_accepted": True, "size": None, "stopped_at": None}, as_json=as_json)
            return
        if stop is None or not end_stop(connection, by=caused_by(), reason=reason):
            raise click.ClickException("Intake is not stopped: there is nothing to accept.")
    sentence = (
        f"Intake continues. The log is not sealed while it differs from the checkpoint of {stop.size} events:"
        " `importledger seal --continue-from` seals it."
    )
    tell(sentence, {"is_accepted": True, "size": stop.size, "stopped_at": stop.stopped_at}, as_json=as_json)


_FILE = click.Path(path_type=Path, dir_okay=False, exists=True)


@click.command()
@click.argument("certificates", metavar="[CERTIFICATE.json]...", nargs=-1, type=_FILE)
@click.option(
    "--all", "whole", is_flag=True, help="Hash every event again, open every payload, look at answers and guards."
)
@click.option(
    "--against", "against", multiple=True, type=_FILE,
    metavar="CHECKPOINT", help="A checkpoint that you have kept; repeatable.",
)  # fmt: skip
@click.option("--key", "keys", multiple=True, metavar="VKEY", help="The log's verifier key; repeatable after a change.")
@click.option("--jobs", default=2, show_default=True, type=click.IntRange(1, 64), help="Processes that open payloads.")
@click.option("--json", "as_json", is_flag=True, help="As one JSON object.")
def verify(  # long: a verb with nine options, which it hands to one check each
    certificates: tuple[Path, ...],
    whole: bool,
    against: tuple[Path, ...],
    keys: tuple[str, ...],
    jobs: int,
    as_json: bool,
) -> None:
    """Verify the log against its checkpoints: those in the database, those kept outside, and yours.

    A certificate is verified as well, and the log against the checkpoint that it names.

    Without --all the newest 100,000 events are hashed again, and what is before them is taken from the stored tree.
    Exit code 1 and a sentence for everything that is wrong.
    """
    settings = Settings.from_environment()
    trusted = keys or (known_key(settings),)
    began = time.monotonic()
    problems, forged = list[str](), list[str]()
    signed = _certificates(certificates, trusted, forged)
    # Before the snapshot: the log goes on, and is sealed.
    elsewhere = [*signed, *_kept_outside(settings, against, problems)]
    with connected() as connection, contextlib.ExitStack() as stack:
        stack.enter_context(connection.transaction())
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        kept = [*kept_inside(connection), *elsewhere]
        events, payloads = _verified_here(connection, trusted, kept, stack, jobs=jobs, whole=whole)
        answers = verify_answers(connection) if whole else None
        off = [*wrong_rows(connection, trusted), *guards_off(connection)] if whole else []
        off += [f"WARNED  {sentence}" for sentence in wrong_keys(connection)] if whole else []
    took_s = time.monotonic() - began
    problems += events.problems + (payloads.problems if payloads else []) + (answers.problems if answers else []) + off
    tail = events.head - events.anchored
    if as_json:
        told = msgspec.to_builtins(events) | {"problems": forged + problems, "unanchored": tail, "seconds": took_s}
        told |= {"payloads": payloads.matching, "erased": payloads.erased} if payloads else {}
        told |= {"detached": payloads.detached, "archives": payloads.archives} if payloads else {}
        told |= {"answers": answers.matching} if answers else {}
        told |= {"certificates": len(signed)} if certificates else {}
        click.echo(json.dumps(told))
    else:
        for one in signed:
            click.echo(f"{one.source} is signed with the log's key")
        for sentence in events.continued:
            click.echo(sentence)
        rest = "" if whole else f" of {events.head:,} (the others as the stored tree has them)"
        rate = events.hashed / max(took_s, 0.001)
        click.echo(f"{events.hashed:,} events{rest} hashed again in {took_s:.1f} s, {rate:,.0f} a second")
        if payloads:
            click.echo(f"{payloads.matching:,} payloads match their digests, {payloads.erased:,} persons were erased")
            for code, url in payloads.archives.items():
                click.echo(f"DETACHED  payloads of {code} lie in {url}: `importledger archive verify {code}`")
            if payloads.detached:
                click.echo(f"{payloads.detached:,} payloads are not here, and in archives by the log")
        if answers:
            click.echo(f"{answers.matching:,} remembered answers match their digests")
        click.echo(f"anchored up to position {events.anchored:,} by {events.checkpoints:,} checkpoints that agree")
        if tail:
            click.echo(
                f"NOT ANCHORED: {tail:,} events after position {events.anchored:,} are in no checkpoint yet."
                " `importledger seal` signs one."
            )
    _end_with(problems, forged)


def _end_with(problems: Sequence[str], forged: Sequence[str]) -> None:
    """Name all problems, of certificates first; where there are some, the exit code is 1."""
    for sentence in [*forged, *problems]:
        click.echo(sentence, err=True)
    if forged and not problems:
        raise click.ClickException("the log is what was signed, and a certificate is not.")
    if all(sentence.startswith("WARNED") for sentence in problems) and problems:
        raise click.ClickException("the log is what was signed, and something beside it is not as it should be.")
    if problems:
        raise click.ClickException("the log is not what was signed.")


@click.command()
@click.argument("supplier_code", metavar="SUPPLIER")
@click.argument("external")
@click.option("-o", "--output", required=True, type=NewFile(), help="FILE.zip, which must be new.")
@click.option("--payloads", is_flag=True, help="Also what was sent: personal data.")
@click.option(
    "--against", "against", multiple=True, type=_FILE,
    metavar="CHECKPOINT", help="A checkpoint whose consistency is proved as well; repeatable.",
)  # fmt: skip
@json_option
def proof(
    supplier_code: str, external: str, output: Path, payloads: bool, against: tuple[Path, ...], as_json: bool
) -> None:
    """Write what happened to EXTERNAL of SUPPLIER as a proof, which `importledger-verify` checks anywhere."""
    settings = Settings.from_environment()
    key = sealing_key(settings)
    with connected() as connection:
        require_import(connection, supplier_code, external)
        sealed = sealed_now(connection, key, settings, None)
        streams = account_streams(connection, supplier_code, external)
        if sealed is None:
            raise click.ClickException("The log is empty: there is nothing to prove.")
        continued = _continuations(connection, key)
        named = [(file, _checkpoint(file, key)) for file in against]
        # What speaks of a part that was openly lost is not consistent with the log; the verifier says so.
        kept = {one.size: read_note(file) for file, one in named if not loss_of(one, continued)}
        newest = (sealed.checkpoint, sealed.note)
        made = write_proof(connection, output, streams, newest, key.verifier, kept=kept, payloads=payloads)
        more, elsewhere = told_of_detached(connection, supplier_code, made.detached)
    told = {"file": str(output), "events": made.events, "payloads": made.payloads, "size": made.size}
    sentence = f"{output} proves {made.events} events in a log of {made.size:,}, with {made.payloads} payloads.{more}"
    check = f"Check it anywhere: importledger-verify {output.name} --key '{key.verifier}'"
    tell(f"{sentence}\n{check}", told | elsewhere | {"key": key.verifier}, as_json=as_json)


def sealed_now(
    connection: Connection[Any],
    key: LogKey,
    settings: Settings,
    former_key: str | None,
    position: int | None = None,
    reason: str | None = None,
) -> Sealed | None:
    """Seal, or continue from a position for a reason."""
    with sealing_lock(connection, waits=True), progress_bar("events") as progress:
        try:
            if position is not None:
                return continue_from(
                    connection, key, outside(settings), position, _one_line(reason or ""),
                    at=now(), by=caused_by(), former_key=former_key, progress=progress,
                )  # fmt: skip
            return seal(connection, key, outside(settings), at=now(), former_key=former_key, progress=progress)
        except OutsideUnavailable as error:
            raise click.ClickException(f"The checkpoint could not be kept outside: {error}") from error


def _one_line(reason: str) -> str:
    """The reason as a line of a checkpoint. Raises BadParameter."""
    line = " ".join(reason.split())
    if not 0 < len(line) <= MAX_REASON or not line.isprintable():
        raise click.BadParameter(f"A reason is one line of at most {MAX_REASON} printable characters.")
    return line


def _continuations(connection: Connection[Any], key: LogKey) -> list[Continued]:
    """What the checkpoints in the database say about losses."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        notes = cursor.execute("SELECT note FROM log_checkpoints WHERE continues IS NOT NULL").fetchall()
    continuations = [
        read_signed(note, [key.verifier]).continued for (note,) in notes if note.startswith(f"{key.name}\n")
    ]
    return [one for one in continuations if one]


def _checkpoint(file: Path, key: LogKey) -> Checkpoint:
    try:
        return read_signed(read_note(file), [key.verifier])
    except Invalid as error:
        raise click.ClickException(f"{file}: {error}") from error


def _kept_outside(settings: Settings, against: tuple[Path, ...], problems: list[str]) -> Iterator[Kept]:
    """What the place outside keeps, and the caller; that the place cannot be read is a problem."""
    try:
        for source, note in outside(settings).notes():
            yield Kept(source, note)
    except OutsideUnavailable as error:
        problems.append(f"UNREADABLE  the checkpoints that are kept outside cannot be read: {error}")
    for file in against:
        yield Kept(str(file), read_note(file))


def _certificates(files: Sequence[Path], keys: Sequence[str], problems: list[str]) -> list[Kept]:
    """The checkpoints that certificates name, which are signed; those that are not are problems."""
    certificates = []
    for file in files:
        try:
            statement = read_note(file)
            check_statement(statement, keys)
            certificates.append(Kept(f"certificate {file}", read_statement(statement)["checkpoint"]))
        except Invalid as error:
            problems.append(f"NOT SIGNED  {file}: {error}")
    return certificates


def _verified_here(
    connection: Connection[Any],
    keys: Sequence[str],
    kept: Sequence[Kept],
    stack: contextlib.ExitStack,
    *,
    jobs: int,
    whole: bool,
) -> tuple[Verified, VerifiedPayloads | None]:
    """Events hashed by this process, while others open payloads where `whole` is asked for."""
    opening = stack.enter_context(verifying_payloads(connection, database_url(), jobs=jobs)) if whole else None
    progress = stack.enter_context(progress_bar("events"))
    events = verify_events(connection, keys, kept, whole=whole, progress=progress)
    return events, opening() if opening else None


@contextlib.contextmanager
def connected() -> Iterator[Connection[Any]]:
    """A connection of the service's role, in autocommit, in UTC, without a limit of time."""
    with psycopg.connect(database_url(), autocommit=True) as connection:
        connection.execute("SET statement_timeout = 0; SET TIME ZONE 'UTC'")
        yield connection
