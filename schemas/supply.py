"""Supply addresses (Lieferstellen), their supply points (Marktlokationen) and the agreements on them."""

from datetime import date
from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from schemas.base import MAX_ITEMS, AnyJson, DecimalText, Moment, Required, SupplyType, Text, Wire
from schemas.load_profile import ElectricitySupplyPointLoadProfile, GasSupplyPointLoadProfile
from schemas.meter import Melo


class SignUpReward(Wire, frozen=True, kw_only=True):
    amount: DecimalText
    """Amount of the reward in euros (Neukundenbonus)."""
    scheme_name: Required
    """Name of the reward (Name der Bonusaktion)."""


class AgreementParams(Wire, frozen=True, kw_only=True):
    """Prices in euros and consumptions in kWh, as agreed; `network_charges` is any JSON object."""

    annual_consumption: DecimalText = ""
    """Consumption of a year in kWh (Jahresverbrauch)."""
    annual_nighttime_usage: DecimalText = ""
    """Consumption of a year at night, in kWh (Jahresverbrauch im Niedertarif)."""
    unit_rate_per_kwh: DecimalText = ""
    """Gross price in euros per kWh (Arbeitspreis brutto)."""
    net_unit_rate_per_kwh: DecimalText = ""
    """Net price in euros per kWh (Arbeitspreis netto)."""
    night_unit_rate_per_kwh: DecimalText = ""
    """Gross price at night in euros per kWh (Arbeitspreis Niedertarif brutto)."""
    net_night_unit_rate_per_kwh: DecimalText = ""
    """Net price at night in euros per kWh (Arbeitspreis Niedertarif netto)."""
    monthly_standing_charge: DecimalText = ""
    """Gross standing charge of a month in euros (Grundpreis brutto)."""
    net_monthly_standing_charge: DecimalText = ""
    """Net standing charge of a month in euros (Grundpreis netto)."""
    total_estimated_annual_bill_in_euros: DecimalText = ""
    """Estimated bill of a year in euros (geschätzte Jahreskosten)."""
    network_charges: dict[str, AnyJson] | UnsetType = UNSET
    """Charges of the grid by name (Netzentgelte)."""


class Agreement(Wire, frozen=True, kw_only=True):
    effective_from: date
    """First day of the agreement (Vertragsbeginn)."""
    effective_to: date | None = None
    """Last day of the agreement, or the first day after it (Vertragsende); null without an end."""
    agreed_at: Moment | UnsetType = UNSET
    """Time of the agreement (Vertragsabschluss)."""
    product_code: Required
    """Code of the product (Produkt, Tarif)."""
    sign_up_reward: SignUpReward | UnsetType = UNSET
    """Reward for signing (Neukundenbonus)."""
    params: AgreementParams | UnsetType = UNSET
    """Consumption and prices (Vertragsparameter)."""


class Operator(Wire, frozen=True, kw_only=True):
    """A market partner that operates the meter, the network or the transmission system for a time."""

    code: Required
    """Market partner code (Marktpartner-ID) of the operator: 13 digits."""
    valid_from: Moment
    """First moment of validity (gültig ab)."""
    valid_to: Moment | None = None
    """End of validity (gültig bis); null while it is open."""


class BalancingPeriodTimeSlice(Wire, frozen=True, kw_only=True):
    valid_from: date
    """First day of the slice (gültig ab)."""
    valid_to: date | None = None
    """Last day of the slice (gültig bis); null while it is open."""
    balancing_group: Required
    """Balancing group (Bilanzkreis), an EIC for electricity."""


class BalancingPeriod(Wire, frozen=True, kw_only=True):
    valid_from: Moment
    """First moment of validity (gültig ab)."""
    valid_to: Moment | None = None
    """End of validity (gültig bis); null while it is open."""
    balancing_period_time_slices: Annotated[tuple[BalancingPeriodTimeSlice, ...], Meta(max_length=MAX_ITEMS)] = ()
    """Balancing groups in the order of time (Zeitscheiben der Bilanzierung)."""


class Article(Wire, frozen=True, kw_only=True):
    article_id: Required
    """Identifier of the article (Artikel-ID) in the code list of articles (Codeliste der Artikelnummern)."""
    article_type: Text = ""
    """Kind of article (Artikeltyp)."""
    period_start_at: Moment | UnsetType = UNSET
    """Beginning of the period (Beginn des Zeitraums)."""
    period_end_at: Moment | None = None
    """End of the period (Ende des Zeitraums)."""
    quantity: DecimalText = ""
    """The quantity (Menge)."""
    municipal_rebate_percent: DecimalText = ""
    """Rebate for municipalities in percent (Gemeinderabatt)."""
    adjustment_type: Text = ""
    """Kind of surcharge or rebate (Art des Zu- oder Abschlags)."""
    adjustment_percent: DecimalText = ""
    """Surcharge or rebate in percent (Zu- oder Abschlag)."""
    number_of_individual_assets: DecimalText = ""
    """Number of assets (Anzahl der Betriebsmittel)."""
    price_per_individual_asset_per_day: DecimalText = ""
    """Price of an asset a day (Preis je Betriebsmittel und Tag)."""
    time_of_use_definition: DecimalText = ""
    """Definition of times of use (Zählzeitdefinition)."""
    time_of_use_register: DecimalText = ""
    """Register of times of use (Zählzeitregister)."""
    custom_price: DecimalText = ""
    """Individual price (individueller Preis)."""
    custom_price_quantity: DecimalText = ""
    """Quantity of the individual price (Bezugsmenge des individuellen Preises)."""
    custom_price_quantity_unit: Text = ""
    """Unit of `custom_price_quantity` (Einheit der Bezugsmenge)."""


class SupplyPoint(Wire, frozen=True, kw_only=True):
    identifier: Required
    """Market location identifier (Marktlokation, MaLo-ID): 11 digits with check digit."""
    agreements: Annotated[tuple[Agreement, ...], Meta(max_length=MAX_ITEMS)] = ()
    """The agreements of the supply (Lieferverträge), without gap or overlap."""
    supply_type: SupplyType
    """Commodity, GAS or ELECTRICITY (Sparte)."""
    supply_start_date: date
    """First day of the supply (Lieferbeginn)."""
    supply_end_date: date | None = None
    """Last day of the supply (Lieferende); null without an end."""
    supply_start_type: Text = ""
    """Reason of the start (Grund des Lieferbeginns), such as MOVE_IN."""
    melos: Annotated[tuple[Melo, ...], Meta(max_length=MAX_ITEMS)] = ()
    """Metering locations (Messlokationen)."""
    previous_supplier_id: Text = ""
    """Market partner code of the previous supplier (Marktpartner-ID des Vorlieferanten)."""
    last_billed_to_date: date | UnsetType = UNSET
    """Day up to which the old system has billed (abgerechnet bis)."""
    balancing_periods: Annotated[tuple[BalancingPeriod, ...], Meta(max_length=MAX_ITEMS)] = ()
    """Periods of balancing (Bilanzierungszeiträume)."""
    meter_operators: Annotated[tuple[Operator, ...], Meta(max_length=MAX_ITEMS)] = ()
    """Metering point operators (Messstellenbetreiber)."""
    network_operators: Annotated[tuple[Operator, ...], Meta(max_length=MAX_ITEMS)] = ()
    """Grid operators (Netzbetreiber)."""
    transmission_system_operators: Annotated[tuple[Operator, ...], Meta(max_length=MAX_ITEMS)] = ()
    """Transmission system operators (Übertragungsnetzbetreiber)."""
    articles: Annotated[tuple[Article, ...], Meta(max_length=MAX_ITEMS)] = ()
    """Articles that the grid operator bills (Artikel der Netznutzung)."""
    gas_supply_point_load_profiles: Annotated[tuple[GasSupplyPointLoadProfile, ...], Meta(max_length=MAX_ITEMS)] = ()
    """Load profiles for gas (Lastprofile Gas)."""
    electricity_supply_point_load_profiles: Annotated[
        tuple[ElectricitySupplyPointLoadProfile, ...], Meta(max_length=MAX_ITEMS)
    ] = ()
    """Load profiles for electricity (Lastprofile Strom)."""


class SupplyAddress(Wire, frozen=True, kw_only=True):
    supply_address1: Required
    """First line of the supply address (Lieferstelle, Verbrauchsstelle)."""
    supply_address2: Text = ""
    """Second line of the supply address (Lieferstelle)."""
    supply_address3: Text = ""
    """Third line of the supply address (Lieferstelle)."""
    supply_address4: Text = ""
    """Fourth line of the supply address (Lieferstelle)."""
    supply_postcode: Required
    """Postcode of the supply address (Postleitzahl): five digits."""
    customer_at_supply_address_from_date: date
    """First day of the customer at the address (Einzugsdatum)."""
    supply_points: Annotated[tuple[SupplyPoint, ...], Meta(max_length=MAX_ITEMS)]
    """Market locations of the address (Marktlokationen)."""
