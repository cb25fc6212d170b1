"""The service: whether somebody does each piece of work, and how far it has come."""

import shlex
from collections.abc import Iterator
from datetime import datetime, timedelta

from cli.checkup.finding import Finding, Grade, Looked
from cli.service.sealing import SEALING_KEY
from embedded.folder import DataFolder
from eventstore.aggregates.import_process import identity_of
from eventstore.clock import now
from eventstore.events import subject_of
from eventstore.log import locks
from eventstore.log.intake_stop import intake_stop, is_compared
from eventstore.proof.checkpoints import KeyNotUsable, LogKey
from eventstore.proof.sealing import SealRefused, newest_checkpoint, signed_size
from projections import PROJECTIONS
from projections.unlogged.troubles import reported_troubles
from projections.versions.reading import head
from projections.versions.versions import parked_streams, versions

MAX_LAG = timedelta(minutes=5)
MAX_PENDING = timedelta(minutes=10)
DECIDE = "importledger seal --continue-from N --reason TEXT, or importledger seal --accept --reason TEXT"
"""Commands for a log that does not continue what was signed."""

_ROLES = {"relay": locks.RELAY, "projector": locks.PROJECTOR}
_RECORDED_AT = "SELECT recorded_at FROM events WHERE position = %s"
_RELAYED = "SELECT position FROM checkpoints WHERE follower = 'relay'"
_HELD = """
SELECT count(*) FROM pg_locks
WHERE locktype = 'advisory' AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND classid = %s AND objsubid = %s AND (%s::bigint IS NULL OR objid = %s)
"""
_OLDEST_PENDING = """
SELECT min(i.created_at) FROM import_status AS i LEFT JOIN import_supplier AS s ON s.code = i.supplier
WHERE i.status = 'PENDING' AND s.status IS DISTINCT FROM 'paused' AND (i.due_at IS NULL OR i.due_at < clock_timestamp())
"""


def roles(look: Looked) -> Iterator[Finding]:
    """Whether somebody relays, seals, projects and works, wherever the processes run."""
    held = {name: bool(look.value(_HELD, 0, 1, number, number)) for name, number in _ROLES.items()}
    workers = look.value(_HELD, locks.WORKERS, 2, None, None)
    if missing := [name for name, is_held in held.items() if not is_held]:
        yield Finding("roles", "wrong", f"Nobody runs as {', '.join(missing)}.", "importledger relay")
    if not workers:
        yield Finding("roles", "wrong", "No worker runs: nothing is created.", "importledger worker")
    if workers and not missing:
        yield Finding("roles", "good", f"A relay, a projector and {workers} workers run.")


def troubles(look: Looked) -> Iterator[Finding]:
    """Work of any process that fails at present."""
    present = reported_troubles(look.connection)
    for one in present:
        says = f"{one.name} of {one.process} has failed since {one.since:%Y-%m-%dT%H:%M:%SZ}: {one.error}"
        grade: Grade = "warned" if one.is_waiting else "wrong"
        yield Finding("troubles", grade, says, "remove the cause; the work then continues by itself")
    if not present:
        yield Finding("troubles", "good", "No part of the service fails.")


def projections(look: Looked) -> Iterator[Finding]:
    """Parked streams, outdated definitions, and how far each projection is behind the log."""
    reached, bad = head(look.connection), 0
    for projection in PROJECTIONS:
        name = projection.name
        live = [version for version in versions(look.connection, name) if version.state == "live"]
        if not live:
            bad += 1
            yield Finding("projections", "wrong", f"{name} has no live version.", "importledger migrate")
        for version in live:
            if parked := parked_streams(look.connection, name, version.version, is_open=True):
                bad += 1
                heal = f"mend the cause, then {healing(name, parked[0])}"
                accept = f"or, if it stays unreadable, importledger projections accept {shlex.quote(parked[0])}"
                says = f"{name} has {len(parked)} parked streams."
                yield Finding("projections", "wrong", says, f"{heal}; {accept}")
            if version.is_outdated(projection):
                bad += 1
                yield Finding(
                    "projections", "warned", f"{name} is outdated.", f"importledger projections rebuild {name}"
                )
            elif not projection.is_inline and (behind := _behind(look, version.position, reached)) > MAX_LAG:
                bad += 1
                says = f"{name} is {reached - version.position:,} events and {behind} behind the log."
                yield Finding("projections", "warned", says, "look at the relay's log")
    if not bad:
        yield Finding("projections", "good", f"All {len(PROJECTIONS)} projections are up to date.")


def healing(name: str, stream: str) -> str:
    """What to type so that a projection takes a parked stream in again."""
    if stream.startswith(("participant/", "price-sheet/")):
        return f"importledger projections heal {shlex.quote(stream)}"
    if (account := subject_of(stream)) is None and stream.startswith("customer-mail/"):
        account = "import/" + stream.split("/", 1)[1]
    if account is not None:
        supplier, external = identity_of(account)
        return f"importledger projections heal {shlex.quote(supplier)} {shlex.quote(external)}"
    return f"importledger projections rebuild {name}"


def lag(look: Looked) -> Iterator[Finding]:
    """How far the relay is behind the log: what it has not read, nobody was rung for."""
    reached, place = head(look.connection), look.value(_RELAYED) or 0
    if (behind := _behind(look, place, reached)) > MAX_LAG:
        says = f"The relay is {reached - place:,} events and {behind} behind the log."
        yield Finding("lag", "warned", says, "look at the relay's log, and whether Redis answers")
    else:
        yield Finding("lag", "good", f"The relay is {reached - place:,} events behind the log.")


def _behind(look: Looked, position: int, reached: int) -> timedelta:
    if position >= reached:
        return timedelta(0)
    recorded_at = look.value(_RECORDED_AT, position + 1)
    return now() - recorded_at if recorded_at else timedelta(0)


def pending(look: Looked) -> Iterator[Finding]:
    """How long the oldest import has waited that could have been created."""
    oldest = look.value(_OLDEST_PENDING)
    if oldest is not None and now() - oldest > MAX_PENDING:
        says = f"An import has been waiting since {oldest:%Y-%m-%dT%H:%M:%SZ}."
        yield Finding("pending", "warned", says, "start more workers, or look at their logs")
    else:
        yield Finding("pending", "good", "No import waits longer than it should.")


def sealing(look: Looked) -> Iterator[Finding]:
    """Compare the log with its newest signed checkpoint; name a stop of the intake, and a key that is not here."""
    if stop := intake_stop(look.connection):
        says = f"Intake is stopped since {stop.stopped_at:%Y-%m-%dT%H:%M:%SZ}. {stop.reason}"
        yield Finding("sealing", "wrong", says, DECIDE)
        return
    if not is_compared(look.connection):
        says = "Nothing is taken in: the log was not compared with its checkpoints since the database has started."
        yield Finding("sealing", "wrong", says, "start the relay, or look for `sealing waits` in its log")
        return
    reached = head(look.connection)
    open_events = max(0, reached - signed_size(look.connection))
    waits_since: datetime | None = look.value(_RECORDED_AT, reached - open_events + 1)
    try:
        secret = look.settings.sealing_key or DataFolder(look.settings.data_dir).known_secret(SEALING_KEY)
        if secret is not None:
            newest_checkpoint(look.connection, [LogKey.of(secret).verifier])
    except (KeyNotUsable, SealRefused) as error:
        yield Finding("sealing", "wrong", str(error), "set IMPORTLEDGER_SEALING_KEY to the key that signed the log")
        return
    allowed = MAX_LAG + timedelta(seconds=look.settings.seal_every_s)
    if waits_since is not None and now() - waits_since > allowed:
        says = f"{open_events:,} events are not signed, the first since {waits_since:%Y-%m-%dT%H:%M:%SZ}."
        yield Finding("sealing", "warned", says, "look for `log not sealed` or `sealing waits` in the relay's log")
    else:
        yield Finding("sealing", "good", f"{reached - open_events:,} events are signed.")
