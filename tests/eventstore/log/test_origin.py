"""Events name the request that caused them; those of no request, and those from before, are stored as they were."""

from eventstore.aggregates.supplier import CreateSupplier, SupplierCreated
from eventstore.clock import now
from eventstore.events import NO_METADATA, Metadata, Recorded, metadata_of, read_event
from eventstore.log.ledger import Ledger
from eventstore.log.origin import origin
from tests.support.make import NOON

REQUEST = Metadata("delivery-7", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")


def test_metadata_stands_beside_the_event_s_own_members() -> None:
    event = SupplierCreated()
    plain = Recorded("supplier/S", 1, event, NOON, "S", "t")
    named = Recorded("supplier/S", 1, event, NOON, "S", "t", metadata=REQUEST)
    assert metadata_of(named.state) == REQUEST
    assert metadata_of(plain.state) is NO_METADATA
    assert read_event(named.stream, named.topic, named.state) == event
    assert read_event(plain.stream, plain.topic, plain.state) == event
    assert b"metadata" not in plain.state


def test_what_is_no_metadata_says_nothing() -> None:
    assert metadata_of(b'{"metadata":[1]}') is NO_METADATA
    assert metadata_of(b'{"metadata":{"request_id":\xff}}') is NO_METADATA


def test_an_event_of_a_request_names_it_and_one_of_none_does_not(ledger: Ledger) -> None:
    token = origin.set(REQUEST)
    ledger.execute("supplier/ASKED", CreateSupplier(), at=now(), by="t")
    ledger.execute_many({"supplier/ALSO": CreateSupplier()}, at=now(), by="t")
    origin.reset(token)
    ledger.execute("supplier/UNASKED", CreateSupplier(), at=now(), by="t")
    of = {stream: ledger.history(f"supplier/{stream}")[0].metadata for stream in ("ASKED", "ALSO", "UNASKED")}
    assert of == {"ASKED": REQUEST, "ALSO": REQUEST, "UNASKED": NO_METADATA}
