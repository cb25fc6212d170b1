"""Decisions and states of every aggregate except the import process."""

from collections.abc import Sequence
from functools import reduce
from typing import Any

import pytest
from msgspec import NODEFAULT, convert
from msgspec.structs import asdict, fields, replace

from eventstore.aggregates import (
    customer_mail,
    disclosure,
    import_process,
    organisation,
    owner_task,
    participant,
    price_sheet,
    run,
    supplier,
    user,
)
from eventstore.aggregates.aggregate import Aggregate, Command, Event, State, event_of
from eventstore.aggregates.customer_mail import (
    CUSTOMER_MAIL,
    CancelMail,
    CustomerMail,
    DeliverMail,
    FailMail,
    MailCancelled,
    MailDelivered,
    MailFailed,
    MailPostponed,
    MailRequested,
    MailStarted,
    PostponeMail,
    RequestMail,
    StartMail,
)
from eventstore.aggregates.disclosure import DISCLOSURE, PersonalDataShown, ShowPersonalData
from eventstore.aggregates.organisation import (
    ORGANISATION,
    ConfirmKey,
    CreateKey,
    KeyConfirmed,
    KeyCreated,
    KeyRevoked,
    Organisation,
    RevokeKey,
)
from eventstore.aggregates.owner_task import (
    OWNER_TASK,
    FailOwnerTask,
    FinishOwnerTask,
    OwnerTaskFailed,
    OwnerTaskFinished,
    OwnerTaskRejected,
    OwnerTaskRequested,
    OwnerTaskStarted,
    OwnerTaskState,
    RequestOwnerTask,
    StartOwnerTask,
)
from eventstore.aggregates.participant import (
    PARTICIPANT,
    ContactsErased,
    EraseContacts,
    ImportParticipant,
    ParticipantImported,
)
from eventstore.aggregates.post_account import (
    DELIVERY_NOTE,
    ENERGY_AMOUNT,
    INVOICE,
    POST_ACCOUNT,
    ImportRecord,
    Record,
    RecordCancellationChanged,
    RecordDiffers,
    RecordImported,
)
from eventstore.aggregates.post_account import identity_of as record_identity
from eventstore.aggregates.post_account import stream_of as record_stream
from eventstore.aggregates.price_sheet import PRICE_SHEET, DocumentDiffers, ImportPriceSheet, PriceSheetImported
from eventstore.aggregates.run import (
    REFUSALS,
    RUN,
    AccountsReplayed,
    CountRefusals,
    CountRun,
    ReplayAccounts,
    RequestsRefused,
    RunCounted,
)
from eventstore.aggregates.supplier import (
    SUPPLIER,
    AccountsReleased,
    AlreadyArchived,
    ArchiveAttached,
    ArchiveSupplier,
    AttachArchive,
    ChangeSupplierStatus,
    ConfigureSupplier,
    CreateSupplier,
    DocumentsRootMissing,
    ReleaseAccounts,
    Supplier,
    SupplierArchived,
    SupplierConfigured,
    SupplierCreated,
    SupplierSettings,
    SupplierStatusChanged,
)
from eventstore.aggregates.user import (
    USER,
    ChangeUserRole,
    CreateUser,
    DisableUser,
    EnableUser,
    EndSessions,
    EraseUser,
    IssueSignInLink,
    PasswordSet,
    SessionsEnded,
    SetPassword,
    SignIn,
    SignInLinkIssued,
    SignOut,
    User,
    UserCreated,
    UserDisabled,
    UserEnabled,
    UserErased,
    UserRoleChanged,
    UserSignedIn,
    UserSignedOut,
)
from eventstore.errors import IllegalTransition, Refused
from eventstore.events import AGGREGATES, aggregate_of
from tests.support.make import DIGEST, LEASE_UNTIL, NOON, OTHER_DIGEST

Row = tuple[Aggregate, Sequence[Event], Command, Event | type[Exception] | None]

CREATED = SupplierCreated()
PAUSED, COMPLETE = SupplierStatusChanged(status="paused", reason="audit"), SupplierStatusChanged(status="complete")
OPEN = SupplierStatusChanged(status="ongoing", ends_complete=True)
RELEASED = AccountsReleased(run="monday", reason="checked")
STRICT = SupplierConfigured(strictness="strict", unknown_fields="refuse", is_dry_run_only=False)
DRY_ONLY = replace(STRICT, is_dry_run_only=True)
ROOT = replace(
    STRICT, strictness="standard", documents_root="s3://d", documents_check="require", documents_organisation="O"
)
ARCHIVE = ArchiveSupplier(url="file:///a", sha256="d", position=9, payloads=2)
ARCHIVED, ATTACHED = event_of(SupplierArchived, ARCHIVE), ArchiveAttached(sha256="d")
SUPPLIERS: list[Row] = [
    (SUPPLIER, [], CreateSupplier(), CREATED),
    (SUPPLIER, [CREATED], CreateSupplier(), None),
    (SUPPLIER, [CREATED], ChangeSupplierStatus(status="paused", reason="audit"), PAUSED),
    (SUPPLIER, [CREATED, PAUSED], ChangeSupplierStatus(status="paused"), None),
    (SUPPLIER, [CREATED, PAUSED], ChangeSupplierStatus(status="complete"), COMPLETE),
    (SUPPLIER, [], ChangeSupplierStatus(status="paused"), IllegalTransition),
    *[(SUPPLIER, h, ReleaseAccounts(run="monday", reason="checked"), RELEASED) for h in ([CREATED], [CREATED, PAUSED])],
    (SUPPLIER, [CREATED, RELEASED], ReleaseAccounts(), AccountsReleased()),
    (SUPPLIER, [CREATED, COMPLETE], ReleaseAccounts(), None),
    (SUPPLIER, [CREATED, COMPLETE, OPEN], ReleaseAccounts(), AccountsReleased()),
    (SUPPLIER, [], ReleaseAccounts(), IllegalTransition),
    (SUPPLIER, [CREATED], ConfigureSupplier(strictness="strict"), STRICT),
    (SUPPLIER, [CREATED, STRICT, PAUSED], ConfigureSupplier(is_dry_run_only=True), DRY_ONLY),
    (SUPPLIER, [CREATED, STRICT, COMPLETE], ConfigureSupplier(is_dry_run_only=True), DRY_ONLY),
    (SUPPLIER, [CREATED, STRICT, PAUSED], ConfigureSupplier(strictness="strict"), None),
    (SUPPLIER, [CREATED, DRY_ONLY], ConfigureSupplier(), None),
    (SUPPLIER, [], ConfigureSupplier(strictness="strict"), IllegalTransition),
    (SUPPLIER, [CREATED], ConfigureSupplier(documents_check="require"), DocumentsRootMissing),
    (
        SUPPLIER,
        [CREATED],
        ConfigureSupplier(documents_root="s3://d", documents_check="require", documents_organisation="O"),
        ROOT,
    ),
    (SUPPLIER, [CREATED, ROOT], ConfigureSupplier(documents_check="require", documents_organisation="P"), None),
    (SUPPLIER, [CREATED], ConfigureSupplier(documents_check="off"), None),
    (SUPPLIER, [CREATED], ARCHIVE, IllegalTransition),
    (SUPPLIER, [CREATED, COMPLETE], ARCHIVE, ARCHIVED),
    (SUPPLIER, [CREATED, COMPLETE, ARCHIVED], ARCHIVE, None),
    (SUPPLIER, [CREATED, COMPLETE, ARCHIVED], replace(ARCHIVE, position=12), AlreadyArchived),
    (SUPPLIER, [], AttachArchive(), IllegalTransition),
    (SUPPLIER, [CREATED, COMPLETE], AttachArchive(), None),
    (SUPPLIER, [CREATED, COMPLETE, ARCHIVED], AttachArchive(), ATTACHED),
    (SUPPLIER, [CREATED, COMPLETE, ARCHIVED, PAUSED], AttachArchive(), ATTACHED),
    (SUPPLIER, [CREATED, COMPLETE, ARCHIVED, OPEN], AttachArchive(), ATTACHED),
    (SUPPLIER, [CREATED, COMPLETE, ARCHIVED, ATTACHED], AttachArchive(), None),
]

CREATE_KEY = CreateKey(key_id="k", secret_sha256="d", role="auditor", suppliers=("A",), rate_per_s=5)
KEY = event_of(KeyCreated, CREATE_KEY)
VOID, HELD, CONFIRMED = KeyRevoked(key_id="k"), KeyRevoked(key_id="k", until_confirmed=True), KeyConfirmed(key_id="k")
REVOKE, HOLD, CONFIRM = RevokeKey(key_id="k"), RevokeKey(key_id="k", until_confirmed=True), ConfirmKey(key_id="k")
KEYS: list[Row] = [
    (ORGANISATION, [], CREATE_KEY, KEY),
    (ORGANISATION, [KEY], CREATE_KEY, None),
    (ORGANISATION, [KEY, HELD], CREATE_KEY, None),
    (ORGANISATION, [KEY, VOID], CREATE_KEY, None),
    (ORGANISATION, [KEY, VOID], replace(CREATE_KEY, key_id="l"), replace(KEY, key_id="l")),
    (ORGANISATION, [KEY], RevokeKey(key_id="k", reason="r"), KeyRevoked(key_id="k", reason="r")),
    (ORGANISATION, [KEY, VOID], REVOKE, None),
    (ORGANISATION, [KEY], HOLD, HELD),
    (ORGANISATION, [KEY, HELD], HOLD, None),
    (ORGANISATION, [KEY, HELD], REVOKE, VOID),
    (ORGANISATION, [KEY, HELD], CONFIRM, CONFIRMED),
    (ORGANISATION, [KEY, HELD, CONFIRMED], CONFIRM, None),
    (ORGANISATION, [KEY, HELD, CONFIRMED], REVOKE, VOID),
    (ORGANISATION, [KEY, HELD, VOID], HOLD, None),
    (ORGANISATION, [KEY, HELD, VOID], CONFIRM, IllegalTransition),
    (ORGANISATION, [KEY], RevokeKey(key_id="other"), IllegalTransition),
    (ORGANISATION, [], CONFIRM, IllegalTransition),
]

JOIN = CreateUser(organisation="Nordwind", role="support", suppliers=("NW",))
JOINED, DISABLED, ERASED = event_of(UserCreated, JOIN), UserDisabled(), UserErased()
PROMOTED = UserRoleChanged(role="operator", suppliers=("*",))
SIGNING_IN: list[tuple[Command, Event]] = [
    (SignIn(session="s", method="password"), UserSignedIn(session="s", method="password")),
    (SetPassword(), PasswordSet()),
    (IssueSignInLink(expires_at=LEASE_UNTIL), SignInLinkIssued(expires_at=LEASE_UNTIL)),
]
ENDING: list[tuple[Command, Event]] = [
    (SignOut(session="s"), UserSignedOut(session="s")),
    (EndSessions(), SessionsEnded()),
]
USERS: list[Row] = [
    (USER, [], JOIN, JOINED),
    (USER, [JOINED], JOIN, IllegalTransition),
    *[(USER, [JOINED, *before], *case) for case in SIGNING_IN + ENDING for before in ([], [DISABLED, UserEnabled()])],
    *[(USER, [JOINED, DISABLED], *case) for case in ENDING],
    *[(USER, [JOINED, DISABLED], command, IllegalTransition) for command, _ in SIGNING_IN],
    *[
        (USER, history, command, IllegalTransition)
        for history in ([], [JOINED, ERASED])
        for command in (*dict(SIGNING_IN + ENDING), DisableUser(), EnableUser(), ChangeUserRole(role="auditor"))
    ],
    (USER, [JOINED], DisableUser(), DISABLED),
    (USER, [JOINED, DISABLED], DisableUser(), None),
    (USER, [JOINED, DISABLED], EnableUser(), UserEnabled()),
    (USER, [JOINED], EnableUser(), None),
    (USER, [JOINED], ChangeUserRole(role="operator", suppliers=("*",)), PROMOTED),
    (USER, [JOINED, PROMOTED], ChangeUserRole(role="operator", suppliers=("*",)), None),
    (
        USER,
        [JOINED],
        ChangeUserRole(role="support", suppliers=("*",)),
        UserRoleChanged(role="support", suppliers=("*",)),
    ),
    (USER, [JOINED, DISABLED], EraseUser(), ERASED),
    (USER, [JOINED, ERASED], EraseUser(), None),
    (USER, [], EraseUser(), IllegalTransition),
    (USER, [JOINED, ERASED], JOIN, IllegalTransition),
]

REQUEST_TASK = RequestOwnerTask(
    kind="heal", arguments={"supplier": "NW", "external": "1"}, user="u", reason="r", mac="m"
)
REQUESTED_TASK, TRIED = event_of(OwnerTaskRequested, REQUEST_TASK), [OwnerTaskStarted(attempt=n) for n in (1, 2, 3)]
FINISH, FAIL_TASK = FinishOwnerTask(attempt=1), FailOwnerTask(attempt=1, error="no")
FINISHED, FAILED = OwnerTaskFinished(), OwnerTaskFailed(error="no")
TASKS: list[Row] = [
    (OWNER_TASK, [], REQUEST_TASK, REQUESTED_TASK),
    (OWNER_TASK, [REQUESTED_TASK], REQUEST_TASK, None),
    (OWNER_TASK, [REQUESTED_TASK], StartOwnerTask(), TRIED[0]),
    (OWNER_TASK, [REQUESTED_TASK, *TRIED[:2]], StartOwnerTask(), TRIED[2]),
    (OWNER_TASK, [REQUESTED_TASK, *TRIED], StartOwnerTask(), OwnerTaskFailed(error="given up after 3 attempts")),
    (OWNER_TASK, [REQUESTED_TASK, TRIED[0]], FINISH, FINISHED),
    (OWNER_TASK, [REQUESTED_TASK, TRIED[0]], FAIL_TASK, FAILED),
    (OWNER_TASK, [REQUESTED_TASK, TRIED[0], FINISHED], FINISH, None),
    (OWNER_TASK, [REQUESTED_TASK, TRIED[0], FAILED], FAIL_TASK, None),
    *[(OWNER_TASK, [], command, IllegalTransition) for command in (StartOwnerTask(), FINISH, FAIL_TASK)],
    *[(OWNER_TASK, [REQUESTED_TASK], command, IllegalTransition) for command in (FINISH, FAIL_TASK)],
    *[(OWNER_TASK, [REQUESTED_TASK, TRIED[0], FINISHED], c, IllegalTransition) for c in (StartOwnerTask(), FAIL_TASK)],
    (OWNER_TASK, [REQUESTED_TASK, FAILED], StartOwnerTask(), IllegalTransition),
]

REQUEST_MAIL = RequestMail(account_number="A-1", payload_sha256=DIGEST, language="de")
ASKED = event_of(MailRequested, REQUEST_MAIL)
SEND, SENT_TO = StartMail(worker=7, lease_until=LEASE_UNTIL, max_attempts=3), MailDelivered(attempt=1, message_id="<m>")
SENDING, SENDING_AGAIN = [MailStarted(attempt=n, worker=7, lease_until=LEASE_UNTIL) for n in (1, 2)]
WAITS, WAITS_LONGER = [MailPostponed(attempt=1, code="c", due_at=due_at) for due_at in (NOON, LEASE_UNTIL)]
OUTCOMES: list[tuple[Command, Event]] = [
    (DeliverMail(attempt=1, message_id="<m>"), SENT_TO),
    (FailMail(attempt=1, code="c", detail="D."), MailFailed(attempt=1, code="c", detail="D.")),
    (PostponeMail(attempt=1, code="c", due_at=NOON), WAITS),
]
DROPPED, NEXT_MAIL = MailCancelled(), replace(REQUEST_MAIL, account_number="A-2")
ASKED_NEXT = event_of(MailRequested, NEXT_MAIL)
NEXT_ASKED = [ASKED, SENDING, DROPPED, ASKED_NEXT]
LATER_TRIES = [
    event for n in (2, 3, 4) for event in (replace(SENDING, attempt=n), MailPostponed(attempt=n, code="c", due_at=NOON))
]
MAILS: list[Row] = [
    (CUSTOMER_MAIL, [], REQUEST_MAIL, ASKED),
    (CUSTOMER_MAIL, [ASKED, SENDING, SENT_TO], REQUEST_MAIL, None),
    *[(CUSTOMER_MAIL, [ASKED, *h], CancelMail(), DROPPED) for h in ([], [SENDING], [SENDING, WAITS])],
    *[(CUSTOMER_MAIL, h, CancelMail(), None) for h in ([], [ASKED, DROPPED], [ASKED, SENDING, SENT_TO])],
    (CUSTOMER_MAIL, [ASKED, DROPPED], SEND, None),
    (CUSTOMER_MAIL, [ASKED, DROPPED], REQUEST_MAIL, None),
    (CUSTOMER_MAIL, [ASKED], NEXT_MAIL, None),
    *[
        (CUSTOMER_MAIL, [ASKED, *h], NEXT_MAIL, event_of(MailRequested, NEXT_MAIL))
        for h in ([DROPPED], [SENDING, DROPPED], [SENDING, SENT_TO], [SENDING, MailFailed(attempt=1, code="c")])
    ],
    (CUSTOMER_MAIL, [ASKED, SENDING, DROPPED], *OUTCOMES[0]),
    *[(CUSTOMER_MAIL, [ASKED, SENDING, DROPPED], late, None) for late, _ in OUTCOMES[1:]],
    (CUSTOMER_MAIL, [*NEXT_ASKED], SEND, SENDING_AGAIN),
    (CUSTOMER_MAIL, [*NEXT_ASKED, SENDING_AGAIN], OUTCOMES[0][0], IllegalTransition),
    (CUSTOMER_MAIL, [*NEXT_ASKED, *LATER_TRIES[:2]], SEND, replace(SENDING, attempt=3)),
    (CUSTOMER_MAIL, [*NEXT_ASKED, *LATER_TRIES], SEND, MailFailed(attempt=4, code="attempts_exhausted")),
    (CUSTOMER_MAIL, [ASKED], SEND, SENDING),
    (CUSTOMER_MAIL, [ASKED, SENDING], SEND, None),
    (CUSTOMER_MAIL, [ASKED, SENDING, SENT_TO], SEND, None),
    (CUSTOMER_MAIL, [ASKED, SENDING, WAITS], SEND, SENDING_AGAIN),
    (CUSTOMER_MAIL, [ASKED, SENDING, WAITS_LONGER], SEND, None),
    (
        CUSTOMER_MAIL,
        [ASKED, SENDING, WAITS],
        replace(SEND, max_attempts=1),
        MailFailed(attempt=1, code="attempts_exhausted"),
    ),
    *[(CUSTOMER_MAIL, [ASKED, SENDING], *case) for case in OUTCOMES],
]

SHEET = ImportPriceSheet(
    payload_sha256=DIGEST,
    price_sheet_type="Z32",
    active_from=NOON,
    article_prices=2,
    is_unused=True,
    preceding_document_number="D-0",
)
SHEET_IMPORTED = event_of(PriceSheetImported, SHEET, imported_at=NOON)
KNOWN = ParticipantImported(payload_sha256=DIGEST, imported_at=NOON)
FORGET = EraseContacts(payload_sha256=OTHER_DIGEST, imported_at=NOON, reason="r")
FORGOTTEN = event_of(ContactsErased, FORGET, erased_at=NOON)
ATTACH = ImportRecord(
    account_number="A-1", payload_sha256=DIGEST, content_sha256=DIGEST, cancellation_sha256="n", is_cancelled=False
)
CANCEL = replace(ATTACH, payload_sha256=OTHER_DIGEST, cancellation_sha256="y", is_cancelled=True, private="p")
RECORD, CANCELLED = (
    event_of(RecordImported, ATTACH, imported_at=NOON),
    event_of(RecordCancellationChanged, CANCEL, imported_at=NOON),
)
COUNT = CountRun(since=NOON, mode="dry_run", valid=1, refused=2, counts={"code@place": 1})
COUNTED = event_of(RunCounted, COUNT)
REPLAY, REFUSE = ReplayAccounts(accounts=("7",), mode="create"), CountRefusals(since=NOON, counts={"code@place": 1})
RECORDS: list[Row] = [
    (PARTICIPANT, [], ImportParticipant(payload_sha256=DIGEST), KNOWN),
    (PARTICIPANT, [KNOWN], ImportParticipant(payload_sha256=OTHER_DIGEST), None),
    (PARTICIPANT, [], FORGET, IllegalTransition),
    (PARTICIPANT, [KNOWN], FORGET, FORGOTTEN),
    (PARTICIPANT, [KNOWN, FORGOTTEN], FORGET, None),
    (PARTICIPANT, [KNOWN, FORGOTTEN], ImportParticipant(payload_sha256=DIGEST), None),
    (PRICE_SHEET, [], SHEET, SHEET_IMPORTED),
    (PRICE_SHEET, [SHEET_IMPORTED], SHEET, None),
    (PRICE_SHEET, [SHEET_IMPORTED], replace(SHEET, payload_sha256=OTHER_DIGEST), DocumentDiffers),
    (INVOICE, [], ATTACH, RECORD),
    (INVOICE, [RECORD], ATTACH, None),
    (INVOICE, [RECORD], CANCEL, CANCELLED),
    (INVOICE, [RECORD, CANCELLED], CANCEL, None),
    (INVOICE, [RECORD, CANCELLED], replace(CANCEL, cancellation_sha256="z"), RecordDiffers),
    (INVOICE, [RECORD], replace(ATTACH, content_sha256=OTHER_DIGEST), RecordDiffers),
    (RUN, [], COUNT, COUNTED),
    (RUN, [COUNTED], COUNT, None),
    (RUN, [], replace(COUNT, valid=0), replace(COUNTED, valid=0)),
    (RUN, [], replace(COUNT, refused=0), replace(COUNTED, refused=0)),
    (RUN, [], CountRun(since=NOON, mode="dry_run"), None),
    (RUN, [], REPLAY, AccountsReplayed(accounts=("7",), mode="create")),
    (RUN, [], replace(REPLAY, accounts=()), None),
    (REFUSALS, [], REFUSE, event_of(RequestsRefused, REFUSE)),
    (REFUSALS, [event_of(RequestsRefused, REFUSE)], REFUSE, None),
    (REFUSALS, [], replace(REFUSE, counts={}), None),
]


def after(aggregate: Aggregate, *history: Event) -> Any:
    return reduce(aggregate.evolve, history, aggregate.initial)


def refused_status(aggregate: Aggregate, state: Any, command: Command) -> str:
    """Return the status that a refusal names."""
    if aggregate is ORGANISATION:
        return "revoked" if command == CONFIRM and KEY.key_id in state.void else "unknown key"
    return str(getattr(state, "status", "unknown"))


@pytest.mark.parametrize(
    ("aggregate", "history", "command", "outcome"),
    [*SUPPLIERS, *KEYS, *USERS, *TASKS, *MAILS, *RECORDS],
    ids=lambda part: part.prefix if isinstance(part, Aggregate) else type(part).__name__,
)
def test_a_command_has_its_event_or_none_or_is_refused(
    aggregate: Aggregate, history: Sequence[Event], command: Command, outcome: Event | type[Exception] | None
) -> None:
    state = after(aggregate, *history)
    if isinstance(outcome, type):
        with pytest.raises(outcome) as refused:
            aggregate.decide(command, state, NOON)
        if isinstance(refused.value, IllegalTransition):
            assert refused.value.status == refused_status(aggregate, state, command)
            assert refused.value.command == type(command).__name__
    else:
        assert aggregate.decide(command, state, NOON) == outcome


@pytest.mark.promise("supplier-complete")
def test_a_complete_supplier_can_be_opened_again() -> None:
    assert SUPPLIER.decide(ChangeSupplierStatus(status="ongoing"), after(SUPPLIER, CREATED, COMPLETE), NOON) == OPEN


@pytest.mark.promise("e-mails-tasks-owner")
def test_only_the_present_attempt_has_an_outcome() -> None:
    for history in ([ASKED, SENDING, WAITS, SENDING_AGAIN], [ASKED]):
        for command, _ in OUTCOMES:
            mail = after(CUSTOMER_MAIL, *history)
            with pytest.raises(IllegalTransition, match=f"^{type(command).__name__} is not allowed") as refused:
                CUSTOMER_MAIL.decide(command, mail, NOON)
            assert refused.value.status == mail.status
    for ended in ([], [FINISHED]):
        for late in (FINISH, FAIL_TASK):
            with pytest.raises(IllegalTransition):
                OWNER_TASK.decide(late, after(OWNER_TASK, REQUESTED_TASK, *TRIED[:2], *ended), NOON)


def test_a_mail_is_due_at_its_very_moment() -> None:
    assert CUSTOMER_MAIL.decide(SEND, after(CUSTOMER_MAIL, ASKED, SENDING, WAITS_LONGER), LEASE_UNTIL) == SENDING_AGAIN


def test_every_showing_of_personal_data_is_an_event_of_its_own() -> None:
    shown = PersonalDataShown(user="u", what=("payload",), reason="r")
    state = after(DISCLOSURE, *[shown] * 3)
    assert state.number == 3
    assert DISCLOSURE.decide(ShowPersonalData(user="u", what=("payload",), reason="r"), state, NOON) == shown


def test_an_event_carries_the_fields_that_its_command_names() -> None:
    command = import_process.FailImport(start=2, code="c", detail="D.", problems=("p@q",), rules_edition="2026")
    event = event_of(import_process.ImportErrored, command, attempt=3)
    fields_of_both = asdict(command).items() & asdict(event).items()
    assert {name for name, _ in fields_of_both} == {"code", "detail", "problems", "rules_edition"}
    assert (event.attempt, event.domain) == (3, "account_import")


@pytest.mark.parametrize(
    ("aggregate", "history", "state"),
    [
        (
            CUSTOMER_MAIL,
            [ASKED, SENDING, WAITS, SENDING_AGAIN],
            CustomerMail(status="SENDING", requested=ASKED, attempt=2),
        ),
        (
            CUSTOMER_MAIL,
            [ASKED, SENDING, WAITS],
            CustomerMail(status="REQUESTED", requested=ASKED, attempt=1, due_at=NOON),
        ),
        (CUSTOMER_MAIL, [ASKED, SENDING, WAITS, DROPPED], CustomerMail(status="CANCELLED", requested=ASKED, attempt=1)),
        (
            CUSTOMER_MAIL,
            NEXT_ASKED,
            CustomerMail(status="REQUESTED", requested=ASKED_NEXT, attempt=1, earlier=1),
        ),
        (CUSTOMER_MAIL, [ASKED, SENDING, SENT_TO], CustomerMail(status="DELIVERED", requested=ASKED, attempt=1)),
        (
            CUSTOMER_MAIL,
            [ASKED, SENDING, WAITS, MailFailed(attempt=1, code="c")],
            CustomerMail(status="FAILED", requested=ASKED, attempt=1),
        ),
        (ORGANISATION, [replace(KEY, key_id="l"), KEY, VOID], Organisation(valid=frozenset("l"), void=frozenset("k"))),
        (ORGANISATION, [replace(VOID, key_id="l"), VOID], Organisation(void=frozenset("kl"))),
        (ORGANISATION, [replace(HELD, key_id="l"), HELD], Organisation(unconfirmed=frozenset("kl"))),
        (OWNER_TASK, [REQUESTED_TASK, TRIED[0], REQUESTED_TASK], OwnerTaskState(status="running", attempts=1)),
        (OWNER_TASK, [OwnerTaskRejected(user="v")], OwnerTaskState(status="rejected")),
        (INVOICE, [replace(RECORD, is_cancelled=True)], replace(after(INVOICE, RECORD), is_cancelled=True)),
        (INVOICE, [RECORD], Record(payload_sha256=DIGEST, content_sha256=DIGEST, cancellation_sha256="n")),
        (
            INVOICE,
            [RECORD, CANCELLED],
            Record(payload_sha256=OTHER_DIGEST, content_sha256=DIGEST, cancellation_sha256="y", is_cancelled=True),
        ),
        (SUPPLIER, [CREATED, ROOT, PAUSED], Supplier(**asdict(ROOT), status="paused")),
        (USER, [JOINED, PROMOTED], User(status="active", organisation="Nordwind", role="operator", suppliers=("*",))),
        *[(USER, [JOINED, event], after(USER, JOINED)) for _, event in SIGNING_IN + ENDING],
    ],
)
def test_a_state_is_what_its_events_add_up_to(aggregate: Aggregate, history: Sequence[Event], state: State) -> None:
    assert after(aggregate, *history) == state


KINDS = {kind for aggregate in AGGREGATES.values() for pair in aggregate.events.values() for kind in pair} | {
    type(aggregate.initial) for aggregate in AGGREGATES.values()
}
MEANT = {"domain": "account_import", **{field.name: field.default for field in fields(SupplierSettings)}}
"""Defaults that say something. A setting's default is that of a new supplier."""


@pytest.mark.parametrize("kind", sorted(KINDS, key=repr))
def test_a_field_that_is_lacking_says_nothing(kind: type[Event | Command | State]) -> None:
    for field in fields(kind):
        if field.default is NODEFAULT or (issubclass(kind, State) and field.name == "status"):
            continue
        assert convert(field.default, field.type) == field.default
        assert not field.default or field.default == MEANT.get(field.name)


def test_before_its_first_event_a_stream_is_new() -> None:
    statuses = {name: getattr(aggregate.initial, "status", "") for name, aggregate in AGGREGATES.items()}
    assert {name: status for name, status in statuses.items() if status} == {
        "import": "NEW",
        "customer-mail": "NEW",
        "supplier": "new",
        "user": "unknown",
        "owner-task": "unknown",
    }
    assert (Supplier().strictness, Supplier().unknown_fields, Supplier().documents_check) == (
        "standard",
        "refuse",
        "off",
    )
    assert not Supplier().sends_customer_emails
    assert CountRun(since=NOON, mode="create").counts == {}


def test_a_refusal_has_its_code_and_a_sentence_in_both_languages() -> None:
    codes: dict[type[Refused], str] = {
        RecordDiffers: "unique",
        DocumentDiffers: "unique",
        DocumentsRootMissing: "documents_root_missing",
        AlreadyArchived: "supplier_already_archived",
    }
    for refusal, code in codes.items():
        assert refusal.code == code
        assert str(refusal()) != refusal().german


def test_a_request_to_the_relay_is_authentic_as_it_was_made_only() -> None:
    def mac(*parts: Any) -> str:
        return repr(parts)

    request = replace(REQUEST_TASK, requested_at=NOON, preview={"revertible": 2, "released": 1})
    made = event_of(OwnerTaskRequested, owner_task.with_mac(request, "t", mac))

    def is_authentic(request: OwnerTaskRequested, task_id: str = "t") -> bool:
        return owner_task.is_authentic(request, task_id, lambda given, *parts: bool(given == mac(*parts)))

    assert made.mac.startswith("('owner task', 't', ")
    assert is_authentic(made)
    for name in ("arguments", "preview"):
        assert is_authentic(replace(made, **{name: dict(reversed(getattr(made, name).items()))}))
    assert not is_authentic(made, "other")
    for name, value in {"kind": "erase", "arguments": {}, "user": "v", "session": "s", "reason": "q"}.items():
        assert not is_authentic(replace(made, **{name: value})), name
    assert not is_authentic(replace(made, requested_at=LEASE_UNTIL))
    assert not is_authentic(replace(made, preview={"reverted": 1}))
    assert not is_authentic(replace(made, preview_sha256="d"))


def test_some_events_of_the_api_leave_a_user_as_it_is() -> None:
    assert USER.inert == {"user_signed_in.v1", "user_signed_out.v1", "password_set.v1"}
    assert ORGANISATION.inert == set()


def test_the_three_kinds_of_records_are_alike() -> None:
    for aggregate in POST_ACCOUNT:
        assert (aggregate.events, aggregate.decide, aggregate.evolve) == (
            INVOICE.events,
            INVOICE.decide,
            INVOICE.evolve,
        )


PARTS = {"import": 3, "customer-mail": 3, "participant": 3, "run": 3, "disclosure": 3, "price-sheet": 4} | {
    "delivery-note": 4,
    "energy-amount": 4,
    "invoice": 4,
}
RECORD_KINDS = (("delivery-note", DELIVERY_NOTE), ("energy-amount", ENERGY_AMOUNT), ("invoice", INVOICE))


@pytest.mark.parametrize("external", ["1", "a/b", "a/b/c", "/", "ä ö"])
def test_a_stream_names_what_it_is_about(external: str) -> None:
    stream = record_stream(DELIVERY_NOTE, "S", external, "one", "two")
    supplier, account, digest = record_identity(stream)
    assert (supplier, account, len(digest)) == ("S", external, 32)
    assert stream == f"delivery-note/S/{external}/{digest}"
    others = (
        record_stream(DELIVERY_NOTE, "S", external, "onet", "wo"),
        record_stream(INVOICE, "S", external, "one", "two"),
    )
    assert stream not in others
    assert disclosure.identity_of(disclosure.stream_of("S", external)) == ("S", external)
    assert import_process.identity_of(import_process.stream_of("S", external)) == ("S", external)
    assert run.run_of(run.stream_of("S", external, "batch")) == ("S", external)
    assert participant.identity_of(participant.stream_of("", 99)) == ("", 99)
    with pytest.raises(ValueError, match="B/99"):  # an organisation's name holds no slash: the rest is the code
        participant.identity_of("participant/A/B/99")


def test_the_name_of_a_stream_begins_with_its_kind_for_good() -> None:
    streams = {
        "import/S/1": import_process.stream_of("S", "1"),
        "customer-mail/S/1": customer_mail.stream_of("S", "1"),
        "organisation/O": organisation.stream_of("O"),
        "participant/O/1": participant.stream_of("O", 1),
        "price-sheet/O/1/D/2": price_sheet.stream_of("O", 1, "D/2"),
        "refusals/S/b": run.refusals_stream_of("S", "b"),
        "run/S/R/b": run.stream_of("S", "R", "b"),
        "supplier/S": supplier.stream_of("S"),
        "user/u": user.stream_of("u"),
        "owner-task/t": owner_task.stream_of("t"),
        "disclosure/S/1": disclosure.stream_of("S", "1"),
    } | {f"{name}/S/1/4f53cda18c2baa0c0354bb5f9a3ecbe5": record_stream(kind, "S", "1") for name, kind in RECORD_KINDS}
    assert {name.split("/")[0] for name in streams} == AGGREGATES.keys()
    assert [kind for _, kind in RECORD_KINDS] == [*POST_ACCOUNT]
    for name, stream in streams.items():
        assert stream == name
        kind = name.split("/")[0]
        assert aggregate_of(stream).parts == PARTS.get(kind, 2), kind
        assert aggregate_of(stream).prefix == name.split("/")[0]
