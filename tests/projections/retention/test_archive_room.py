"""An archive's room is asked for before it is written: here, and at its place where that is here too."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from embedded.postgres import PostgresUrls
from eventstore.log.ledger import Ledger
from projections.retention.archive_room import lack_of_room, needed_bytes
from tests.support.make import an_account
from tests.support.staging import SUPPLIER, stage


@pytest.fixture
def rows(database: PostgresUrls) -> Iterator[Connection[Any]]:
    with psycopg.connect(database.admin, autocommit=True) as connection:
        yield connection


def test_it_grows_with_what_a_supplier_has_sent(rows: Connection[Any], ledger: Ledger) -> None:
    stage(ledger, an_account(SUPPLIER, 1))
    one = needed_bytes(rows, SUPPLIER, 1)
    stage(ledger, an_account(SUPPLIER, 2))
    assert needed_bytes(rows, SUPPLIER, 1) == one < needed_bytes(rows, SUPPLIER, 2)
    assert needed_bytes(rows, "SUEDWIND", 2) < one


def test_a_place_on_the_same_disk_needs_twice_as_much(
    rows: Connection[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = needed_bytes(rows, SUPPLIER, 1)
    disk = shutil.disk_usage("/")._replace(free=needed + 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: disk)
    assert lack_of_room(rows, SUPPLIER, "s3://bucket", 1) is None
    lack = lack_of_room(rows, SUPPLIER, (tmp_path / "not there" / "yet").as_uri(), 1)
    assert lack is not None
    assert lack.startswith(f"The archive of {SUPPLIER} takes about 32 MB below")
