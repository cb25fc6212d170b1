"""An account as the service takes it: every object and field of the contract, for typed construction and for mapping.

A text, decimal or list that is left out is empty; any other optional field is UNSET. Decimals are text, so that they
are exact (`"12.30"`; euros, kWh or what the field says), datetimes without zone are German market time. German field
names are the wire's own.
"""

from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType, field

DecimalText = Annotated[str, Meta(extra={"decimal": True})]
"""An exact decimal, as text."""


class Wire(Struct, kw_only=True, omit_defaults=True):
    """All objects: fields by name, and what has its default is not sent."""


class Consent(Wire, kw_only=True, omit_defaults=True):
    type: str
    value: str
    description: str = ""
    signed_at: datetime | UnsetType = UNSET


class Customer(Wire, kw_only=True, omit_defaults=True):
    given_name: str = ""
    family_name: str = ""
    email: str | None = None
    mobile: str | None = None
    landline: str | None = None
    date_of_birth: date | UnsetType = UNSET
    title: str = ""
    salutation: str = ""
    consents: tuple[Consent, ...] = ()


class Statement(Wire, kw_only=True, omit_defaults=True):
    bill_period_from_date: date
    bill_period_to_date: date
    statement_path: str
    statement_id: str
    supply_type: str | UnsetType = UNSET
    annual_consumption: int | UnsetType = UNSET


class Transaction(Wire, kw_only=True, omit_defaults=True):
    transaction_id: str
    transaction_date: date
    amount: DecimalText
    type: str
    reason: str = ""
    payment_type: str = ""


class Ledger(Wire, kw_only=True, omit_defaults=True):
    identifiers: tuple[str, ...] = ()
    ledger_code: str
    last_statement_closing_date: date | UnsetType = UNSET
    last_statement_balance: DecimalText = ""
    ledger_balance: DecimalText = ""
    current_statement_transactions: tuple[Transaction, ...] = ()


class BankAccount(Wire, kw_only=True, omit_defaults=True):
    account_holder: str
    account_number: str = ""
    iban: str = ""


class PaymentInstruction(Wire, kw_only=True, omit_defaults=True):
    vendor: str
    reference: str
    type: str
    ledger_code: str = ""
    valid_from: date | UnsetType = UNSET
    bank_account: BankAccount | UnsetType = UNSET


class PaymentSchedule(Wire, kw_only=True, omit_defaults=True):
    """An instalment (Abschlag). The wire gives `amount` as a number; text is taken as well."""

    amount: Decimal | UnsetType = UNSET
    ledger_code: str = ""
    day_of_month: int | UnsetType = UNSET
    frequency: str | UnsetType = UNSET
    means: str
    start_date: date


class Reading(Wire, kw_only=True, omit_defaults=True):
    status: str = ""
    value: DecimalText
    type_of_read: str = ""
    origin: str = ""
    qualifier: str = ""
    read_at: datetime
    is_transfer_reading: bool | UnsetType = UNSET
    edifact_reference_number: str = ""


class SmgwConfiguration(Wire, kw_only=True, omit_defaults=True):
    """A configuration of the smart meter gateway."""

    configuration_id: str
    valid_from: datetime


class Register(Wire, kw_only=True, omit_defaults=True):
    obis_code: str
    digits: int | UnsetType = UNSET
    decimal_places: int | UnsetType = UNSET
    is_relevant_for_billing: bool | UnsetType = UNSET
    active_from: datetime | UnsetType = UNSET
    active_to: datetime | None = None
    readings: tuple[Reading, ...] = ()
    smgw_configurations: tuple[SmgwConfiguration, ...] = ()


class Meter(Wire, kw_only=True, omit_defaults=True):
    meter_number: str
    meter_type: str = ""
    meter_sub_type: str = ""
    messwerterfassung: str = ""
    energierichtung: str = ""
    fernschaltung: str = ""
    registeranzahl: str = ""
    active_from: datetime
    active_to: datetime | None = None
    registers: tuple[Register, ...] = ()


class ElectricityMeterGateway(Wire, kw_only=True, omit_defaults=True):
    number: str
    communication_method: str = ""
    valid_from: datetime
    valid_to: datetime | None = None


class ConversionFactor(Wire, kw_only=True, omit_defaults=True):
    """Gas: calorific value (Brennwert, kWh/m³) and condition value (Zustandszahl). Electricity: factor."""

    active_from_date: date
    active_to_date: date | None = None
    edifact_reference_number: str = ""
    calorific_value: DecimalText = ""
    condition_value: DecimalText = ""
    factor: DecimalText = ""


class Melo(Wire, kw_only=True, omit_defaults=True):
    """A metering location."""

    melo_number: str
    meters: tuple[Meter, ...] = ()
    conversion_factors: tuple[ConversionFactor, ...] = ()
    electricity_meter_gateways: tuple[ElectricityMeterGateway, ...] = ()


class GasSupplyPointLoadProfile(Wire, kw_only=True, omit_defaults=True):
    valid_from: datetime
    valid_to: datetime | None = None
    tum_kundenwert: str = ""
    jahresmenge_kwh: str = ""
    marktgebiet: str = ""
    profilname: str = ""
    bilanzierungsverfahren: str = ""
    druckebene: str = ""
    gas_quality: str = ""
    prognosegrundlage: str = ""
    fallgruppenzuordnung: str = ""
    netznutzungsvertrag_type: str = ""
    netznutzungszahlung: str = ""
    netznutzungsabrechnungsvariante: str = ""
    tagesparameter_type: str = ""
    tagesparameter_location: str = ""
    tagesparameter_provider: str = ""
    bilanzkreis: str = ""


class ElectricitySupplyPointLoadProfile(Wire, kw_only=True, omit_defaults=True):
    valid_from: datetime
    valid_to: datetime | None = None
    smgw_wahlrecht: bool | UnsetType = UNSET
    bilanzierungsgebiet: str = ""
    regelzone: str = ""
    aggregationsverantwortung: str = ""
    lieferrichtung: str = ""
    prognosegrundlage_werte_profile: str = ""
    prognosegrundlage_slp_tlp: str = ""
    slp_profilname: str = ""
    slp_bilanzierungsverfahren: str = ""
    slp_jvp_kwh: str = ""
    tlp_profilname: str = ""
    tlp_bilanzierungsverfahren: str = ""
    tlp_profilschar: str = ""
    tlp_jvp_spezifische_arbeit_265_kwhk: str = ""
    tlp_jvp_angepasste_elektrische_arbeit_z08_kwh: str = ""
    tlp_klima_temperatur_typ: str = ""
    tlp_klima_temperatur_kennzeichnung: str = ""
    tlp_klima_temperatur_codeliste: str = ""
    tlp_klima_temperatur_codepflege: str = ""
    smgw_wahlrecht_grund_ablehnung: str = ""
    summenzeitreihentyp: str = ""
    bilanzkreis: str = ""
    spannungsebene: str = ""
    umspannung: str = ""
    abwicklungsmodell: str = ""


class SignUpReward(Wire, kw_only=True, omit_defaults=True):
    amount: DecimalText
    scheme_name: str


class AgreementParams(Wire, kw_only=True, omit_defaults=True):
    """Prices in euros and consumptions in kWh, as agreed; `network_charges` is any JSON object."""

    annual_consumption: DecimalText = ""
    annual_nighttime_usage: DecimalText = ""
    unit_rate_per_kwh: DecimalText = ""
    net_unit_rate_per_kwh: DecimalText = ""
    night_unit_rate_per_kwh: DecimalText = ""
    net_night_unit_rate_per_kwh: DecimalText = ""
    monthly_standing_charge: DecimalText = ""
    net_monthly_standing_charge: DecimalText = ""
    total_estimated_annual_bill_in_euros: DecimalText = ""
    network_charges: dict[str, Any] | UnsetType = UNSET


class Agreement(Wire, kw_only=True, omit_defaults=True):
    effective_from: date
    effective_to: date | None = None
    agreed_at: datetime | UnsetType = UNSET
    product_code: str
    sign_up_reward: SignUpReward | UnsetType = UNSET
    params: AgreementParams | UnsetType = UNSET


class Operator(Wire, kw_only=True, omit_defaults=True):
    """A market partner that operates the meter, the network or the transmission system for a time."""

    code: str
    valid_from: datetime
    valid_to: datetime | None = None


class BalancingPeriodTimeSlice(Wire, kw_only=True, omit_defaults=True):
    valid_from: date
    valid_to: date | None = None
    balancing_group: str


class BalancingPeriod(Wire, kw_only=True, omit_defaults=True):
    valid_from: datetime
    valid_to: datetime | None = None
    balancing_period_time_slices: tuple[BalancingPeriodTimeSlice, ...] = ()


class Article(Wire, kw_only=True, omit_defaults=True):
    article_id: str
    article_type: str = ""
    period_start_at: datetime | UnsetType = UNSET
    period_end_at: datetime | None = None
    quantity: DecimalText = ""
    municipal_rebate_percent: DecimalText = ""
    adjustment_type: str = ""
    adjustment_percent: DecimalText = ""
    number_of_individual_assets: DecimalText = ""
    price_per_individual_asset_per_day: DecimalText = ""
    time_of_use_definition: DecimalText = ""
    time_of_use_register: DecimalText = ""
    custom_price: DecimalText = ""
    custom_price_quantity: DecimalText = ""
    custom_price_quantity_unit: str = ""


class SupplyPoint(Wire, kw_only=True, omit_defaults=True):
    identifier: str
    agreements: tuple[Agreement, ...] = ()
    supply_type: str
    supply_start_date: date
    supply_end_date: date | None = None
    supply_start_type: str = ""
    melos: tuple[Melo, ...] = ()
    previous_supplier_id: str = ""
    last_billed_to_date: date | UnsetType = UNSET
    balancing_periods: tuple[BalancingPeriod, ...] = ()
    meter_operators: tuple[Operator, ...] = ()
    network_operators: tuple[Operator, ...] = ()
    transmission_system_operators: tuple[Operator, ...] = ()
    articles: tuple[Article, ...] = ()
    gas_supply_point_load_profiles: tuple[GasSupplyPointLoadProfile, ...] = ()
    electricity_supply_point_load_profiles: tuple[ElectricitySupplyPointLoadProfile, ...] = ()


class SupplyAddress(Wire, kw_only=True, omit_defaults=True):
    supply_address1: str
    supply_address2: str = ""
    supply_address3: str = ""
    supply_address4: str = ""
    supply_postcode: str
    customer_at_supply_address_from_date: date
    supply_points: tuple[SupplyPoint, ...]


class Reference(Wire, kw_only=True, omit_defaults=True):
    namespace: str
    value: str


class AccountCampaign(Wire, kw_only=True, omit_defaults=True):
    slug: str
    campaign_note: str = ""


class MetadataItem(Wire, kw_only=True, omit_defaults=True):
    key: str
    value: Any


class Note(Wire, kw_only=True, omit_defaults=True):
    created_at: datetime | UnsetType = UNSET
    body: str
    is_pinned: bool | UnsetType = UNSET


class Account(Wire, kw_only=True, omit_defaults=True):
    external_account_number: str
    import_supplier: str
    unknown_occupier: bool = False
    customers: tuple[Customer, ...] = ()
    billing_address1: str = ""
    billing_address2: str = ""
    billing_address3: str = ""
    billing_address4: str = ""
    billing_postcode: str = ""
    sales_channel: str = ""
    sales_subchannel: str = ""
    supply_addresses: tuple[SupplyAddress, ...] = ()
    transfer_balance: DecimalText = ""
    references: tuple[Reference, ...] = ()
    statements: tuple[Statement, ...] = ()
    ledgers: tuple[Ledger, ...] = ()
    payment_instructions: tuple[PaymentInstruction, ...] = ()
    payment_schedules: tuple[PaymentSchedule, ...] = ()
    account_campaigns: tuple[AccountCampaign, ...] = ()
    metadata: tuple[MetadataItem, ...] = ()
    notes: tuple[Note, ...] = ()


class TaskParams(Wire, kw_only=True, omit_defaults=True):
    """How to process: as a dry run, and within which window of time."""

    is_dry_run: bool = False
    schedule_window_start: datetime | None = None
    schedule_window_end: datetime | None = None


class WrappedAccount(Wire, kw_only=True, omit_defaults=True):
    """The second accepted form of an account: with how to process it."""

    payload: Account
    task_params: TaskParams = field(default_factory=TaskParams)
