"""A sealed log, and somebody with all rights on its database, who alters it."""

import hashlib
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path

import psycopg
import pytest
from psycopg.pq import TransactionStatus

from bench.history import append_all
from embedded.postgres import PostgresUrls
from eventstore.aggregates.supplier import CreateSupplier
from eventstore.log.answers import Answer
from eventstore.log.ledger import Ledger
from eventstore.operations.guards import guards_off
from eventstore.proof.checkpoints import CheckpointCopies, LogKey
from eventstore.proof.payload_verification import verify_payloads
from eventstore.proof.sealing import Sealed, seal
from eventstore.proof.verification import CheckpointNote, altered_rows, verify_answers, verify_events
from projections import INLINE
from projections.views.access_key import wrong_keys
from tests.support.databases import Admin, cloned, drop
from tests.support.folders import temporary_folder
from tests.support.make import NOON

KEY, OTHER_KEY = LogKey.of("A" * 43), LogKey.of("B" * 43)
SUPPLIER = "NORDWIND"
ACCOUNTS = 200
"""Three events each: more than two tiles."""

_numbers = count(1)


class Log:
    """A sealed log, somebody who may do everything to its database, and an auditor who kept the first checkpoint."""

    def __init__(self, urls: PostgresUrls, folder: Path) -> None:
        self.urls = urls
        self.outside = CheckpointCopies((folder / "outside").as_uri())
        self.folder = folder
        self.admin: Admin = psycopg.connect(urls.admin, autocommit=True)
        self.admin.execute("SET session_replication_role = replica")  # no trigger refuses, and none looks disabled

    def fill(self) -> None:
        """With what all logs of tests begin with."""
        self.add(1, ACCOUNTS // 2)
        (self.folder / "first.note").write_text(self.seal().note)
        self.add(ACCOUNTS // 2 + 1, ACCOUNTS)
        self.seal()
        assert self.problems() == [], self.problems()

    @property
    def first_checkpoint(self) -> CheckpointNote:
        """The first checkpoint, from before anybody could change it."""
        return CheckpointNote("kept", (self.folder / "first.note").read_text())

    def answer(self, stream: str) -> Answer:
        """A supplier is set up by a request with an Idempotency-Key, whose answer is remembered."""
        answer = Answer(f"org POST /{stream} key", hashlib.sha256(b"request").digest(), 201, b'{"first": true}')
        with self.ledger() as ledger:
            ledger.execute(stream, CreateSupplier(), at=NOON, by="t", answer=answer)
        return answer

    def ledger(self, *, of_owner: bool = False) -> closing[Ledger]:
        """Open the log, with the rights of the service or of the database's owner, until the block ends."""
        return closing(Ledger(self.urls.admin if of_owner else self.urls.service, views=INLINE))

    def add(self, first: int, last: int, supplier: str = SUPPLIER) -> None:
        append_all(self.urls.service, supplier, range(first, last + 1))

    def seal(self, key: LogKey = KEY, former_key: str | None = None) -> Sealed:
        with psycopg.connect(self.urls.service, autocommit=True) as connection:
            sealed = seal(connection, key, self.outside, at=NOON, former_key=former_key)
        assert sealed is not None
        return sealed

    def problems(
        self, key: LogKey = KEY, *, outside: bool = True, with_first: bool = False, is_full: bool = True
    ) -> list[str]:
        notes = [CheckpointNote(f"in the database, {size}", note) for size, note in self.checkpoints()]
        notes += [CheckpointNote(source, note) for source, note in self.outside.notes()] if outside else []
        notes += [self.first_checkpoint] if with_first else []
        with self._as_service() as connection:
            found = verify_events(connection, [key.verifier], notes, is_full=is_full).problems
            found = found + verify_payloads(connection).problems
            found += verify_answers(connection).problems + guards_off(connection)
            found += [f"WARNED  {sentence}" for sentence in wrong_keys(connection)]
            return found + list(altered_rows(connection, [key.verifier]))

    @contextmanager
    def _as_service(self) -> Iterator[Admin]:
        """A connection of the service's role; the owner's one while its transaction is open, which sees its changes."""
        if self.admin.info.transaction_status is TransactionStatus.IDLE:
            with psycopg.connect(self.urls.service) as connection:
                yield connection
        else:
            self.admin.execute("SET LOCAL session_replication_role = origin; SET LOCAL ROLE importledger")
            yield self.admin

    def checkpoints(self) -> list[tuple[int, str]]:
        return self.admin.execute("SELECT size, note FROM log_checkpoints ORDER BY size").fetchall()

    def cut(self, upto: int) -> None:
        """The tail of the log, and whatever in the database would give that away."""
        self.admin.execute("DELETE FROM events WHERE position > %s", (upto,))
        self.admin.execute("DELETE FROM payloads WHERE stream NOT IN (SELECT stream FROM events)")
        self.admin.execute("DELETE FROM payload_keys WHERE stream NOT IN (SELECT stream FROM events)")
        self.forget_the_tree()
        self.admin.execute("DELETE FROM log_checkpoints WHERE size > %s", (upto,))

    def forget_the_tree(self) -> None:
        self.admin.execute("TRUNCATE log_tiles")


@pytest.fixture(scope="session")
def filled_log(postgres: PostgresUrls) -> Iterator[Path]:
    """A sealed log that is filled once: the database `sealed_log`, and a folder of what was kept outside."""
    with temporary_folder() as folder:
        log = Log(cloned(postgres, "sealed_log"), folder)
        log.fill()
        log.admin.close()
        yield folder


@pytest.fixture
def log(postgres: PostgresUrls, filled_log: Path, folder: Path) -> Iterator[Log]:
    """A sealed log of the test's own."""
    with new_log(postgres, filled_log, folder) as log:
        yield log


@contextmanager
def new_log(postgres: PostgresUrls, filled_log: Path, folder: Path) -> Iterator[Log]:
    """A copy of the sealed log in this folder, until the end of the block."""
    shutil.copytree(filled_log, folder, dirs_exist_ok=True)
    urls = cloned(postgres, f"log_{next(_numbers)}", template="sealed_log")
    log = Log(urls, folder)
    yield log
    log.admin.close()
    drop(urls)


def edited(column: str, value: str) -> Callable[[Log], None]:
    def edit(log: Log) -> None:
        log.admin.execute(f"UPDATE events SET {column} = {value} WHERE position = 100")

    edit.__name__ = f"edited_{column}"
    return edit


def assert_found(problems: list[str], pattern: str) -> None:
    assert re.search(pattern, "\n".join(problems)), problems


def find(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let verbs find this log."""
    for name, value in {
        "DATABASE_URL": log.urls.service,
        "IMPORTLEDGER_SEALING_KEY": "A" * 43,
        "IMPORTLEDGER_CHECKPOINTS_URL": log.outside.url,
        "IMPORTLEDGER_DATA_DIR": str(log.folder),
    }.items():
        monkeypatch.setenv(name, value)


def emptied(log: Log) -> None:
    tables = "events, payloads, payload_keys, log_tiles, log_checkpoints, log_keys, remembered_answers"
    log.admin.execute(f"TRUNCATE {tables}".encode())
