"""With what the log is sealed here, and what is known of its seals: the key, the checkpoints inside and outside."""

from collections.abc import Iterator
from typing import Any

from psycopg import Connection
from psycopg.rows import tuple_row

from cli.service.settings import SettingError, Settings
from embedded.folder import DataFolder
from eventstore.proof.checkpoints import LogKey, Outside
from eventstore.proof.verification import Kept

CHECKPOINTS = "checkpoints"
SEALING_KEY = "sealing_key"


def sealing_key(settings: Settings) -> LogKey:
    """The key of the settings, or of the data folder, which is made at first use."""
    return LogKey.of(settings.sealing_key or DataFolder(settings.data_dir).secret(SEALING_KEY))


def outside(settings: Settings) -> Outside:
    """Where checkpoints are kept outside of the database: at the URL of the settings, or in the data folder."""
    return Outside(settings.checkpoints_url or (settings.data_dir.absolute() / CHECKPOINTS).as_uri())


def known_key(settings: Settings) -> str:
    """The verifier key of this installation. Raises SettingError where there is none."""
    secret = settings.sealing_key or DataFolder(settings.data_dir).known_secret(SEALING_KEY)
    if secret is None:
        raise SettingError("This machine does not have the log's key. Give its verifier key with --key.")
    return LogKey.of(secret).verifier


def kept_inside(connection: Connection[Any]) -> Iterator[Kept]:
    """The checkpoints in the database, oldest first."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        for size, note in cursor.execute("SELECT size, note FROM log_checkpoints ORDER BY size, branch").fetchall():
            yield Kept(f"in the database, of {size} events", note)
