"""Participants are kept once, a price sheet's document once with one content, and a run counts what it has."""

from msgspec.structs import asdict as fields

from eventstore.aggregates import customer_mail, participant, price_sheet, run, supplier
from eventstore.aggregates.participant import (
    PARTICIPANT,
    ContactsErased,
    EraseContacts,
    ImportParticipant,
    ParticipantImported,
)
from eventstore.aggregates.price_sheet import PRICE_SHEET, DocumentDiffers, ImportPriceSheet, PriceSheetImported
from eventstore.aggregates.run import RUN, AccountsReplayed, CountRun, ReplayAccounts, RunCounted
from eventstore.errors import IllegalTransition
from tests.support.make import DIGEST, NOON, OTHER_DIGEST, Given

IMPORT = ImportPriceSheet(
    payload_sha256=DIGEST,
    price_sheet_type="Z32",
    active_from=NOON,
    article_prices=2,
    is_unused=False,
    preceding_document_number="D-0",
)
IMPORTED = PriceSheetImported(**fields(IMPORT), imported_at=NOON)


def test_a_participant_is_kept_once_whatever_is_said_later() -> None:
    imported = ParticipantImported(payload_sha256=DIGEST, imported_at=NOON)
    Given(PARTICIPANT, ()).when(ImportParticipant(payload_sha256=DIGEST)).then(imported)
    Given(PARTICIPANT, (imported,)).when(ImportParticipant(payload_sha256=OTHER_DIGEST)).then()


def test_contacts_are_erased_once_and_the_participant_stays_known() -> None:
    imported = ParticipantImported(payload_sha256=DIGEST, imported_at=NOON)
    erase = EraseContacts(payload_sha256=OTHER_DIGEST, imported_at=NOON, reason="r")
    erased = ContactsErased(payload_sha256=OTHER_DIGEST, imported_at=NOON, erased_at=NOON, reason="r")
    Given(PARTICIPANT, ()).when(erase).refuses(IllegalTransition)
    Given(PARTICIPANT, (imported,)).when(erase).then(erased)
    Given(PARTICIPANT, (imported, erased)).when(erase).then()
    Given(PARTICIPANT, (imported, erased)).when(ImportParticipant(payload_sha256=DIGEST)).then()


def test_a_document_is_kept_once_and_refused_with_other_content() -> None:
    Given(PRICE_SHEET, ()).when(IMPORT).then(IMPORTED)
    Given(PRICE_SHEET, (IMPORTED,)).when(IMPORT).then()
    other = ImportPriceSheet(**fields(IMPORT) | {"payload_sha256": OTHER_DIGEST})
    Given(PRICE_SHEET, (IMPORTED,)).when(other).refuses(DocumentDiffers)


def test_a_run_counts_what_it_has_and_nothing_for_nothing() -> None:
    def count(valid: int, refused: int) -> CountRun:
        return CountRun(since=NOON, mode="validate", valid=valid, refused=refused, counts={})

    for valid, refused in ((1, 0), (0, 1)):
        counted = RunCounted(since=NOON, mode="validate", valid=valid, refused=refused, counts={})
        Given(RUN, ()).when(count(valid, refused)).then(counted)
        Given(RUN, (counted,)).when(count(valid, refused)).then()
    Given(RUN, ()).when(count(0, 0)).then()
    Given(RUN, ()).when(ReplayAccounts(accounts=("7",), mode="validate")).then(
        AccountsReplayed(accounts=("7",), mode="validate")
    )
    Given(RUN, ()).when(ReplayAccounts(accounts=(), mode="validate")).then()


def test_streams_are_named_for_what_they_are_about() -> None:
    assert participant.stream_of("O", 99) == "participant/O/99"
    assert participant.stream_of("", 99) == "participant//99"
    assert participant.identity_of("participant//99") == ("", 99)
    assert price_sheet.stream_of("O", 99, "D/1") == "price-sheet/O/99/D/1"
    assert run.stream_of("NORD", "1/2", "b") == "run/NORD/1/2/b"
    assert run.run_of("run/NORD/1/2/b") == ("NORD", "1/2")
    assert supplier.stream_of("NORD") == "supplier/NORD"
    assert customer_mail.stream_of("NORD", "7") == "customer-mail/NORD/7"
