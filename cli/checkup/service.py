"""Checks of the service: processes, lags, projections, seals, Redis, documents, mail and backups."""

import shlex
import socket
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from smtplib import SMTPException
from urllib.parse import urlsplit

import msgspec

from cli.checkup.finding import CheckInput, DatabaseCheckInput, Finding, good, warned, wrong
from cli.service.sealing import known_key
from embedded.folder import DataFolder
from eventstore.aggregates.import_process import identity_of
from eventstore.clock import now
from eventstore.events import subject_of
from eventstore.log.intake_stop import intake_stop, is_compared
from eventstore.operations.backup import BackupError, read_manifest
from eventstore.proof.checkpoints import KeyNotUsable
from eventstore.proof.sealing import SealRefused, newest_checkpoint, signed_size
from projections import PROJECTIONS
from projections.auxiliary.troubles import reported_troubles
from projections.queries.vitals import FOLLOWING
from projections.versions.versions import parked_streams, versions
from redaction.text import counted
from workers.actors.mail_server import MailServer, NotSecure, mail_session

MAX_LAG_S = 300
MAX_PENDING_S = 600
MAIL_TIMEOUT_S = 3.0
MAX_BACKUP_AGE = timedelta(days=2)
MIN_CERTIFICATE = timedelta(days=14)
DECIDE = "importledger seal --continue-from N --reason TEXT, or importledger seal --accept --reason TEXT"
"""Commands for a log that does not continue what was signed."""


def roles(context: DatabaseCheckInput) -> Iterator[Finding]:
    """Check that a relay, a projector and workers run, on any machine."""
    held = context.vitals("locks")
    if missing := [name for name in ("relay", "projector") if not held.holders.get(name)]:
        yield wrong("roles", f"No process has the role {', '.join(missing)}.", "importledger relay")
    else:
        running = [name for name, number in held.holders.items() if number and name != "worker"]
        yield good("roles", f"These background services run: {', '.join(running)}.")
    if not held.workers:
        yield wrong("roles", "No worker is running: no accounts are created.", "importledger worker")
    else:
        numbers = ", ".join(map(str, held.workers))
        yield good("roles", f"{counted(len(held.workers), 'worker runs', 'workers run')}: {numbers}.")


def troubles(context: DatabaseCheckInput) -> Iterator[Finding]:
    """Report work that fails in any process at present."""
    troubles_now = reported_troubles(context.connection)
    for trouble in troubles_now:
        since = f"{trouble.since:%Y-%m-%dT%H:%M:%SZ}"
        sentence = f"{trouble.name} of {trouble.process} has failed since {since}: {trouble.error}"
        grade = warned if trouble.is_waiting else wrong
        yield grade("troubles", sentence, "remove the cause; the work then continues by itself")
    if not troubles_now:
        yield good("troubles", "No part of the service fails.")


def projections(context: DatabaseCheckInput) -> Iterator[Finding]:
    """Check each projection for parked streams, an outdated definition, and lag."""
    findings: list[Finding] = []
    lags = context.vitals("events").projection_lags
    for projection in PROJECTIONS:
        name = projection.name
        live = [version for version in versions(context.connection, name) if version.state == "live"]
        if not live:
            findings.append(wrong("projections", f"{name} has no live version.", "importledger migrate"))
        for version in live:
            if parked := parked_streams(context.connection, name, version.version, is_open=True):
                repair = f"remove the cause, then {heal_command(name, parked[0])}"
                accept = f"or, if it stays unreadable, importledger projections accept {shlex.quote(parked[0])}"
                findings.append(
                    wrong("projections", f"{name} has {counted(len(parked), 'parked stream')}.", f"{repair}; {accept}")
                )
            if version.is_outdated(projection):
                rebuild = f"importledger projections rebuild {name}"
                findings.append(warned("projections", f"{name} is outdated.", rebuild))
            elif (lag := lags.get(name)) is not None and lag.seconds > MAX_LAG_S:  # inline projections have none
                sentence = f"{name} is {counted(lag.events, 'event')} and {lag.seconds:,.0f} s behind the log."
                findings.append(warned("projections", sentence, "look at the relay's log"))
    yield from findings or [good("projections", f"Projections: all {len(PROJECTIONS)} are up to date.")]


def heal_command(name: str, stream: str) -> str:
    """Return the command that projects a parked stream again."""
    if stream.startswith(("participant/", "price-sheet/")):
        return f"importledger projections heal {shlex.quote(stream)}"
    if (account := subject_of(stream)) is None and stream.startswith("customer-mail/"):
        account = "import/" + stream.split("/", 1)[1]
    if account is not None:
        supplier, external = identity_of(account)
        return f"importledger projections heal {shlex.quote(supplier)} {shlex.quote(external)}"
    return f"importledger projections rebuild {name}"


def lag(context: DatabaseCheckInput) -> Iterator[Finding]:
    """Check the lag behind the log of each follower that has no check of its own."""
    for name, behind in context.vitals("events").lags.items():
        if name not in FOLLOWING:
            continue
        named = "The relay" if name == "relay" else f"The follower of {name}"
        if behind.seconds > MAX_LAG_S:
            sentence = f"{named} is {counted(behind.events, 'event')} and {behind.seconds:,.0f} s behind the log."
            yield warned("lag", sentence, "look at the relay's log, and whether Redis answers")
        else:
            yield good("lag", f"{named} is {counted(behind.events, 'event')} behind the log.")


def certificate(context: CheckInput) -> Iterator[Finding]:
    """Check how long the certificate of the console's address is valid."""
    address = urlsplit(context.settings.console_url)
    if address.scheme != "https" or address.hostname is None:
        return
    address_port = (address.hostname, address.port or 443)
    try:
        with (
            socket.create_connection(address_port, timeout=MAIL_TIMEOUT_S) as connection,
            ssl.create_default_context().wrap_socket(connection, server_hostname=address.hostname) as secured,
        ):
            ends = ssl.cert_time_to_seconds(str((secured.getpeercert() or {})["notAfter"]))
    except (OSError, KeyError, ValueError) as error:
        sentence = f"The certificate of {context.settings.console_url} cannot be checked: {error}."
        yield warned("certificate", sentence, "correct the proxy, its certificate or IMPORTLEDGER_CONSOLE_URL")
        return
    left = datetime.fromtimestamp(ends, UTC) - now()
    sentence = f"The certificate of {context.settings.console_url} is valid for {counted(left.days, 'day')}."
    if left < MIN_CERTIFICATE:
        yield warned("certificate", sentence, "renew it at the proxy")
    else:
        yield good("certificate", sentence)


def pending(context: DatabaseCheckInput) -> Iterator[Finding]:
    """Check how long the oldest import that could be processed has been waiting."""
    waits_s = context.vitals("imports").oldest_pending_s or 0
    if waits_s > MAX_PENDING_S:
        sentence = f"An import has been waiting for {waits_s:,.0f} s."
        yield warned("pending", sentence, "start more workers, or look at their logs")
    else:
        yield good("pending", "No import has been waiting for too long.")


def sealing(context: DatabaseCheckInput) -> Iterator[Finding]:
    """Compare the log with its newest signed checkpoint. Report a stop of the intake, or a wrong sealing key."""
    if stop := intake_stop(context.connection):
        sentence = f"Intake is stopped since {stop.stopped_at:%Y-%m-%dT%H:%M:%SZ}. {stop.reason}"
        yield wrong("sealing", sentence, DECIDE)
        return
    if not is_compared(context.connection):
        sentence = (
            "No accounts are accepted: the log was not compared with its checkpoints since the database has started."
        )
        yield wrong("sealing", sentence, "start the relay, or look for `sealing waits` in its log")
        return
    try:
        if (key := known_key(context.settings)) is not None:
            newest_checkpoint(context.connection, [key.verifier])
    except (KeyNotUsable, SealRefused) as error:
        yield wrong("sealing", str(error), "set IMPORTLEDGER_SEALING_KEY to the key that signed the log")
        return
    head, signed = context.vitals("events").head or 0, signed_size(context.connection)
    recorded_at: datetime | None = context.value("SELECT recorded_at FROM events WHERE position = %s", signed + 1)
    if recorded_at and now() - recorded_at > timedelta(seconds=MAX_LAG_S + context.settings.seal_every_s):
        unsigned = counted(head - signed, "event is", "events are")
        sentence = f"{unsigned} not signed, the first since {recorded_at:%Y-%m-%dT%H:%M:%SZ}."
        yield warned("sealing", sentence, "look for `log not sealed` or `sealing waits` in the relay's log")
    else:
        yield good("sealing", f"{counted(min(head, signed), 'event is', 'events are')} signed.")


def redis(context: CheckInput) -> Iterator[Finding]:
    """Check that Redis answers, if one is used."""
    from workers.redis_address import why_no_redis  # large

    connections = DataFolder(context.settings.data_dir).read_connections() or {}
    url = context.settings.redis_url or (None if context.settings.database_url else connections.get("redis_url"))
    if url is None:
        return
    if why := why_no_redis(url):
        yield warned("redis", f"Redis does not answer at {why}.", "start it, or correct REDIS_URL")
    else:
        yield good("redis", "Redis answers.")


def documents(context: DatabaseCheckInput) -> Iterator[Finding]:
    """Check that the documents root of each supplier can be reached."""
    from workers.actors.documents import is_allowed, why_unreachable

    places = context.settings.documents_places
    for code, root, organisation in context.rows(
        "SELECT code, documents_root, documents_organisation FROM import_supplier"
        " WHERE documents_root <> '' AND documents_check <> 'off' ORDER BY 1"
    ):
        sentence = ""
        if organisation and not is_allowed(root, places.get(organisation, ())):
            sentence = f"The documents of {code} are not checked: {root} is not allowed to {organisation}."
        elif why := why_unreachable(root):
            sentence = f"The documents of {code}: {why}."
        if sentence:
            yield warned("documents", sentence, f"importledger supplier set {code} documents-root=URL")
        else:
            yield good("documents", f"The documents of {code} can be checked.")


def mail(context: DatabaseCheckInput) -> Iterator[Finding]:
    """Check the mail server, and count the e-mails that wait for it."""
    waiting, url = context.vitals("imports").waiting_mails or 0, context.settings.smtp_url
    senders = context.value("SELECT count(*) FROM import_supplier WHERE sends_customer_emails")
    if url is None and (waiting or senders):
        todo = "set IMPORTLEDGER_SMTP_URL and IMPORTLEDGER_MAIL_FROM for the workers"
        yield warned(
            "mail", f"{counted(waiting, 'e-mail waits', 'e-mails wait')}, and no mail server is set here.", todo
        )
    elif url and (why := why_no_mail_server(MailServer(url, "", is_plain=context.settings.is_smtp_plain))):
        sentence = f"The mail server cannot be used: {why}. {counted(waiting, 'e-mail waits', 'e-mails wait')}."
        yield warned("mail", sentence, "correct the mail server, or IMPORTLEDGER_SMTP_URL")
    else:
        yield good("mail", f"{counted(waiting, 'e-mail waits', 'e-mails wait')}.")


def why_no_mail_server(server: MailServer) -> str | None:
    """Return the reason why a session with this mail server cannot be opened; None if it can. Does not log in."""
    host, port = server.address
    try:
        with mail_session(server, timeout_s=MAIL_TIMEOUT_S, logs_in=False):
            return None
    except NotSecure as error:
        return f"{host}:{port}, {error}"
    except (OSError, SMTPException) as error:
        return f"{host}:{port}, {getattr(error, 'strerror', None) or type(error).__name__}"


def backups(context: CheckInput) -> Iterator[Finding]:
    """Check the age of the newest backup, if the folder of backups is given."""
    if context.backups is None:
        yield warned("backups", "Backups were not checked: pass their folder.", "importledger doctor --backups DIR")
        return
    finished = []
    for folder in (context.backups, *(path for path in context.backups.iterdir() if path.is_dir())):
        try:
            finished.append(read_manifest(folder).created_at)
        except (BackupError, OSError, msgspec.MsgspecError):
            continue
    age = now() - max(finished) if finished else None
    if age is None or age > MAX_BACKUP_AGE:
        sentence = f"The newest backup is {age.days} days old." if age else f"There is no backup in {context.backups}."
        yield warned("backups", sentence, f"importledger backup {context.backups}/{now():%Y-%m-%d}")
    else:
        yield good("backups", f"The newest backup was made at {max(finished):%Y-%m-%dT%H:%M:%SZ}.")
