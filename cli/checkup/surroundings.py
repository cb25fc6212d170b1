"""What stands around the service: Redis, documents, mail, backups."""

from collections.abc import Iterator
from datetime import timedelta
from smtplib import SMTPException

import msgspec

from cli.checkup.finding import Around, Finding, Looked
from embedded.folder import DataFolder
from eventstore.clock import now
from eventstore.operations.backup import BackupError, read_manifest
from workers.actors.mail_server import MailServer, NotSecure, mail_session

MAIL_TIMEOUT_S = 3.0
MAX_BACKUP_AGE = timedelta(days=2)


def bell(look: Around) -> Iterator[Finding]:
    """Whether Redis answers, where there is one."""
    from workers.redis_address import why_no_redis  # its library is large

    kept = DataFolder(look.settings.data_dir).read_connections() or {}
    url = look.settings.redis_url or (None if look.settings.database_url else kept.get("redis_url"))
    if url is None:
        return
    if why := why_no_redis(url):
        yield Finding("redis", "warned", f"Redis does not answer at {why}.", "start it, or mend REDIS_URL")
    else:
        yield Finding("redis", "good", "Redis answers.")


def documents(look: Looked) -> Iterator[Finding]:
    """Whether each supplier's root of documents can be asked."""
    from workers.actors.documents import is_allowed, why_unreachable

    places = look.settings.console.places
    for code, root, organisation in look.rows(
        "SELECT code, documents_root, documents_organisation FROM import_supplier WHERE documents_root <> '' ORDER BY 1"
    ):
        if organisation and not is_allowed(root, places.get(organisation, ())):
            says = f"The documents of {code} are not looked for: {root} is not among the places of {organisation}."
            yield Finding("documents", "warned", says, f"importledger supplier set {code} documents-root=URL")
        elif why := why_unreachable(root):
            says, todo = f"The documents of {code}: {why}.", f"importledger supplier set {code} documents-root=URL"
            yield Finding("documents", "warned", says, todo)
        else:
            yield Finding("documents", "good", f"The documents of {code} can be looked for.")


def mail(look: Looked) -> Iterator[Finding]:
    """E-mails that wait for a mail server."""
    waiting, url = look.value("SELECT count(*) FROM customer_mail WHERE status = 'REQUESTED'"), look.settings.smtp_url
    if url is None:
        if waiting:
            says = f"{waiting:,} e-mails wait, and no mail server is set here."
            yield Finding(
                "mail", "warned", says, "set IMPORTLEDGER_SMTP_URL and IMPORTLEDGER_MAIL_FROM for the workers"
            )
            return
    elif why := why_no_mail_server(MailServer(url, "", is_plain=look.settings.is_smtp_plain)):
        says = f"The mail server cannot be used: {why}. {waiting:,} e-mails wait."
        yield Finding("mail", "warned", says, "correct the mail server, or IMPORTLEDGER_SMTP_URL")
        return
    yield Finding("mail", "good", f"{waiting:,} e-mails wait.")


def why_no_mail_server(server: MailServer) -> str | None:
    """Why no session with this mail server begins; None where one does. Nobody logs in."""
    host, port = server.address
    try:
        with mail_session(server, timeout_s=MAIL_TIMEOUT_S, logs_in=False):
            return None
    except NotSecure as error:
        return f"{host}:{port}, {error}"
    except (OSError, SMTPException) as error:
        return f"{host}:{port}, {getattr(error, 'strerror', None) or type(error).__name__}"


def backups(look: Around) -> Iterator[Finding]:
    """How old the newest backup is, where it is said where they lie."""
    if look.backups is None:
        yield Finding(
            "backups", "warned", "Backups were not checked: pass their folder.", "importledger doctor --backups DIR"
        )
        return
    made = []
    for folder in (look.backups, *(path for path in look.backups.iterdir() if path.is_dir())):
        try:
            made.append(read_manifest(folder).created_at)
        except (BackupError, OSError, msgspec.MsgspecError):
            continue
    age = now() - max(made) if made else None
    if age is None or age > MAX_BACKUP_AGE:
        says = f"The newest backup is {age.days} days old." if age else f"There is no backup in {look.backups}."
        yield Finding("backups", "warned", says, f"importledger backup {look.backups}/{now():%Y-%m-%d}")
    else:
        yield Finding("backups", "good", f"The newest backup was made at {max(made):%Y-%m-%dT%H:%M:%SZ}.")
