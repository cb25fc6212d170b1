"""What former releases have written is read, processed and proved by this one: their events, rows and messages."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import dramatiq
import psycopg
import pytest
import zstandard
from psycopg.rows import dict_row
from psycopg.sql import SQL, Identifier

from embedded.postgres import PostgresUrls
from eventstore.log.ledger import Ledger
from eventstore.operations.migrate import known_migrations, role_of
from projections import INLINE, PROJECTIONS
from projections.versioning.build import administrator
from projections.versioning.compare import verify
from projections.versioning.install import migrate_all
from tests.support.databases import drop, renamed
from tests.support.running import cli, start_role, wait_for
from workers.broker import IMPORTS, redis_broker

RELEASES = sorted(path for path in (Path(__file__).parent.parent / "releases").iterdir() if path.is_dir())
STATUSES = {"CANCELLED": 1, "PENDING": 3, "PROCESSED": 6}
"""Of the ten accounts of each release; the person of one that was processed is erased."""


@pytest.fixture(params=RELEASES, ids=lambda path: path.name)
def release(request: pytest.FixtureRequest) -> Path:
    folder: Path = request.param
    return folder


@pytest.fixture
def former(postgres: PostgresUrls, release: Path) -> Iterator[PostgresUrls]:
    """The database of a release, as it left it."""
    name = f"release_{release.name.replace('-', '_')}"
    urls = PostgresUrls(renamed(postgres.service, name), renamed(postgres.admin, name))
    with psycopg.connect(postgres.admin, autocommit=True) as connection:
        connection.execute(SQL("CREATE DATABASE {}").format(Identifier(name)))
    script = zstandard.ZstdDecompressor().decompress((release / "database.sql.zst").read_bytes())
    with psycopg.connect(urls.admin, autocommit=True) as connection:
        connection.execute(script)
    yield urls
    drop(urls)


def environment_of(database: PostgresUrls, folder: Path, redis_url: str) -> dict[str, str]:
    return {
        "DATABASE_URL": database.service,
        "DATABASE_ADMIN_URL": database.admin,
        "REDIS_URL": redis_url,
        "IMPORTLEDGER_DATA_DIR": str(folder / "data"),
        "IMPORTLEDGER_SEALING_KEY": "A" * 43,
    }


def statuses(database: PostgresUrls) -> dict[str, int]:
    with psycopg.connect(database.admin) as connection:
        return dict(connection.execute("SELECT status, count(*) FROM import_status GROUP BY 1").fetchall())


def test_the_upgrade_is_told_and_done_and_every_view_is_what_the_log_says(former: PostgresUrls, folder: Path) -> None:
    environment = environment_of(former, folder, "redis://127.0.0.1:1")
    with psycopg.connect(former.admin) as connection:
        before = known_migrations(connection)
    told = cli("upgrade-check", "--json", environment=environment, check=False)
    plan = json.loads(told.stdout)
    assert told.returncode == (0 if plan["is_up_to_date"] else 2 if plan["can_be_rolled"] else 3)
    applied = json.loads(cli("migrate", "--json", environment=environment).stdout)["applied"]
    assert applied == [one["name"] for one in plan["pending"]]
    assert not set(applied) & before.keys()
    assert statuses(former) == STATUSES
    with administrator(former.admin) as connection:
        for projection in PROJECTIONS:
            if projection.is_inline:
                assert verify(former.admin, connection, projection, limit=3).count == 0, projection.name
    assert cli("upgrade-check", environment=environment).returncode == 0


def test_every_event_of_a_release_is_read(former: PostgresUrls) -> None:
    migrate_all(former.admin, service_role=role_of(former.service))
    with psycopg.connect(former.admin, row_factory=dict_row) as connection:
        streams = [row["stream"] for row in connection.execute("SELECT DISTINCT stream FROM events").fetchall()]
    ledger = Ledger(former.service, views=INLINE)
    try:
        assert ledger.load(streams).keys() == set(streams)  # raises where a state cannot be folded
        assert {one.stream for one in ledger.history(*streams)} == set(streams)
    finally:
        ledger.close()


def test_what_a_release_uses_is_still_there_after_the_upgrade(former: PostgresUrls) -> None:
    """Its processes go on beside this version: no table or column of the log and of views is taken from them."""
    query = (
        "SELECT table_name || '.' || column_name FROM information_schema.columns"
        " WHERE table_schema = 'public' AND table_name NOT LIKE 'pg\\_%'"
    )
    with psycopg.connect(former.admin, autocommit=True) as connection:
        before = {name for (name,) in connection.execute(query).fetchall()}
        migrate_all(former.admin, service_role=role_of(former.service))
        after = {name for (name,) in connection.execute(query).fetchall()}
    assert sorted(before - after) == []


def test_what_a_release_left_pending_is_processed_and_its_messages_are_understood(
    former: PostgresUrls, release: Path, redis_url: str, folder: Path
) -> None:
    environment = environment_of(former, folder, redis_url)
    cli("migrate", environment=environment)
    message = dramatiq.Message.decode((release / "message.json").read_bytes().strip())
    assert message.queue_name == IMPORTS.queue
    broker = redis_broker(redis_url)
    broker.declare_queue(IMPORTS.queue)
    broker.enqueue(message)
    with contextlib.ExitStack() as roles:
        roles.enter_context(start_role("worker", environment=environment, log=folder / "worker.log"))
        ended = {"CANCELLED": 1, "PENDING": 3 - len(message.args[0]), "PROCESSED": 6 + len(message.args[0])}
        wait_for(lambda: statuses(former) == ended, "the message of the release is understood", timeout_s=90)
        roles.enter_context(start_role("relay", environment=environment, log=folder / "relay.log"))
        wait_for(lambda: statuses(former) == {"CANCELLED": 1, "PROCESSED": 9}, "the rest is rung", timeout_s=90)
    cli("seal", environment=environment)
    assert cli("verify", "--all", environment=environment).returncode == 0
