"""What stands around the service: Redis, documents, mail, backups."""

import socket
from collections.abc import Iterator
from datetime import timedelta
from urllib.parse import urlsplit

import msgspec

from cli.checkup.finding import Around, Finding, Looked
from embedded.folder import DataFolder
from eventstore.clock import now
from eventstore.operations.backup import BackupError, read_manifest

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
    from workers.documents import why_unreachable

    for code, root in look.rows(
        "SELECT code, documents_root FROM import_supplier WHERE documents_root <> '' ORDER BY 1"
    ):
        if why := why_unreachable(root):
            says, todo = f"The documents of {code}: {why}.", f"importledger supplier set {code} documents-root=URL"
            yield Finding("documents", "warned", says, todo)
        else:
            yield Finding("documents", "good", f"The documents of {code} can be looked for.")


def mail(look: Looked) -> Iterator[Finding]:
    """E-mails that wait for a mail server."""
    waiting = look.value("SELECT count(*) FROM customer_mail WHERE status = 'REQUESTED'")
    if look.settings.smtp_url is not None and (why := why_no_mail_server(look.settings.smtp_url)):
        says = f"The mail server does not answer: {why}. {waiting:,} e-mails wait."
        yield Finding("mail", "warned", says, "start it, or mend IMPORTLEDGER_SMTP_URL")
        return
    if waiting and look.settings.smtp_url is None:
        says = f"{waiting:,} e-mails wait, and no mail server is set here."
        yield Finding("mail", "warned", says, "set IMPORTLEDGER_SMTP_URL and IMPORTLEDGER_MAIL_FROM for the workers")
    else:
        yield Finding("mail", "good", f"{waiting:,} e-mails wait.")


def why_no_mail_server(url: str) -> str | None:
    """Why nothing answers there; None where something does. Nobody logs in."""
    parts = urlsplit(url)
    port = parts.port or (465 if parts.scheme == "smtps" else 587 if parts.username else 25)
    try:
        with socket.create_connection((parts.hostname or "", port), timeout=MAIL_TIMEOUT_S):
            return None
    except OSError as error:
        return f"{parts.hostname}:{port}, {error.strerror or type(error).__name__}"


def backups(look: Around) -> Iterator[Finding]:
    """How old the newest backup is, where it is said where they lie."""
    if look.backups is None:
        yield Finding("backups", "warned", "Nobody has said where backups lie.", "importledger doctor --backups DIR")
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
