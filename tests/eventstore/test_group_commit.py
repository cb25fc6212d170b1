"""The one writer of a process takes what it can hold, and says so when that is full."""

import asyncio

import pytest

from embedded.postgres import PostgresUrls
from eventstore.aggregates.import_process import (
    stream_of,
)
from eventstore.errors import LedgerBusy
from eventstore.log.group_commit import GroupCommitter
from eventstore.log.ledger import Ledger
from eventstore.log.recorder import Append, LedgerDatastore, LedgerRecorder
from tests.support.make import NOON, stage


def test_the_writer_takes_no_more_than_it_can_hold(database: PostgresUrls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eventstore.log.group_commit.MAX_WAITING", 0)
    datastore = LedgerDatastore(database.service, connections=1)
    committer = GroupCommitter(LedgerRecorder(datastore))
    with pytest.raises(LedgerBusy):
        committer.submit_all([Append([])], lambda results: None)
    committer.close()
    datastore.close()


def test_a_loop_that_found_the_writer_full_goes_on_afterwards(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    async def begin(name: str) -> int:
        return await ledger.begin(stream_of("NORDWIND", name), stage(), at=NOON, by="t")

    async def full_and_then_free() -> int:
        committer = ledger._loop_committer._committer
        with monkeypatch.context() as patch:
            patch.setattr(committer, "submit_all", lambda *_: (_ for _ in ()).throw(LedgerBusy("full")))
            with pytest.raises(LedgerBusy):
                await begin("1")
        return await begin("2")

    assert asyncio.run(full_and_then_free()) == 1
