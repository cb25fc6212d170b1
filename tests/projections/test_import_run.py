"""Runs count as the statistics do."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg

from embedded.postgres import PostgresUrls
from eventstore.aggregates.import_process import (
    FailImport,
    stream_of,
)
from eventstore.log.ledger import Ledger
from projections import FOLLOWING
from projections.import_run import IMPORT_RUN, run_states
from tests.support.make import NOON, stage, start
from tests.support.problems import INVALID, MISSING
from workers.projector import Projector


def asked(url: str, query: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
    async def ask() -> Any:
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            return await query(connection, *arguments)

    return asyncio.run(ask())


def test_a_failure_counts_once_in_its_run_as_in_the_statistics(ledger: Ledger, database: PostgresUrls) -> None:
    for external, problems in (("1", (MISSING, "invalid_iban@payment_instructions.0")), ("2", ())):
        stream = stream_of("S", external)
        failure = FailImport(attempt=1, code=INVALID, detail="No.", problems=problems)
        for command in (stage(run="r"), start(), failure):
            ledger.execute(stream, command, at=NOON, by="t")
    projector = Projector(ledger, FOLLOWING)
    with ledger.connection() as connection:
        while projector.advance(connection, IMPORT_RUN):
            pass
    [state] = asked(database.service, run_states, "S", "r")
    assert [(error.code, error.path, error.number) for error in state.record.errors] == [
        (INVALID, "", 1),
        ("path_does_not_exist_in_file_store", "statements[].statement_path", 1),
    ]
