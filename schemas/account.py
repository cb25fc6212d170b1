"""The account that an importer submits: the body of validate and create."""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from schemas.base import (
    MAX_ITEMS,
    AnyJson,
    DecimalText,
    ExternalNumber,
    LongText,
    Moment,
    Required,
    Required32,
    Text,
    Wire,
)
from schemas.customer import Customer
from schemas.finance import Ledger, PaymentInstruction, PaymentSchedule, Statement
from schemas.supply import SupplyAddress


class Reference(Wire, frozen=True, kw_only=True):
    namespace: Annotated[str, Meta(min_length=1, max_length=50)]
    value: Annotated[str, Meta(min_length=1, max_length=100)]


class AccountCampaign(Wire, frozen=True, kw_only=True):
    slug: Required
    campaign_note: Text = ""


class MetadataItem(Wire, frozen=True, kw_only=True):
    key: Annotated[str, Meta(min_length=1, max_length=1024)]
    value: AnyJson


class Note(Wire, frozen=True, kw_only=True):
    created_at: Moment | UnsetType = UNSET
    body: LongText
    is_pinned: bool | UnsetType = UNSET


class Account(Wire, frozen=True, kw_only=True):
    external_account_number: ExternalNumber
    import_supplier: Required32
    unknown_occupier: bool = False
    customers: Annotated[tuple[Customer, ...], Meta(max_length=MAX_ITEMS)] = ()
    billing_address1: Text = ""
    billing_address2: Text = ""
    billing_address3: Text = ""
    billing_address4: Text = ""
    billing_postcode: Text = ""
    sales_channel: Text = ""
    sales_subchannel: Text = ""
    supply_addresses: Annotated[tuple[SupplyAddress, ...], Meta(max_length=MAX_ITEMS)] = ()
    transfer_balance: DecimalText = ""
    references: Annotated[tuple[Reference, ...], Meta(max_length=MAX_ITEMS)] = ()
    statements: Annotated[tuple[Statement, ...], Meta(max_length=MAX_ITEMS)] = ()
    ledgers: Annotated[tuple[Ledger, ...], Meta(max_length=MAX_ITEMS)] = ()
    payment_instructions: Annotated[tuple[PaymentInstruction, ...], Meta(max_length=MAX_ITEMS)] = ()
    payment_schedules: Annotated[tuple[PaymentSchedule, ...], Meta(max_length=MAX_ITEMS)] = ()
    account_campaigns: Annotated[tuple[AccountCampaign, ...], Meta(max_length=MAX_ITEMS)] = ()
    metadata: Annotated[tuple[MetadataItem, ...], Meta(max_length=MAX_ITEMS)] = ()
    notes: Annotated[tuple[Note, ...], Meta(max_length=MAX_ITEMS)] = ()


class TaskParams(Wire, frozen=True, kw_only=True):
    """How to process: as a dry run, and within which window of time."""

    is_dry_run: bool = False
    schedule_window_start: Moment | None = None
    schedule_window_end: Moment | None = None


class Reason(Wire, frozen=True, kw_only=True):
    """Why somebody decides something about an import; kept in the log."""

    reason: Text = ""


class WrappedAccount(Wire, frozen=True, kw_only=True):
    """The second accepted form of the body; `Account` bare is the first."""

    payload: Account
    task_params: TaskParams = TaskParams()
