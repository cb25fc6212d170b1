"""A planned switchover: the server ends all sessions on purpose, and another accepts writes soon."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from embedded.postgres import PostgresUrls
from tests.support.make import an_account
from tests.support.running import Importer, RunningService
from tests.support.serving import running

AWAY_S = 2.5
"""Longer than an append waits for a database that does not answer."""


class Database:
    """Lets clients in, or ends their sessions and lets none in."""

    def __init__(self, admin: psycopg.Connection, name: str) -> None:
        self._admin, self._name = admin, name

    def admit(self, *, is_admitted: bool) -> None:
        allow = SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}")
        self._admin.execute(allow.format(Identifier(self._name), SQL("true" if is_admitted else "false")))
        if not is_admitted:
            self._admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (self._name,)
            )


@pytest.fixture
def service(database: PostgresUrls) -> Iterator[RunningService]:
    with running(database) as service:
        yield service


@contextmanager
def switching(postgres: PostgresUrls, database: PostgresUrls) -> Iterator[Database]:
    with psycopg.connect(postgres.admin, autocommit=True) as admin:
        name = psycopg.conninfo.conninfo_to_dict(database.admin)["dbname"]
        switched = Database(admin, str(name))
        switched.admit(is_admitted=False)
        try:
            yield switched
        finally:
            switched.admit(is_admitted=True)


def status(importer: Importer, number: int, **fields: str) -> int:
    body = an_account(importer.supplier, number)
    return importer.request("POST", "/v2/data-import/accounts/", body, fields)[0].status


@pytest.mark.promise("switchover-holds-creates")
def test_creates_wait_for_a_planned_switchover(
    postgres: PostgresUrls, database: PostgresUrls, service: RunningService, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("api.http.database", "eventstore.log.connecting"):
        monkeypatch.setattr(f"{module}.SWITCHOVER_S", 60.0)  # on a busy machine, this one takes long
    importer = service.importer()
    assert status(importer, 1) == 201
    with switching(postgres, database) as switched, ThreadPoolExecutor() as pool:
        back = threading.Timer(AWAY_S, switched.admit, kwargs={"is_admitted": True})
        back.start()
        plain = [pool.submit(status, importer, number) for number in range(2, 12)]
        named = pool.submit(status, importer, 12, **{"Idempotency-Key": "k"})
        assert {each.result() for each in (*plain, named)} == {201}
        back.join()


@pytest.mark.promise("switchover-holds-creates")
def test_creates_are_unavailable_if_a_switchover_does_not_end(
    postgres: PostgresUrls, database: PostgresUrls, service: RunningService
) -> None:
    importer = service.importer()
    assert status(importer, 1) == 201
    with switching(postgres, database):
        assert status(importer, 2) == 503
    assert status(importer, 1) == 201
