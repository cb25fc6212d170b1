"""Pages of the content of a supplier's accounts."""

import asyncio
from typing import Any

import msgspec
import psycopg
import pytest
from psycopg import AsyncConnection

from api.intake.record_imports import AMOUNT, RecordImports
from embedded.postgres import PostgresUrls
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from projections.platform.change import changing
from projections.queries import pulled_content
from projections.queries.pulled_content import ContentKey
from tests.support.make import an_account, encoded
from tests.support.post_account import RECORDS
from tests.support.staging import SUPPLIER, stage
from workers.actors.process_imports import ImportProcessor

ACCOUNTS, AMOUNTS = 5, 3


def attach_amounts(ledger: Ledger, external: str, account_number: str) -> None:
    imports = RecordImports(ledger)
    for number in range(AMOUNTS):
        record = RECORDS["energy_amount"] | {"edifact_reference_number": f"E-{number}"}
        body = encoded({"import_supplier": SUPPLIER, "external_account_number": external, "energy_amount": record})
        attached = imports.attached(imports.examined(body, AMOUNT)[0], AMOUNT, body, account_number, ())
        ledger.execute(
            attached.stream,
            attached.command,
            at=now(),
            by="t",
            payload=attached.payload,
            write_rows=changing(attached.change),
        )


def pages(database: PostgresUrls) -> list[list[dict[str, Any]]]:
    async def read() -> list[list[dict[str, Any]]]:
        read_pages, key = [], (0, pulled_content.LAST_KIND, "")
        after: ContentKey | None = key
        async with await AsyncConnection.connect(database.service, autocommit=True) as connection:
            while after is not None:
                lines, after = await pulled_content.pulled_content(connection, after, supplier=SUPPLIER)
                read_pages.append([msgspec.json.decode(line.line) for line in lines])
        return read_pages

    return asyncio.run(read())


@pytest.mark.promise("pull-reads-book")
def test_pages_of_any_size_have_the_same_lines(
    ledger: Ledger, database: PostgresUrls, monkeypatch: pytest.MonkeyPatch
) -> None:
    accounts = [an_account(SUPPLIER, number) for number in range(ACCOUNTS)]
    for account in accounts:
        ImportProcessor(ledger, worker=lambda: 7).process([stage(ledger, account)])
    externals = [account["external_account_number"] for account in accounts]
    with psycopg.connect(database.admin) as connection:
        numbers: dict[str, str] = dict(
            connection.execute(
                "SELECT external_account_number, account_number FROM platform.service_account"
            ).fetchall()
        )
        connection.execute("DELETE FROM platform.service_account WHERE external_account_number = %s", (externals[3],))
    attach_amounts(ledger, externals[1], numbers[externals[1]])
    whole, end = pages(database)
    assert end == []
    assert [(line["kind"], line["payload"]["external_account_number"]) for line in whole] == [
        ("account", externals[0]),
        ("account", externals[1]),
        *[("energy_amount", externals[1])] * AMOUNTS,
        ("account", externals[2]),
        ("left_out", externals[3]),
        ("account", externals[4]),
    ]
    assert whole[6]["payload"]["status"] == "MISSING"
    for page, size in ((1, 2**20), (2, 1), (3, 2_000), (100, 1)):
        monkeypatch.setattr(pulled_content, "PAGE", page)
        monkeypatch.setattr(pulled_content, "PAGE_BYTES", size)
        read_pages = pages(database)
        assert len(read_pages) > 2
        assert [line for lines in read_pages for line in lines] == whole
