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
    Prose,
    Required,
    Required32,
    Text,
    Wire,
)
from schemas.customer import Customer
from schemas.finance import Ledger, PaymentInstruction, PaymentSchedule, Statement
from schemas.supply import SupplyAddress


class Reference(Wire, frozen=True, kw_only=True):
    namespace: Required
    """System or kind of the reference (Namensraum)."""
    value: Required
    """The reference itself (Wert)."""


class AccountCampaign(Wire, frozen=True, kw_only=True):
    slug: Required
    """Short name of the campaign (Kampagne)."""
    campaign_note: Prose = ""
    """Note on the campaign (Bemerkung zur Kampagne)."""


class MetadataItem(Wire, frozen=True, kw_only=True):
    key: Annotated[str, Meta(min_length=1, max_length=1024)]
    """Name of the value (Schlüssel), unique in the account."""
    value: AnyJson
    """Value (Wert): any JSON, stored as it was sent."""


class Note(Wire, frozen=True, kw_only=True):
    created_at: Moment | UnsetType = UNSET
    """Time of writing (Zeitpunkt der Notiz)."""
    body: LongText
    """The text of the note (Notiz)."""
    is_pinned: bool | UnsetType = UNSET
    """True if the note is shown first (angeheftet)."""


class Account(Wire, frozen=True, kw_only=True):
    external_account_number: ExternalNumber
    """The account's identifier in the old system (Vertragskontonummer im Altsystem), compared byte for byte."""
    import_supplier: Required32
    """Code of the import supplier (Quelle) whose accounts are migrated."""
    unknown_occupier: bool = False
    """True if the occupier is unknown (Bewohner unbekannt). Such an account has no customers."""
    customers: Annotated[tuple[Customer, ...], Meta(max_length=MAX_ITEMS)] = ()
    """The customers of the account (Kunden, Vertragspartner)."""
    billing_address1: Text = ""
    """First line of the billing address (Rechnungsadresse)."""
    billing_address2: Text = ""
    """Second line of the billing address (Rechnungsadresse)."""
    billing_address3: Text = ""
    """Third line of the billing address (Rechnungsadresse)."""
    billing_address4: Text = ""
    """Fourth line of the billing address (Rechnungsadresse)."""
    billing_postcode: Text = ""
    """Postcode of the billing address (Postleitzahl): five digits."""
    sales_channel: Text = ""
    """Sales channel that won the account (Vertriebskanal)."""
    sales_subchannel: Text = ""
    """Subdivision of the sales channel (Vertriebsunterkanal)."""
    supply_addresses: Annotated[tuple[SupplyAddress, ...], Meta(max_length=MAX_ITEMS)] = ()
    """Places where the account is supplied (Lieferstellen)."""
    transfer_balance: DecimalText = ""
    """Balance in euros that is transferred (Übertragungssaldo): the sum of the ledgers' balances."""
    references: Annotated[tuple[Reference, ...], Meta(max_length=MAX_ITEMS)] = ()
    """References to other systems (Referenzen)."""
    statements: Annotated[tuple[Statement, ...], Meta(max_length=MAX_ITEMS)] = ()
    """Bills of the old system (Abrechnungen)."""
    ledgers: Annotated[tuple[Ledger, ...], Meta(max_length=MAX_ITEMS)] = ()
    """The ledgers (Buchungskreise)."""
    payment_instructions: Annotated[tuple[PaymentInstruction, ...], Meta(max_length=MAX_ITEMS)] = ()
    """Means of payment of the account (Zahlungswege, SEPA-Lastschriftmandate)."""
    payment_schedules: Annotated[tuple[PaymentSchedule, ...], Meta(max_length=MAX_ITEMS)] = ()
    """Payment schedules (Abschlagspläne)."""
    account_campaigns: Annotated[tuple[AccountCampaign, ...], Meta(max_length=MAX_ITEMS)] = ()
    """Campaigns that the account takes part in (Kampagnen)."""
    metadata: Annotated[tuple[MetadataItem, ...], Meta(max_length=MAX_ITEMS)] = ()
    """Further values of the importer's own (Metadaten)."""
    notes: Annotated[tuple[Note, ...], Meta(max_length=MAX_ITEMS)] = ()
    """Notes on the account (Notizen)."""


class TaskParams(Wire, frozen=True, kw_only=True):
    """Parameters of the processing: dry run, and window of time."""

    is_dry_run: bool = False
    """True for a dry run (Probelauf): a worker processes the account and then undoes all changes."""
    schedule_window_start: Moment | None = None
    """Earliest start of processing (Beginn des Verarbeitungsfensters), at most 4 days ahead."""
    schedule_window_end: Moment | None = None
    """Latest start of processing (Ende des Verarbeitungsfensters), at most 4 days ahead."""


class Reason(Wire, frozen=True, kw_only=True):
    """Reason of a decision about an import; stored in the log."""

    reason: Text = ""
    """Reason of the decision (Begründung); stored in the log, and unreadable after the person's erasure."""


class WrappedAccount(Wire, frozen=True, kw_only=True):
    """Body of a request with an account and the parameters of its processing.

    A body may also be the `Account` alone.
    """

    payload: Account
    """The account (Vertragskonto)."""
    task_params: TaskParams = TaskParams()
    """Parameters of the processing (Verarbeitungsparameter)."""
