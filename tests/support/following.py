"""Events as followers read them, and an update of the projections that follow the log."""

from typing import Any

import psycopg

from embedded.postgres import PostgresUrls
from eventstore.aggregates.aggregate import Aggregate
from eventstore.aggregates.post_account import DELIVERY_NOTE, ImportRecord
from eventstore.aggregates.post_account import stream_of as record_stream
from eventstore.clock import now
from eventstore.events import Recorded, recorded_of
from eventstore.log.columns import SELECT_EVENTS
from eventstore.log.ledger import Ledger
from eventstore.log.payloads import Payload
from eventstore.log.rows import value_of
from projections import FOLLOWING
from projections.platform.change import changing, record_change
from schemas.delivery_note import DeliveryNoteImport
from schemas.reading.shape import Shape
from tests.support.make import an_account, encoded
from tests.support.post_account import RECORDS
from tests.support.staging import SUPPLIER
from workers.followers.projector import Projector


def events_of(ledger: Ledger, aggregate: Aggregate) -> list[Recorded]:
    """All events of a kind of stream, in the order of the log."""
    query = f"{SELECT_EVENTS} WHERE topic = ANY(%s) ORDER BY position"
    with ledger.connection() as connection, connection.cursor(binary=True) as cursor:
        return [recorded_of(row) for row in cursor.execute(query.encode(), (list(aggregate.topics),))]


def attach(ledger: Ledger, database: PostgresUrls, number: int, *, is_cancelled: bool) -> None:
    """A delivery note of the account, or its cancellation."""
    external = an_account(SUPPLIER, number)["external_account_number"]
    with psycopg.connect(database.service) as connection:
        query = "SELECT account_number FROM import_status WHERE external_account_number = %s"
        account_number = value_of(connection, query, external)
    note = RECORDS["delivery_note"] | {"cancelled": is_cancelled}
    body = encoded({"import_supplier": SUPPLIER, "external_account_number": external, "delivery_note": note})
    envelope, payload = Shape(DeliveryNoteImport).examine(body)[0], Payload.of(body)
    command = ImportRecord(
        account_number=account_number,
        payload_sha256=payload.sha256.hex(),
        content_sha256="c",
        cancellation_sha256=str(is_cancelled),
        is_cancelled=is_cancelled,
    )
    ledger.execute(
        record_stream(DELIVERY_NOTE, SUPPLIER, external, "reference"),
        command,
        at=now(),
        by="t",
        payload=payload,
        write_rows=changing(lambda recorded: record_change(envelope.delivery_note, recorded, account_number)),
    )


def follow(ledger: Ledger) -> None:
    projector = Projector(ledger, FOLLOWING)
    with ledger.connection() as connection:
        while any([projector.advance(connection, projection) for projection in FOLLOWING]):  # noqa: C419 - all of them
            pass


def behind(admin: psycopg.Connection[Any]) -> set[str]:
    """Projections whose position is before the end of the log."""
    query = (
        "SELECT v.name FROM unnest(%s::text[]) AS v (name) LEFT JOIN projection_versions AS p"
        " ON p.name = v.name AND state = 'live' WHERE position IS DISTINCT FROM (SELECT max(position) FROM events)"
    )
    return {name for (name,) in admin.execute(query, ([projection.name for projection in FOLLOWING],))}
