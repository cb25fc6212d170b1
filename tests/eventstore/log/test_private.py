"""The log stores importers' text encrypted with the person's key only."""

import asyncio
from typing import Any

import msgspec
import psycopg
import pytest

from embedded.postgres import PostgresUrls
from eventstore.aggregates.import_process import (
    CancelImport,
    ImportCancelled,
    ImportProcess,
    ImportRetried,
    ImportStaged,
    RetryImport,
    StageImport,
)
from eventstore.errors import IllegalTransition
from eventstore.log.ledger import Ledger
from eventstore.log.payloads import Payload, random_key
from eventstore.log.private import decrypted, encrypted, has_private, is_private
from eventstore.log.rows import value_of
from eventstore.replay import Replay
from market.submission_check import Terms
from projections.queries.history import history_entry, read_account_history
from projections.retention.erasure import erase
from tests.support.databases import Admin
from tests.support.make import NOON, encoded, staged
from workers.actors.stored_account import account_of

STREAM, CANARY = "import/S/1", "Vogelsang-Canary"
PAYLOAD = Payload.of(b"{}")


def stage(**fields: Any) -> StageImport:
    digest = PAYLOAD.sha256.hex()
    return StageImport(payload_sha256=digest, content_sha256=digest, payload_bytes=2, **fields)


def shown(ledger: Ledger) -> list[dict[str, Any]]:
    with ledger.connection() as connection:
        return [history_entry(recorded).data for recorded in read_account_history(connection, "S", "1")]


def canaries(database: PostgresUrls) -> int:
    with psycopg.connect(database.admin) as connection:
        query = "SELECT count(*) FROM events WHERE encode(state, 'escape') LIKE %s OR command_id LIKE %s"
        return int(value_of(connection, query, f"%{CANARY}%", f"%{CANARY}%"))


@pytest.mark.promise("importers-named-undocumented-fields")
@pytest.mark.parametrize(
    ("command", "event", "value"),
    [
        (CancelImport(reason=CANARY), ImportCancelled, {"reason": CANARY}),
        (RetryImport(reason=CANARY), ImportRetried, {"reason": CANARY}),
        (stage(dropped_fields=(CANARY, "b")), ImportStaged, {"dropped_fields": (CANARY, "b")}),
    ],
)
def test_what_importers_chose_is_opened_with_the_key_in_its_stream_only(
    command: Any, event: Any, value: dict[str, Any]
) -> None:
    key = random_key()
    closed: Any = encrypted(command, STREAM, key)
    assert is_private(command)
    assert not is_private(closed)
    fields = {name: getattr(closed, name) for name in event.__struct_fields__}
    stored = event(**fields)
    assert has_private(stored)
    assert CANARY not in str(msgspec.json.encode(stored))
    assert decrypted(stored, STREAM, key) == event(**fields | value | {"private": ""})
    for stream, another in ((STREAM, None), (STREAM, random_key()), ("import/S/2", key)):
        assert decrypted(stored, stream, another) == stored


@pytest.mark.promise("importers-named-undocumented-fields")
def test_reasons_are_in_the_history_and_not_in_the_log(ledger: Ledger, database: PostgresUrls) -> None:
    ledger.execute(STREAM, stage(), at=NOON, by="t", payload=PAYLOAD)
    ledger.execute(STREAM, CancelImport(reason=CANARY), at=NOON, by="t")
    ledger.execute(STREAM, stage(), at=NOON, by="t", payload=PAYLOAD)
    ledger.execute_many({STREAM: CancelImport(reason=CANARY + " once more")}, at=NOON, by="t")
    assert [data.get("reason") for data in shown(ledger)] == [None, CANARY, None, CANARY + " once more"]
    assert not any("private" in data for data in shown(ledger))
    assert canaries(database) == 0
    assert [*Replay().divergences(ledger.history(STREAM))] == []


@pytest.mark.promise("importers-named-undocumented-fields")
def test_names_of_dropped_fields_are_in_the_history_and_not_in_the_log(ledger: Ledger, database: PostgresUrls) -> None:
    async def begin() -> None:
        await ledger.begin(STREAM, stage(dropped_fields=(CANARY,), dropped=1), at=NOON, by="t", payload=PAYLOAD)

    asyncio.run(begin())
    assert [*shown(ledger)[0]["dropped_fields"]] == [CANARY]
    assert canaries(database) == 0
    process: ImportProcess = ledger.load([STREAM])[STREAM].state
    assert process.staged
    assert process.staged.dropped == 1


@pytest.mark.promise("importers-named-undocumented-fields")
def test_a_field_that_is_no_longer_documented_is_not_named_in_the_log() -> None:
    process = ImportProcess(status="IN_PROGRESS", staged=staged(), attempt=1)
    found: Any = account_of(encoded({CANARY: 1, "import_supplier": "S"}), process, Terms(), NOON)
    assert "unknown_field@*" in found.problems
    assert CANARY not in str(found)


def test_who_was_erased_has_no_reason_left(ledger: Ledger, owner: Ledger) -> None:
    ledger.execute(STREAM, stage(dropped_fields=(CANARY,), dropped=1), at=NOON, by="t", payload=PAYLOAD)
    ledger.execute(STREAM, CancelImport(reason=CANARY), at=NOON, by="t")
    erase(owner, "S", "1", reason="DSR-1", at=NOON, by="t")
    assert CANARY not in str(shown(ledger))
    assert [data.get("reason") for data in shown(ledger)] == [None, None, "DSR-1"]


def test_a_refused_decision_makes_no_key(ledger: Ledger, admin: Admin) -> None:
    with pytest.raises(IllegalTransition):
        ledger.execute(STREAM, CancelImport(reason=CANARY), at=NOON, by="t")
    assert admin.execute("SELECT count(*) FROM payload_keys").fetchone() == (0,)
