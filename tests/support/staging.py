"""Accounts staged straight into the log, without the service."""

from typing import Any

from eventstore.aggregates.import_process import StageImport, stream_of
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from eventstore.log.payloads import Payload
from tests.support.make import encoded

SUPPLIER = "NORDWIND"


def stage(ledger: Ledger, account: Any, **fields: Any) -> str:
    body = account if isinstance(account, bytes) else encoded(account)
    payload = Payload.of(body)
    number = account["external_account_number"] if isinstance(account, dict) else "raw"
    stream = stream_of(SUPPLIER, number)
    command = StageImport(
        payload_sha256=payload.sha256.hex(), content_sha256=payload.sha256.hex(), payload_bytes=len(body), **fields
    )
    ledger.execute(stream, command, at=now(), by="tester", payload=payload)
    return stream


def status(ledger: Ledger, stream: str) -> str:
    return str(ledger.load([stream])[stream].state.status)


async def confirmed() -> None:
    """Confirm a call whose key is valid for as long as the test lasts."""


class Testers:
    """An organisation with such a key."""

    organisation = "Testers"

    async def confirm(self) -> None:
        await confirmed()
