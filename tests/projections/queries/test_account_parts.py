"""What an import became is shown with what was attached to it, and with the checkpoint that covers it."""

import asyncio
from typing import Any

import psycopg

from embedded.postgres import PostgresUrls
from eventstore.aggregates.import_process import CompleteImport, StageImport, stream_of
from eventstore.log.ledger import Ledger
from eventstore.log.payloads import Payload
from projections.platform.change import platform_change
from projections.platform.writing import changing
from projections.queries.account_parts import attached_records, platform_records
from tests.support.following import attach
from tests.support.make import NOON, an_account, encoded, start
from tests.support.staging import SUPPLIER


def created(ledger: Ledger, number: str) -> str:
    """The external number of an account that was created under this number."""
    account = an_account(SUPPLIER, 1)
    body = encoded(account)
    payload, external = Payload.of(body), str(account["external_account_number"])
    stream = stream_of(SUPPLIER, external)
    staging = StageImport(payload_sha256=payload.sha256.hex(), content_sha256="c", payload_bytes=1)
    ledger.execute(stream, staging, at=NOON, by="t", payload=payload)
    ledger.execute(stream, start(), at=NOON, by="t")
    done = CompleteImport(start=2, account_number=number)
    ledger.execute(
        stream,
        done,
        at=NOON,
        by="t",
        beside=changing(lambda recorded: platform_change(recorded, body)),  # type: ignore[arg-type, return-value]
    )
    return external


def asked(database: PostgresUrls, query: Any, *arguments: Any) -> Any:
    async def asking() -> Any:
        async with await psycopg.AsyncConnection.connect(database.service, autocommit=True) as connection:
            return await query(connection, *arguments)

    return asyncio.run(asking())


def test_platform_records_are_shown_by_table_without_what_is_empty(ledger: Ledger, database: PostgresUrls) -> None:
    created(ledger, "A-00000001")
    tables = {one.table: one for one in asked(database, platform_records, "A-00000001")}
    customers = tables["customer"]
    assert tables["service_account"].columns[0] == "created_at"
    assert "family_name" in customers.columns
    assert all(any(row[n] not in (None, "") for row in customers.rows) for n in range(len(customers.columns)))
    assert customers.next_after is None
    assert asked(database, platform_records, "A-OTHER") == []


def test_attached_records_have_their_reference(ledger: Ledger, database: PostgresUrls) -> None:
    external = created(ledger, "A-00000001")
    attach(ledger, database, 1, is_cancelled=False)
    attach(ledger, database, 1, is_cancelled=True)
    [record] = asked(database, attached_records, SUPPLIER, external)
    assert (record.kind, record.is_cancelled) == ("delivery-note", True)
    assert record.stream.endswith(f"/{record.reference}")
    assert asked(database, attached_records, SUPPLIER, "other") == []
