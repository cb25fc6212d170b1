"""Checks of the service: processes, lags, projections, seals, Redis, documents, mail and backups."""

import shlex
import socket
import ssl
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from smtplib import SMTPException
from urllib.parse import urlsplit

import msgspec

from cli.checkup.finding import CheckInput, DatabaseCheckInput, Finding, command, counted, good, grouped, warned, wrong
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
from projections.queries.vitals import FOLLOWING, Lag
from projections.versions.versions import parked_streams, versions
from schemas.sentence import Sentence
from workers.actors.mail_server import MailServer, NotSecure, mail_session

MAX_LAG_S = 300
MAX_PENDING_S = 600
MAIL_TIMEOUT_S = 3.0
MAX_BACKUP_AGE = timedelta(days=2)
MIN_CERTIFICATE = timedelta(days=14)
DECIDE = Sentence(
    "importledger seal --continue-from N --reason TEXT, or importledger seal --accept --reason TEXT",
    "importledger seal --continue-from N --reason TEXT, oder importledger seal --accept --reason TEXT",
)
"""Commands for a log that does not match its signed checkpoints."""

_FOLLOWERS = {
    "relay": Sentence("relay", "Relay"),
    "projector": Sentence("projector", "Sichten"),
    "sealer": Sentence("sealer", "Versiegelung"),
    "ended imports": Sentence("ended imports", "abgeschlossene Importe"),
    "owner's tasks": Sentence("owner's tasks", "angeforderte Vorgänge"),
}
"""Names of the background services, by the names of `importledger_lag_events` and of the leaders' locks."""


def roles(context: DatabaseCheckInput) -> Iterator[Finding]:
    """Check that a relay, a projector and workers run, on any machine."""
    held = context.vitals("locks")
    if missing := [name for name in ("relay", "projector") if not held.holders.get(name)]:
        sentence = Sentence(
            "No process has the role {names}.", "Kein Prozess hat die Rolle {names}.", names=", ".join(missing)
        )
        yield wrong("roles", sentence, command("importledger relay"))
    else:
        running = [_FOLLOWERS[name] for name, number in held.holders.items() if number and name != "worker"]
        sentence = Sentence(
            "These background services run: {names}.",
            "Diese Hintergrunddienste laufen: {names}.",
            names=Sentence(", ".join(running), ", ".join(name.german for name in running)),
        )
        yield good("roles", sentence)
    if not held.workers:
        sentence = Sentence(
            "No worker is running: no accounts are created.", "Kein Worker läuft: Es werden keine Konten angelegt."
        )
        yield wrong("roles", sentence, command("importledger worker"))
    else:
        number = counted(len(held.workers), ("worker runs", "workers run"), ("Worker läuft", "Worker laufen"))
        numbers = ", ".join(map(str, held.workers))
        yield good("roles", Sentence("{number}: {numbers}.", "{number}: {numbers}.", number=number, numbers=numbers))


def troubles(context: DatabaseCheckInput) -> Iterator[Finding]:
    """Report work that fails in any process at present."""
    troubles_now = reported_troubles(context.connection)
    for trouble in troubles_now:
        sentence = Sentence(
            "{trouble.name} of {trouble.process} has failed since {trouble.since:%Y-%m-%dT%H:%M:%SZ}: {trouble.error}",
            "{trouble.name} in {trouble.process} schlägt seit {trouble.since:%Y-%m-%dT%H:%M:%SZ} fehl: {trouble.error}",
            trouble=trouble,
        )
        todo = Sentence(
            "remove the cause; the work then continues by itself",
            "Ursache beseitigen; die Arbeit geht dann von selbst weiter",
        )
        yield (warned if trouble.is_waiting else wrong)("troubles", sentence, todo)
    if not troubles_now:
        yield good("troubles", Sentence("No part of the service fails.", "Kein Teil des Dienstes ist gestört."))


def projections(context: DatabaseCheckInput) -> Iterator[Finding]:
    """Check each projection for parked streams, an outdated definition, and lag."""
    findings: list[Finding] = []
    lags = context.vitals("events").projection_lags
    for projection in PROJECTIONS:
        name = projection.name
        live = [version for version in versions(context.connection, name) if version.state == "live"]
        if not live:
            sentence = Sentence("{name} has no live version.", "{name} hat keine aktive Version.", name=name)
            findings.append(wrong("projections", sentence, command("importledger migrate")))
        for version in live:
            if parked := parked_streams(context.connection, name, version.version, is_open=True):
                findings.append(_parked(name, parked))
            if version.is_outdated(projection):
                rebuild = command(f"importledger projections rebuild {name}")
                findings.append(
                    warned("projections", Sentence("{name} is outdated.", "{name} ist veraltet.", name=name), rebuild)
                )
            elif (lag := lags.get(name)) is not None and lag.seconds > MAX_LAG_S:  # inline projections have no lag
                todo = Sentence("look at the relay's log", "Protokollzeilen des Relays lesen")
                findings.append(warned("projections", _behind(command(name), lag), todo))
    sentence = Sentence(
        "Projections: all {number} are up to date.", "Sichten: Alle {number} sind aktuell.", number=len(PROJECTIONS)
    )
    yield from findings or [good("projections", sentence)]


def _parked(name: str, parked: Sequence[str]) -> Finding:
    number = counted(
        len(parked), ("parked stream", "parked streams"), ("zurückgestellten Strom", "zurückgestellte Ströme")
    )
    todo = Sentence(
        "remove the cause, then {heal}; or, if it stays unreadable, importledger projections accept {stream}",
        "Ursache beseitigen, dann {heal}; oder, falls er unlesbar bleibt, importledger projections accept {stream}",
        heal=heal_command(name, parked[0]),
        stream=shlex.quote(parked[0]),
    )
    return wrong(
        "projections", Sentence("{name} has {number}.", "{name} hat {number}.", name=name, number=number), todo
    )


def _behind(name: Sentence, lag: Lag) -> Sentence:
    return Sentence(
        "{name} is {number} and {seconds} s behind the log.",
        "{name} liegt {number} und {seconds} s hinter dem Protokoll.",
        name=name,
        number=counted(lag.events, ("event", "events"), ("Ereignis", "Ereignisse")),
        seconds=grouped(lag.seconds),
    )


def heal_command(name: str, stream: str) -> str:
    """Return the command that rebuilds the rows of a parked stream."""
    if stream.startswith(("participant/", "price-sheet/")):
        return f"importledger projections heal {shlex.quote(stream)}"
    if (account := subject_of(stream)) is None and stream.startswith("customer-mail/"):
        account = "import/" + stream.split("/", 1)[1]
    if account is not None:
        supplier, external = identity_of(account)
        return f"importledger projections heal {shlex.quote(supplier)} {shlex.quote(external)}"
    return f"importledger projections rebuild {name}"


def lag(context: DatabaseCheckInput) -> Iterator[Finding]:
    """Check the lag of each follower that has no separate check."""
    for name, behind in context.vitals("events").lags.items():
        if name not in FOLLOWING:
            continue
        named = Sentence("The follower of {name}", "Der Dienst für {name}", name=_FOLLOWERS[name])
        if name == "relay":
            named = Sentence("The relay", "Das Relay")
        if behind.seconds > MAX_LAG_S:
            todo = Sentence(
                "look at the relay's log, and whether Redis answers",
                "Protokollzeilen des Relays lesen und prüfen, ob Redis antwortet",
            )
            yield warned("lag", _behind(named, behind), todo)
        else:
            sentence = Sentence(
                "{name} is {number} behind the log.",
                "{name} liegt {number} hinter dem Protokoll.",
                name=named,
                number=counted(behind.events, ("event", "events"), ("Ereignis", "Ereignisse")),
            )
            yield good("lag", sentence)


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
        sentence = Sentence(
            "The certificate of {url} cannot be checked: {error}.",
            "Das Zertifikat von {url} lässt sich nicht prüfen: {error}.",
            url=context.settings.console_url,
            error=error,
        )
        todo = Sentence(
            "correct the proxy, its certificate or IMPORTLEDGER_CONSOLE_URL",
            "Proxy, Zertifikat oder IMPORTLEDGER_CONSOLE_URL korrigieren",
        )
        yield warned("certificate", sentence, todo)
        return
    left = datetime.fromtimestamp(ends, UTC) - now()
    sentence = Sentence(
        "The certificate of {url} is valid for {number}.",
        "Das Zertifikat von {url} gilt noch {number}.",
        url=context.settings.console_url,
        number=counted(left.days, ("day", "days"), ("Tag", "Tage")),
    )
    if left < MIN_CERTIFICATE:
        yield warned("certificate", sentence, Sentence("renew it at the proxy", "am Proxy erneuern"))
    else:
        yield good("certificate", sentence)


def pending(context: DatabaseCheckInput) -> Iterator[Finding]:
    """Check how long the oldest import that could be processed has been waiting."""
    waits_s = context.vitals("imports").oldest_pending_s or 0
    if waits_s > MAX_PENDING_S:
        sentence = Sentence(
            "An import has been waiting for {seconds} s.",
            "Ein Import wartet seit {seconds} s.",
            seconds=grouped(waits_s),
        )
        todo = Sentence(
            "start more workers, or look at their logs", "mehr Worker starten oder deren Protokollzeilen lesen"
        )
        yield warned("pending", sentence, todo)
    else:
        sentence = Sentence("No import has been waiting for too long.", "Kein Import wartet zu lange.")
        yield good("pending", sentence)


def sealing(context: DatabaseCheckInput) -> Iterator[Finding]:
    """Compare the log with its newest signed checkpoint. Report a stop of the intake, or a wrong sealing key."""
    if stop := intake_stop(context.connection):
        sentence = Sentence(
            "Intake is stopped since {stop.stopped_at:%Y-%m-%dT%H:%M:%SZ}. {stop.reason}",
            "Seit {stop.stopped_at:%Y-%m-%dT%H:%M:%SZ} werden keine Konten angenommen. {stop.reason}",
            stop=stop,
        )
        yield wrong("sealing", sentence, DECIDE)
        return
    if not is_compared(context.connection):
        sentence = Sentence(
            "No accounts are accepted: the log was not compared with its checkpoints since the database has started.",
            "Es werden keine Konten angenommen: Das Protokoll wurde seit dem Start der Datenbank nicht mit seinen "
            "Siegeln verglichen.",
        )
        todo = Sentence(
            "start the relay, or look for `sealing waits` in its log",
            "Relay starten oder in seinen Protokollzeilen nach `sealing waits` suchen",
        )
        yield wrong("sealing", sentence, todo)
        return
    try:
        if (key := known_key(context.settings)) is not None:
            newest_checkpoint(context.connection, [key.verifier])
    except (KeyNotUsable, SealRefused) as error:
        todo = Sentence(
            "set IMPORTLEDGER_SEALING_KEY to the key that signed the log",
            "IMPORTLEDGER_SEALING_KEY auf den Schlüssel setzen, der das Protokoll signiert hat",
        )
        yield wrong("sealing", Sentence("{error}", "Die Versiegelung ist gestört: {error}", error=error), todo)
        return
    head, signed = context.vitals("events").head or 0, signed_size(context.connection)
    recorded_at: datetime | None = context.value("SELECT recorded_at FROM events WHERE position = %s", signed + 1)
    if recorded_at and now() - recorded_at > timedelta(seconds=MAX_LAG_S + context.settings.seal_every_s):
        sentence = Sentence(
            "{number} not signed, the first since {since:%Y-%m-%dT%H:%M:%SZ}.",
            "{number} nicht signiert, das erste seit {since:%Y-%m-%dT%H:%M:%SZ}.",
            number=counted(head - signed, ("event is", "events are"), ("Ereignis ist", "Ereignisse sind")),
            since=recorded_at,
        )
        todo = Sentence(
            "look for `log not sealed` or `sealing waits` in the relay's log",
            "in den Protokollzeilen des Relays nach `log not sealed` oder `sealing waits` suchen",
        )
        yield warned("sealing", sentence, todo)
    else:
        number = counted(min(head, signed), ("event is", "events are"), ("Ereignis ist", "Ereignisse sind"))
        yield good("sealing", Sentence("{number} signed.", "{number} signiert.", number=number))


def redis(context: CheckInput) -> Iterator[Finding]:
    """Check that Redis answers, if a Redis URL is set."""
    from workers.redis_address import why_no_redis  # large

    connections = DataFolder(context.settings.data_dir).read_connections() or {}
    url = context.settings.redis_url or (None if context.settings.database_url else connections.get("redis_url"))
    if url is None:
        return
    if why := why_no_redis(url):
        sentence = Sentence("Redis does not answer at {why}.", "Redis antwortet nicht unter {why}.", why=why)
        yield warned(
            "redis", sentence, Sentence("start it, or correct REDIS_URL", "starten oder REDIS_URL korrigieren")
        )
    else:
        yield good("redis", Sentence("Redis answers.", "Redis antwortet."))


def documents(context: DatabaseCheckInput) -> Iterator[Finding]:
    """Check that the documents root of each supplier can be reached."""
    from workers.actors.documents import is_allowed, why_unreachable

    places = context.settings.documents_places
    for code, root, organisation in context.rows(
        "SELECT code, documents_root, documents_organisation FROM import_supplier"
        " WHERE documents_root <> '' AND documents_check <> 'off' ORDER BY 1"
    ):
        sentence = None
        if organisation and not is_allowed(root, places.get(organisation, ())):
            sentence = Sentence(
                "The documents of {code} are not checked: {root} is not allowed to {organisation}.",
                "Die Dokumente von {code} werden nicht geprüft: {root} ist {organisation} nicht erlaubt.",
                code=code,
                root=root,
                organisation=organisation,
            )
        elif why := why_unreachable(root):
            sentence = Sentence("The documents of {code}: {why}.", "Dokumente von {code}: {why}.", code=code, why=why)
        if sentence:
            yield warned("documents", sentence, command(f"importledger supplier set {code} documents-root=URL"))
        else:
            sentence = Sentence(
                "The documents of {code} can be checked.", "Die Dokumente von {code} können geprüft werden.", code=code
            )
            yield good("documents", sentence)


def mail(context: DatabaseCheckInput) -> Iterator[Finding]:
    """Check the mail server, and count the e-mails that wait for it."""
    waiting, url = context.vitals("imports").waiting_mails or 0, context.settings.smtp_url
    senders = context.value("SELECT count(*) FROM import_supplier WHERE sends_customer_emails")
    number = counted(waiting, ("e-mail waits", "e-mails wait"), ("E-Mail wartet", "E-Mails warten"))
    if url is None and (waiting or senders):
        sentence = Sentence(
            "{number}, and no mail server is set here.",
            "{number}, und hier ist kein Mailserver festgelegt.",
            number=number,
        )
        todo = Sentence(
            "set IMPORTLEDGER_SMTP_URL and IMPORTLEDGER_MAIL_FROM for the workers",
            "IMPORTLEDGER_SMTP_URL und IMPORTLEDGER_MAIL_FROM für die Worker setzen",
        )
        yield warned("mail", sentence, todo)
    elif url and (why := why_no_mail_server(MailServer(url, "", is_plain=context.settings.is_smtp_plain))):
        sentence = Sentence(
            "The mail server cannot be used: {why}. {number}.",
            "Der Mailserver ist nicht nutzbar: {why}. {number}.",
            why=why,
            number=number,
        )
        todo = Sentence(
            "correct the mail server, or IMPORTLEDGER_SMTP_URL", "Mailserver oder IMPORTLEDGER_SMTP_URL korrigieren"
        )
        yield warned("mail", sentence, todo)
    else:
        yield good("mail", Sentence("{number}.", "{number}.", number=number))


def why_no_mail_server(server: MailServer) -> Sentence | None:
    """Return the reason why no session with a mail server can be opened, or None. Does not log in."""
    host, port = server.address
    try:
        with mail_session(server, timeout_s=MAIL_TIMEOUT_S, logs_in=False):
            return None
    except NotSecure as error:
        reason = error.reason
    except (OSError, SMTPException) as error:
        reason = command(getattr(error, "strerror", None) or type(error).__name__)
    return Sentence("{host}:{port}, {reason}", "{host}:{port}, {reason}", host=host, port=port, reason=reason)


def backups(context: CheckInput) -> Iterator[Finding]:
    """Check the age of the newest backup in the folder of backups, if `--backups` names it."""
    if context.backups is None:
        sentence = Sentence(
            "Backups were not checked: pass their folder.", "Sicherungen wurden nicht geprüft: Ihr Ordner fehlt."
        )
        yield warned("backups", sentence, command("importledger doctor --backups DIR"))
        return
    finished = []
    for folder in (context.backups, *(path for path in context.backups.iterdir() if path.is_dir())):
        try:
            finished.append(read_manifest(folder).created_at)
        except (BackupError, OSError, msgspec.MsgspecError):
            continue
    age = now() - max(finished) if finished else None
    if age is None or age > MAX_BACKUP_AGE:
        sentence = Sentence(
            "There is no backup in {folder}.", "In {folder} liegt keine Sicherung.", folder=context.backups
        )
        if age:
            sentence = Sentence(
                "The newest backup is {days} days old.", "Die neueste Sicherung ist {days} Tage alt.", days=age.days
            )
        yield warned("backups", sentence, command(f"importledger backup {context.backups}/{now():%Y-%m-%d}"))
    else:
        sentence = Sentence(
            "The newest backup was made at {at:%Y-%m-%dT%H:%M:%SZ}.",
            "Die neueste Sicherung ist von {at:%Y-%m-%dT%H:%M:%SZ}.",
            at=max(finished),
        )
        yield good("backups", sentence)
