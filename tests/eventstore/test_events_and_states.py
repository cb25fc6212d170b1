"""Events carry all that their command says; states hold what was and no more; refusals name state and command."""

from datetime import datetime
from functools import reduce
from typing import Any

import msgspec
import pytest
from msgspec import NODEFAULT
from msgspec.structs import asdict

from eventstore.aggregates import customer_mail as mail
from eventstore.aggregates import (
    disclosure,
    organisation,
    owner_task,
    participant,
    post_account,
    price_sheet,
    refusals,
    run,
    supplier,
    user,
)
from eventstore.aggregates import import_process as imports
from eventstore.aggregates.aggregate import Aggregate, Command, Event, State
from eventstore.aggregates.import_process import ImportProcess
from eventstore.errors import AlreadyImported, IllegalTransition, Refused
from eventstore.events import AGGREGATES, aggregate_of
from eventstore.replay import _COMMANDS
from tests.support.make import (
    DIGEST,
    LEASE_UNTIL,
    NOON,
    OTHER_DIGEST,
    cancelled,
    dry_run_succeeded,
    errored,
    postponed,
    processed,
    stage,
    staged,
    start,
    started,
)

IMPORT = imports.IMPORT_PROCESS
STAGE = imports.StageImport(
    payload_sha256=DIGEST,
    content_sha256=OTHER_DIGEST,
    payload_bytes=10,
    is_dry_run=True,
    not_before=NOON,
    not_after=LEASE_UNTIL,
    rules_edition="2026",
    warnings=("warning@place",),
    dropped_fields=("field",),
    dropped=2,
    private="secret",
    run="monday",
)
COMPLETE = imports.CompleteImport(start=2, account_number="A-1", rules_edition="2026", warnings=("warning@place",))
FAIL = imports.FailImport(start=2, code="c", detail="D.", problems=("code@place",), rules_edition="2026")
DRY = (staged(is_dry_run=True), started())
REQUESTED = mail.MailRequested(account_number="A-1", payload_sha256=DIGEST, language="de")
SENDING = (REQUESTED, mail.MailStarted(attempt=1, worker=7, lease_until=LEASE_UNTIL))
MAIL_POSTPONED = mail.MailPostponed(attempt=1, code="c", due_at=NOON)
DELIVERED = mail.MailDelivered(attempt=1, message_id="<m>")
KEY = organisation.KeyCreated(key_id="k", secret_sha256="d", role="importer")
RECORD: dict[str, Any] = {
    "account_number": "A-1",
    "payload_sha256": DIGEST,
    "content_sha256": DIGEST,
    "cancellation_sha256": "n",
}
CANCEL_RECORD = post_account.ImportRecord(
    **RECORD | {"payload_sha256": OTHER_DIGEST, "cancellation_sha256": "y"},
    is_cancelled=True,
    dropped_fields=("field",),
    private="secret",
)
SETTINGS = supplier.ConfigureSupplier(
    strictness="strict",
    unknown_fields="ignore",
    is_dry_run_only=True,
    documents_root="https://documents.example",
    documents_check="require",
    sends_customer_emails=True,
    email_language="en",
)
PAUSED = supplier.SupplierStatusChanged(status="paused")
SHEET = price_sheet.ImportPriceSheet(
    payload_sha256=DIGEST,
    price_sheet_type="Z32",
    active_from=NOON,
    article_prices=2,
    is_unused=True,
    preceding_document_number="D-0",
)

Case = tuple[Aggregate, tuple[Event, ...], Command, type[Event]]
ACCEPTED: list[Case] = [
    (IMPORT, (), STAGE, imports.ImportStaged),
    (IMPORT, (staged(),), start(9), imports.ImportStarted),
    (IMPORT, (staged(), started()), imports.PostponeImport(start=2, code="c", due_at=NOON), imports.ImportPostponed),
    (IMPORT, (staged(), started()), COMPLETE, imports.ImportProcessed),
    (IMPORT, DRY, COMPLETE, imports.DryRunSucceeded),
    (IMPORT, (staged(), started()), FAIL, imports.ImportErrored),
    (IMPORT, DRY, FAIL, imports.DryRunErrored),
    (IMPORT, (staged(),), imports.CancelImport(reason="r", private="p"), imports.ImportCancelled),
    (IMPORT, (staged(), started(), errored()), imports.RetryImport(reason="r", private="p"), imports.ImportRetried),
    (IMPORT, (staged(), started(), processed()), imports.EraseSubject(reason="r"), imports.SubjectErased),
    (mail.CUSTOMER_MAIL, (), mail.RequestMail(**asdict(REQUESTED)), mail.MailRequested),
    (
        mail.CUSTOMER_MAIL,
        (REQUESTED,),
        mail.StartMail(worker=9, lease_until=LEASE_UNTIL, max_attempts=3),
        mail.MailStarted,
    ),
    (mail.CUSTOMER_MAIL, SENDING, mail.PostponeMail(attempt=1, code="c", due_at=NOON), mail.MailPostponed),
    (mail.CUSTOMER_MAIL, SENDING, mail.DeliverMail(attempt=1, message_id="<m>"), mail.MailDelivered),
    (mail.CUSTOMER_MAIL, SENDING, mail.FailMail(attempt=1, code="c", detail="D."), mail.MailFailed),
    (
        organisation.ORGANISATION,
        (),
        organisation.CreateKey(key_id="k", secret_sha256="d", role="auditor", suppliers=("A",), rate_per_s=5),
        organisation.KeyCreated,
    ),
    (organisation.ORGANISATION, (KEY,), organisation.RevokeKey(key_id="k", reason="r"), organisation.KeyRevoked),
    (
        participant.PARTICIPANT,
        (),
        participant.ImportParticipant(payload_sha256=DIGEST),
        participant.ParticipantImported,
    ),
    (
        participant.PARTICIPANT,
        (participant.ParticipantImported(payload_sha256=DIGEST, imported_at=NOON),),
        participant.EraseContacts(payload_sha256=DIGEST, imported_at=NOON, reason="r"),
        participant.ContactsErased,
    ),
    (post_account.INVOICE, (), CANCEL_RECORD, post_account.RecordImported),
    (
        post_account.INVOICE,
        (post_account.RecordImported(**RECORD, imported_at=NOON),),
        CANCEL_RECORD,
        post_account.RecordCancellationChanged,
    ),
    (price_sheet.PRICE_SHEET, (), SHEET, price_sheet.PriceSheetImported),
    (
        refusals.REFUSALS,
        (),
        refusals.CountRefusals(since=NOON, counts={"code@place": 1}),
        refusals.RequestsRefused,
    ),
    (
        run.RUN,
        (),
        run.CountRun(since=NOON, mode="dry_run", valid=1, refused=2, counts={"code@place": 1}),
        run.RunCounted,
    ),
    (run.RUN, (), run.ReplayAccounts(accounts=("7",), mode="create"), run.AccountsReplayed),
    (
        supplier.SUPPLIER,
        (supplier.SupplierCreated(),),
        supplier.ChangeSupplierStatus(status="complete", reason="r"),
        supplier.SupplierStatusChanged,
    ),
    (supplier.SUPPLIER, (supplier.SupplierCreated(),), SETTINGS, supplier.SupplierConfigured),
]


def state_after(aggregate: Aggregate, events: tuple[Event, ...]) -> Any:
    return reduce(aggregate.evolve, events, aggregate.initial)


@pytest.mark.parametrize(("aggregate", "events", "command", "kind"), ACCEPTED, ids=lambda value: type(value).__name__)
def test_an_event_carries_all_that_its_command_says(
    aggregate: Aggregate, events: tuple[Event, ...], command: Command, kind: type[Event]
) -> None:
    event = aggregate.decide(command, state_after(aggregate, events), NOON)
    assert type(event) is kind
    said, carried = asdict(command), asdict(event)
    if isinstance(command, supplier.ConfigureSupplier):  # None leaves a setting as it is
        said = {name: value for name, value in said.items() if value is not None}
    assert {name: carried[name] for name in said if name in carried} == {n: v for n, v in said.items() if n in carried}


def test_an_import_that_ends_with_its_last_attempt_says_how_many_there_were() -> None:
    tried = (started(), postponed(), started(attempt=2), postponed(attempt=2))
    for is_dry_run, kind in ((False, imports.ImportErrored), (True, imports.DryRunErrored)):
        process = state_after(IMPORT, (staged(is_dry_run=is_dry_run), *tried))
        assert IMPORT.decide(start(max_attempts=3), process, NOON) == started(attempt=3)
        assert IMPORT.decide(start(max_attempts=2), process, NOON) == kind(
            attempt=2,
            code="attempts_exhausted",
            detail="Processing was given up after 2 attempts. Retry it when the cause is mended.",
            domain="account_import",
        )


DRY_RUN_ERRORED = imports.DryRunErrored(attempt=1, code="c", detail="D.")


@pytest.mark.parametrize(
    ("events", "repeated", "stale"),
    [
        ((*DRY, dry_run_succeeded()), COMPLETE, imports.CompleteImport(start=3, account_number="A-1")),
        ((*DRY, DRY_RUN_ERRORED), FAIL, imports.FailImport(start=3, code="c", detail="D.")),
        ((staged(), started(), errored()), FAIL, imports.FailImport(start=3, code="c", detail="D.")),
    ],
)
def test_an_outcome_said_again_is_no_event_and_that_of_another_attempt_is_refused(
    events: tuple[Event, ...], repeated: Command, stale: Command
) -> None:
    process = state_after(IMPORT, events)
    assert IMPORT.decide(repeated, process, NOON) is None
    with pytest.raises(IllegalTransition):
        IMPORT.decide(stale, process, NOON)


def test_retrying_what_is_pending_is_no_event() -> None:
    assert IMPORT.decide(imports.RetryImport(), state_after(IMPORT, (staged(),)), NOON) is None


def test_an_account_that_exists_is_named_by_the_refusal() -> None:
    with pytest.raises(AlreadyImported) as refused:
        IMPORT.decide(stage(OTHER_DIGEST), state_after(IMPORT, (staged(), started(), processed("A-7"))), NOON)
    assert refused.value.account_number == "A-7"


@pytest.mark.parametrize(
    ("aggregate", "events", "command", "status"),
    [
        (IMPORT, (), COMPLETE, "NEW"),
        (IMPORT, (staged(), cancelled()), imports.RetryImport(), "CANCELLED"),
        (mail.CUSTOMER_MAIL, (REQUESTED,), mail.DeliverMail(attempt=1, message_id="<m>"), "REQUESTED"),
        (organisation.ORGANISATION, (KEY,), organisation.RevokeKey(key_id="other"), "unknown key"),
        (supplier.SUPPLIER, (), SETTINGS, "new"),
    ],
)
def test_a_refusal_names_the_state_and_the_command(
    aggregate: Aggregate, events: tuple[Event, ...], command: Command, status: str
) -> None:
    with pytest.raises(IllegalTransition) as refused:
        aggregate.decide(command, state_after(aggregate, events), NOON)
    assert (refused.value.status, refused.value.command) == (status, type(command).__name__)


def process(status: str, **fields: Any) -> ImportProcess:
    return ImportProcess(status=status, **fields)


ERASED = imports.SubjectErased(account_number="A-00000001", erased_at=NOON)


@pytest.mark.parametrize(
    ("aggregate", "events", "state"),
    [
        (IMPORT, (staged(),), process("PENDING", staged=staged())),
        (
            IMPORT,
            (staged(not_before=NOON),),
            process("PENDING", staged=staged(not_before=NOON), due_at=NOON),
        ),
        (IMPORT, (staged(), started(worker=9)), process("IN_PROGRESS", staged=staged(), attempt=1, worker=9)),
        (IMPORT, (staged(), started(), postponed()), process("PENDING", staged=staged(), attempt=1, due_at=NOON)),
        (IMPORT, (staged(), started(), errored()), process("ERRORED", staged=staged(), attempt=1)),
        (IMPORT, (staged(), cancelled()), process("CANCELLED", staged=staged())),
        (
            IMPORT,
            (staged(), started(), processed()),
            process("PROCESSED", staged=staged(), attempt=1, account_number="A-00000001"),
        ),
        (
            IMPORT,
            (*DRY, dry_run_succeeded()),
            process("DRY_RUN_SUCCEEDED", staged=staged(is_dry_run=True), attempt=1),
        ),
        (IMPORT, (*DRY, DRY_RUN_ERRORED), process("DRY_RUN_ERRORED", staged=staged(is_dry_run=True), attempt=1)),
        (
            IMPORT,
            (staged(), started(), errored(), imports.ImportRetried()),
            process("PENDING", staged=staged()),
        ),
        (
            IMPORT,
            (staged(), started(), processed(), ERASED),
            process("PROCESSED", account_number="A-00000001", is_erased=True),
        ),
        (IMPORT, (staged(), imports.SubjectErased(erased_at=NOON)), process("CANCELLED", is_erased=True)),
        (mail.CUSTOMER_MAIL, (REQUESTED,), mail.CustomerMail(status="REQUESTED", requested=REQUESTED)),
        (mail.CUSTOMER_MAIL, SENDING, mail.CustomerMail(status="SENDING", requested=REQUESTED, attempt=1)),
        (
            mail.CUSTOMER_MAIL,
            (*SENDING, MAIL_POSTPONED),
            mail.CustomerMail(status="REQUESTED", requested=REQUESTED, attempt=1, due_at=NOON),
        ),
        (
            mail.CUSTOMER_MAIL,
            (*SENDING, DELIVERED),
            mail.CustomerMail(status="DELIVERED", requested=REQUESTED, attempt=1),
        ),
        (
            mail.CUSTOMER_MAIL,
            (*SENDING, mail.MailFailed(attempt=1, code="c")),
            mail.CustomerMail(status="FAILED", requested=REQUESTED, attempt=1),
        ),
        (
            organisation.ORGANISATION,
            (KEY, msgspec.structs.replace(KEY, key_id="l"), organisation.KeyRevoked(key_id="k")),
            organisation.Organisation(valid=frozenset("l"), void=frozenset("k")),
        ),
        (
            organisation.ORGANISATION,
            (KEY, organisation.KeyRevoked(key_id="k"), msgspec.structs.replace(KEY, key_id="l")),
            organisation.Organisation(valid=frozenset("l"), void=frozenset("k")),
        ),
        (
            post_account.INVOICE,
            (post_account.RecordImported(**RECORD, is_cancelled=True, imported_at=NOON),),
            post_account.Record(
                payload_sha256=DIGEST, content_sha256=DIGEST, cancellation_sha256="n", is_cancelled=True
            ),
        ),
        (
            post_account.INVOICE,
            (
                post_account.RecordImported(**RECORD, imported_at=NOON),
                post_account.RecordCancellationChanged(
                    account_number="A-1",
                    payload_sha256=OTHER_DIGEST,
                    cancellation_sha256="y",
                    is_cancelled=True,
                    imported_at=NOON,
                ),
            ),
            post_account.Record(
                payload_sha256=OTHER_DIGEST, content_sha256=DIGEST, cancellation_sha256="y", is_cancelled=True
            ),
        ),
    ],
)
def test_a_state_is_what_its_events_add_up_to(aggregate: Aggregate, events: tuple[Event, ...], state: State) -> None:
    if isinstance(state, ImportProcess):
        starts = [version for version, event in enumerate(events, 1) if isinstance(event, imports.ImportStarted)]
        state = msgspec.structs.replace(state, version=len(events), start=starts[-1] if state.attempt else 0)
    assert state_after(aggregate, events) == state


def test_before_its_first_event_a_stream_is_new() -> None:
    assert IMPORT.initial == ImportProcess(
        version=0,
        status="NEW",
        staged=None,
        start=0,
        attempt=0,
        worker=0,
        due_at=None,
        account_number="",
        is_erased=False,
    )
    assert mail.CUSTOMER_MAIL.initial == mail.CustomerMail(status="NEW", requested=None, attempt=0, due_at=None)
    settings = {  # a setting that is added later is tested where it is obeyed
        "strictness": "standard",
        "unknown_fields": "refuse",
        "is_dry_run_only": False,
        "documents_root": "",
        "documents_check": "off",
        "sends_customer_emails": False,
        "email_language": "de",
        "status": "new",
    }
    assert asdict(supplier.SUPPLIER.initial).items() >= settings.items()


@pytest.mark.parametrize("event", sorted(imports.TOPICS.values(), key=repr))
def test_an_event_leaves_the_status_that_views_count(event: type[Event]) -> None:
    example = next(e for e in EXAMPLES if type(e) is event)
    status = state_after(IMPORT, (staged(), example)).status
    assert imports.status_after(example) == status
    topic = next(name for name, kind in imports.TOPICS.items() if kind is event)
    assert imports.STATUS_AFTER_TOPIC.get(topic, status) == status
    assert status in imports.STATUSES


EXAMPLES = (
    *(staged(), started(), postponed(), processed(), errored(), dry_run_succeeded(), DRY_RUN_ERRORED, cancelled()),
    *(imports.ImportRetried(), imports.SubjectErased(erased_at=NOON)),
)


def test_statuses_are_in_the_order_of_a_process_and_two_of_them_are_no_end() -> None:
    assert " ".join(imports.STATUSES) == (
        "PENDING IN_PROGRESS PROCESSED ERRORED CANCELLED DRY_RUN_SUCCEEDED DRY_RUN_ERRORED"
    )
    assert " ".join(imports.WAITING) == "PENDING IN_PROGRESS"
    assert set(imports.STATUS_AFTER_TOPIC) == set(imports.TOPICS) - {"subject_erased.v1"}
    assert imports.status_after(imports.SubjectErased(account_number="A-1", erased_at=NOON)) == "PROCESSED"
    assert imports.status_after(imports.SubjectErased(erased_at=NOON)) == "CANCELLED"


KINDS = (
    {kind for aggregate in AGGREGATES.values() for kind in aggregate.topics.values()}
    | set(_COMMANDS.values())
    | {type(aggregate.initial) for aggregate in AGGREGATES.values()}
)


MEANT = {"domain": "account_import"}
"""What is meant by events and commands from before there were these fields."""


@pytest.mark.parametrize("kind", sorted(KINDS, key=repr))
def test_a_field_that_is_lacking_says_nothing(kind: type[Event | Command | State]) -> None:
    settings = {field.name: field.default for field in msgspec.structs.fields(supplier.SupplierSettings)}
    for field in msgspec.structs.fields(kind):
        if field.default is NODEFAULT:
            continue
        assert msgspec.convert(field.default, field.type) == field.default
        is_setting = issubclass(kind, supplier.SupplierSettings)
        if issubclass(kind, State) and field.name == "status":
            continue
        said = MEANT.get(field.name) or (is_setting and settings.get(field.name))
        assert field.default == said if said else not field.default


@pytest.mark.parametrize("status", ["ongoing", "paused", "complete"])
def test_a_supplier_is_changed_in_whatever_state_it_is(status: Any) -> None:
    events = (supplier.SupplierCreated(), supplier.SupplierStatusChanged(status=status))
    present = state_after(supplier.SUPPLIER, events)
    assert present.status == status
    assert supplier.SUPPLIER.decide(SETTINGS, present, NOON)
    others: set[Any] = {"ongoing", "paused", "complete"} - {status}
    for other in others:
        changed = supplier.SUPPLIER.decide(supplier.ChangeSupplierStatus(status=other), present, NOON)
        assert changed == supplier.SupplierStatusChanged(status=other)


def test_documents_are_checked_below_a_root_only() -> None:
    present = state_after(supplier.SUPPLIER, (supplier.SupplierCreated(),))

    def configured(**settings: Any) -> Event | None:
        return supplier.SUPPLIER.decide(supplier.ConfigureSupplier(**settings), present, NOON)

    for check in ("warn", "require"):
        with pytest.raises(supplier.DocumentsRootMissing):
            configured(documents_check=check)
        assert configured(documents_check=check, documents_root="s3://documents")
    assert configured(documents_root="s3://documents")
    assert configured(documents_check="off") is None


def test_nothing_refused_is_not_counted() -> None:
    assert refusals.REFUSALS.decide(refusals.CountRefusals(since=NOON, counts={}), refusals.Refusals(), NOON) is None


def test_a_mail_is_due_at_its_very_moment() -> None:
    waiting = state_after(mail.CUSTOMER_MAIL, (*SENDING, msgspec.structs.replace(MAIL_POSTPONED, due_at=LEASE_UNTIL)))
    begin = mail.StartMail(worker=7, lease_until=LEASE_UNTIL, max_attempts=3)

    def decided(at: datetime) -> Event | None:
        return mail.CUSTOMER_MAIL.decide(begin, waiting, at)

    assert decided(NOON) is None
    assert decided(LEASE_UNTIL) == mail.MailStarted(attempt=2, worker=7, lease_until=LEASE_UNTIL)


@pytest.mark.parametrize("external", ["a/b", "a/b/c", "/"])
def test_an_account_number_may_hold_slashes(external: str) -> None:
    assert imports.identity_of(imports.stream_of("S", external)) == ("S", external)
    assert run.run_of(run.stream_of("S", external, "b")) == ("S", external)


def test_the_reference_of_a_record_is_32_hexadecimal_digits() -> None:
    stream = post_account.stream_of(post_account.INVOICE, "S", "a/b", "one")
    assert len(post_account.identity_of(stream)[2]) == 32


def test_every_refusal_is_said_in_both_languages() -> None:
    for error in (post_account.RecordDiffers(), price_sheet.DocumentDiffers(), supplier.DocumentsRootMissing()):
        assert isinstance(error, Refused)
        assert str(error) != error.german


def test_a_record_or_document_that_differs_is_not_unique() -> None:
    assert (post_account.RecordDiffers.code, price_sheet.DocumentDiffers.code) == ("unique", "unique")
    assert supplier.DocumentsRootMissing.code == "documents_root_missing"


def test_a_stream_s_name_begins_with_its_kind_for_good() -> None:
    named = {
        "import": (IMPORT, imports.stream_of("S", "1")),
        "customer-mail": (mail.CUSTOMER_MAIL, mail.stream_of("S", "1")),
        "organisation": (organisation.ORGANISATION, organisation.stream_of("O")),
        "participant": (participant.PARTICIPANT, participant.stream_of("O", 1)),
        "price-sheet": (price_sheet.PRICE_SHEET, price_sheet.stream_of("O", 1, "D")),
        "refusals": (refusals.REFUSALS, refusals.stream_of("S", "b")),
        "run": (run.RUN, run.stream_of("S", "R", "b")),
        "supplier": (supplier.SUPPLIER, supplier.stream_of("S")),
        "user": (user.USER, user.stream_of("u_1")),
        "owner-task": (owner_task.OWNER_TASK, owner_task.stream_of("t_1")),
        "disclosure": (disclosure.DISCLOSURE, disclosure.stream_of("S", "1")),
        "delivery-note": (post_account.DELIVERY_NOTE, post_account.stream_of(post_account.DELIVERY_NOTE, "S", "1")),
        "energy-amount": (post_account.ENERGY_AMOUNT, post_account.stream_of(post_account.ENERGY_AMOUNT, "S", "1")),
        "invoice": (post_account.INVOICE, post_account.stream_of(post_account.INVOICE, "S", "1")),
    }
    assert named.keys() == AGGREGATES.keys()
    for prefix, (aggregate, stream) in named.items():
        assert aggregate.prefix == prefix
        assert stream.startswith(f"{prefix}/")
        assert aggregate_of(stream) is aggregate


def test_the_three_kinds_of_records_are_alike() -> None:
    for aggregate in post_account.POST_ACCOUNT:
        assert aggregate.topics is post_account.TOPICS
        assert (aggregate.decide, aggregate.evolve) == (post_account.decide, post_account.evolve)
        assert aggregate.initial == post_account.Record()


def test_every_stream_has_a_state_before_its_first_event() -> None:
    for aggregate in AGGREGATES.values():
        assert isinstance(aggregate.initial, State), aggregate.prefix


def test_settings_that_are_not_named_stay() -> None:
    present = state_after(
        supplier.SUPPLIER, (supplier.SupplierCreated(), supplier.SupplierConfigured(**asdict(SETTINGS)))
    )
    assert supplier.SUPPLIER.decide(supplier.ConfigureSupplier(), present, NOON) is None


def test_counts_are_empty_until_something_is_counted() -> None:
    assert run.CountRun(since=NOON, mode="create").counts == {}
