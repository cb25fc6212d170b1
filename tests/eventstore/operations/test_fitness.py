"""A database is fit for the log if it supports the append; engines with missing features are refused."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from embedded.postgres import PostgresUrls
from embedded.user import server_user
from eventstore.operations.fitness import Durability, NotChecked, UnsafeStore, refuse_unsafe
from tests.support.databases import Admin
from tests.support.running import free_port, wait_for
from tests.support.standby import receiver, required_standby

STUBS = {
    "no lock at all": """
        CREATE FUNCTION stubs.pg_advisory_xact_lock(bigint) RETURNS void LANGUAGE sql AS 'SELECT';
        CREATE FUNCTION stubs.pg_try_advisory_lock(bigint) RETURNS boolean LANGUAGE sql AS 'SELECT true';
    """,
    "a lock that nobody gets": """
        CREATE FUNCTION stubs.pg_try_advisory_lock(bigint) RETURNS boolean LANGUAGE sql AS 'SELECT false';
    """,
    "locks of transactions alone": """
        CREATE FUNCTION stubs.pg_try_advisory_lock(bigint) RETURNS boolean LANGUAGE sql
        AS 'SELECT pg_try_advisory_xact_lock($1)';
    """,
}


@pytest.mark.parametrize("stubs", STUBS)
def test_an_engine_whose_locks_do_not_lock_is_refused(database: PostgresUrls, stubs: str, admin: Admin) -> None:
    refuse_unsafe(database.service)
    admin.execute("CREATE SCHEMA stubs; GRANT USAGE ON SCHEMA stubs TO PUBLIC")
    admin.execute(STUBS[stubs].encode())
    admin.execute("ALTER ROLE importledger SET search_path = stubs, pg_catalog, public")
    try:
        with pytest.raises(UnsafeStore, match="do not work as in Postgres"):
            refuse_unsafe(database.service)
    finally:
        admin.execute("ALTER ROLE importledger RESET search_path")


def test_an_engine_without_the_commit_order_of_read_committed_is_refused(postgres: PostgresUrls) -> None:
    for level in (r"repeatable\ read", "serializable"):
        with pytest.raises(UnsafeStore, match="not read committed"):
            refuse_unsafe(with_options(postgres.service, f"-c default_transaction_isolation={level}"))


def test_a_node_that_takes_no_writes_is_not_judged(postgres: PostgresUrls) -> None:
    with pytest.raises(NotChecked, match="read-only"):
        refuse_unsafe(with_options(postgres.service, "-c default_transaction_read_only=on"))
    with pytest.raises(NotChecked, match="Connection refused"):
        refuse_unsafe("postgresql://nobody@127.0.0.1:1/none")


def test_replicated_needs_a_synchronous_standby(postgres: PostgresUrls) -> None:
    with pytest.raises(UnsafeStore, match="no synchronous standby"):
        refuse_unsafe(postgres.service, "replicated")
    with psycopg.connect(postgres.admin) as owner:
        row = owner.execute("SELECT synchronous_standbys()").fetchone()
    assert row == (0,), "the owner sees that there is none"


def test_replicated_is_taken_while_a_synchronous_standby_is_connected(database: PostgresUrls, folder: Path) -> None:
    with psycopg.connect(database.admin, autocommit=True) as connection, receiver(database, folder) as standby:
        wait_for(lambda: connection.execute("SELECT FROM pg_stat_replication").rowcount == 1, "it receives")
        with required_standby(database, "probe"):
            wait_for(lambda: is_safe(database.service, "replicated"), "a commit waits for it")
            standby.terminate()
            standby.wait()
            wait_for(lambda: not is_safe(database.service, "replicated"), "the setting alone is not enough")


def is_safe(url: str, durability: Durability) -> bool:
    try:
        refuse_unsafe(url, durability)
    except (NotChecked, UnsafeStore):
        return False
    return True


def with_options(url: str, options: str) -> str:
    return f"{url}&options={quote(options)}"


@pytest.fixture(params=["session", "transaction"])
def pooled(request: pytest.FixtureRequest, database: PostgresUrls, folder: Path) -> Iterator[tuple[str, str]]:
    """Start a PgBouncer before the database; return its mode and URL."""
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if program is None:
        pytest.skip("there is no pgbouncer on this machine")
    parts, port, user = conninfo_to_dict(database.service), free_port(), server_user()
    (folder / "users.txt").write_text(f'"{parts["user"]}" "{parts["password"]}"\n')
    (folder / "pgbouncer.ini").write_text(
        f"[databases]\n* = host={parts['host']}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n"
        f"unix_socket_dir =\nauth_type = scram-sha-256\nauth_file = {folder}/users.txt\npool_mode = {request.param}\n"
        "ignore_startup_parameters = extra_float_digits\n"
    )
    for path in (folder, folder / "users.txt", folder / "pgbouncer.ini"):
        user.change_owner(path)
    process = subprocess.Popen(
        [program, str(folder / "pgbouncer.ini")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ,
        **user.popen_arguments(),
    )
    url = f"postgresql://{parts['user']}:{parts['password']}@127.0.0.1:{port}/{parts['dbname']}"
    try:
        wait_for(lambda: answers(url), "the pooler answers")
        yield request.param, url
    finally:
        process.terminate()
        process.wait()


def answers(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


def test_a_pooler_is_refused_in_transaction_mode_and_taken_in_session_mode(pooled: tuple[str, str]) -> None:
    mode, url = pooled
    if mode == "session":
        refuse_unsafe(url)
    else:
        with pytest.raises(UnsafeStore, match="session mode"):
            refuse_unsafe(url)
