"""A log with something for every projection, which is filled once and cloned for each test."""

from typing import Any

import pytest
from msgspec.structs import replace

from api.operation import example_of
from embedded.postgres import PostgresUrls
from eventstore.aggregates import disclosure, owner_task, participant, price_sheet, user
from eventstore.aggregates.organisation import CreateKey, RevokeKey
from eventstore.aggregates.run import CountRefusals, CountRun, ReplayAccounts
from eventstore.aggregates.run import stream_of as run_stream
from eventstore.aggregates.supplier import ChangeSupplierStatus, ConfigureSupplier, CreateSupplier, ReleaseAccounts
from eventstore.aggregates.supplier import stream_of as supplier_stream
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from eventstore.log.payloads import Payload
from projections import INLINE
from projections.platform.change import changing, participant_change, price_sheet_change
from projections.retention.erasure import erase, erase_contacts
from schemas.market_participant import MarketParticipant
from schemas.price_sheet import PriceSheet
from schemas.reading.shape import Shape
from tests.support.databases import cloned
from tests.support.following import attach, follow
from tests.support.make import an_account, changed, encoded
from tests.support.staging import SUPPLIER, stage
from workers.actors.process_imports import ImportProcessor


@pytest.fixture(scope="session")
def eventful_log(postgres: PostgresUrls) -> str:
    """The name of a database that nobody is connected to."""
    name = "eventful_log"
    urls = cloned(postgres, name)
    ledger, owner = Ledger(urls.service, views=INLINE), Ledger(urls.admin, views=INLINE)
    fill(ledger, owner, urls)
    ledger.close()
    owner.close()
    return name


def fill(ledger: Ledger, owner: Ledger, database: PostgresUrls) -> None:
    """With something for every projection, an erased account included; all of them are up with it."""
    supplier, organisation = supplier_stream(SUPPLIER), "organisation/O"
    for command in (
        CreateSupplier(),
        ChangeSupplierStatus(status="paused"),
        ChangeSupplierStatus(status="ongoing", reason="r"),
        ConfigureSupplier(sends_customer_emails=True),
    ):
        ledger.execute(supplier, command, at=now(), by="t")
    key = CreateKey(key_id="k", secret_sha256="d", role="auditor", suppliers=("A",), rate_per_s=5)
    owner.execute(organisation, key, at=now(), by="t")
    owner.execute(organisation, RevokeKey(key_id="k"), at=now(), by="t")
    processor = ImportProcessor(ledger, worker=lambda: 7)
    streams = [stage(ledger, an_account(SUPPLIER, number)) for number in range(1, 6)]
    wrong = changed(an_account(SUPPLIER, 6), "999999.99", "transfer_balance")
    processor.process([*streams[:4], stage(ledger, wrong)])
    stage(ledger, wrong)
    for number in (1, 2):
        attach(ledger, database, number, is_cancelled=False)
    attach(ledger, database, 2, is_cancelled=True)
    import_market_records(ledger, owner)
    counts = CountRefusals(since=now(), counts={"required@customers.[].family_name": 3})
    ledger.execute(f"refusals/{SUPPLIER}/1", counts, at=now(), by="t")
    send_runs(ledger, processor, wrong)
    let_people_in(owner)
    owner.execute(supplier, ReleaseAccounts(run="r2"), at=now(), by="t")
    for number in (1, 5):
        external = an_account(SUPPLIER, number)["external_account_number"]
        assert erase(owner, SUPPLIER, external, reason="r", at=now(), by="t") is not None
    follow(ledger)


def let_people_in(ledger: Ledger) -> None:
    """Two users, of whom one was shown a person, and one asks for what the database's owner may do."""
    made = user.CreateUser(organisation="O", role="support", suppliers=(SUPPLIER,))
    proposed = replace(asked_of_owner("projection_switch"), requested_at=now(), preview_sha256="d")
    for stream, commands in (
        (user.stream_of("u1"), [made, user.ChangeUserRole(role="auditor", suppliers=(SUPPLIER,))]),
        (user.stream_of("u2"), [made, user.DisableUser()]),
        (
            disclosure.stream_of(SUPPLIER, "NW-2"),
            [disclosure.ShowPersonalData(user="u1", what=("payload",), reason="r")],
        ),
        (
            disclosure.stream_of(SUPPLIER, "NW-3"),
            [disclosure.ShowPersonalData(user="u1", what=("payload",), reason="r")],
        ),
        (owner_task.stream_of("t1"), [asked_of_owner("log_verify"), owner_task.StartOwnerTask()]),
        (owner_task.stream_of("t2"), [asked_of_owner("projection_verify"), owner_task.StartOwnerTask()]),
        (owner_task.stream_of("t3"), [proposed, owner_task.ApproveOwnerTask(user="u2", approved_at=now())]),
        (owner_task.stream_of("t4"), [proposed, owner_task.RejectOwnerTask(user="u2", reason="r")]),
    ):
        for command in commands:
            ledger.execute(stream, command, at=now(), by="t")


def asked_of_owner(kind: owner_task.OwnerTaskKind) -> owner_task.RequestOwnerTask:
    return owner_task.RequestOwnerTask(kind=kind, arguments={"name": "platform"}, user="u1")


def import_market_records(ledger: Ledger, owner: Ledger) -> None:
    """A participant with contacts, a price sheet of it, and another organisation's, whose contacts were erased."""
    for organisation in ("O", "P"):
        import_participant(ledger, organisation, example_of("market_participant"))
    stream = participant.stream_of("P", example_of("market_participant")["code"])
    assert erase_contacts(owner, stream, reason="r", at=now(), by="t") is not None
    [written] = example_of("price_sheets")["price_sheets"]
    (sheet, _), payload = Shape(PriceSheet).examine(encoded(written)), Payload.of(encoded(written))
    stream = price_sheet.stream_of("O", sheet.market_participant_code, sheet.document_number)
    command = price_sheet.ImportPriceSheet(
        payload_sha256=payload.sha256.hex(),
        price_sheet_type="",
        active_from=sheet.active_from,
        article_prices=len(sheet.article_prices),
        is_unused=False,
        preceding_document_number="",
    )
    ledger.execute_many(
        {stream: command},
        at=now(),
        by="t",
        payloads={stream: payload},
        write_rows=changing(lambda recorded: price_sheet_change(sheet, recorded)),
    )


def import_participant(ledger: Ledger, organisation: str, record: dict[str, Any]) -> None:
    body = encoded(record)
    read, payload = Shape(MarketParticipant).examine(body)[0], Payload.of(body)
    ledger.execute(
        participant.stream_of(organisation, read.code),
        participant.ImportParticipant(payload_sha256=payload.sha256.hex()),
        at=now(),
        by="t",
        payload=payload,
        write_rows=changing(lambda recorded: participant_change(read, recorded)),
    )


def send_runs(ledger: Ledger, processor: ImportProcessor, wrong: dict[str, Any]) -> None:
    """One account in two runs, sent again and replayed; refusals, and lines that were validated only."""
    erring = changed(wrong, "W-8", "external_account_number")
    processor.process([stage(ledger, erring, run="r1")])
    stage(ledger, changed(erring, "0.00", "transfer_balance"), run="r2")
    accounts = tuple(an_account(SUPPLIER, number)["external_account_number"] for number in (1, 2, 3))
    counts = {"required@customers.[].family_name": 1}
    count = CountRun(since=now(), mode="validate", valid=3, refused=1, counts=counts)
    ledger.execute(run_stream(SUPPLIER, "r2", "1"), count, at=now(), by="t")
    ledger.execute(run_stream(SUPPLIER, "r2", "2"), ReplayAccounts(accounts=accounts, mode="create"), at=now(), by="t")
