"""Accounts staged straight into the log, without the service."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from eventstore.aggregates.import_process import StageImport, stream_of
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from eventstore.log.payloads import Payload
from tests.support.make import encoded

SUPPLIER = "NORDWIND"


def stage(ledger: Ledger, account: Any, *, at: datetime | None = None, **fields: Any) -> str:
    """Stage an account, or any other body as SUPPLIER's account "raw", and return its stream."""
    [stream] = stage_all(ledger, [account], at=at, **fields)
    return stream


def stage_all(ledger: Ledger, accounts: Iterable[Any], *, at: datetime | None = None, **fields: Any) -> list[str]:
    """Stage accounts in one transaction, and return their streams."""
    commands, payloads = {}, {}
    for account in accounts:
        body = account if isinstance(account, bytes) else encoded(account)
        payload = Payload.of(body)
        of_body = account if isinstance(account, dict) else {"external_account_number": "raw"}
        stream = stream_of(of_body.get("import_supplier", SUPPLIER), of_body["external_account_number"])
        digest = payload.sha256.hex()
        commands[stream] = StageImport(payload_sha256=digest, content_sha256=digest, payload_bytes=len(body), **fields)
        payloads[stream] = payload
    for decision in ledger.execute_many(commands, at=at or now(), by="tester", payloads=payloads):
        if decision.refusal:
            raise decision.refusal
    return list(commands)


def status(ledger: Ledger, stream: str) -> str:
    return str(ledger.load([stream])[stream].state.status)


async def confirmed() -> None:
    """Confirm a call whose key is valid for as long as the test lasts."""


class Testers:
    """An organisation with such a key."""

    organisation = "Testers"

    async def confirm(self) -> None:
        await confirmed()
