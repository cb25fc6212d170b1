"""Supply addresses (Lieferstellen), their supply points (Marktlokationen) and the agreements on them."""

from datetime import date
from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from schemas.base import MAX_ITEMS, AnyJson, DecimalText, Moment, Required, SupplyType, Text, Wire
from schemas.load_profile import ElectricitySupplyPointLoadProfile, GasSupplyPointLoadProfile
from schemas.meter import Melo


class SignUpReward(Wire, frozen=True, kw_only=True):
    amount: DecimalText
    scheme_name: Required


class AgreementParams(Wire, frozen=True, kw_only=True):
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
    network_charges: dict[str, AnyJson] | UnsetType = UNSET


class Agreement(Wire, frozen=True, kw_only=True):
    effective_from: date
    effective_to: date | None = None
    agreed_at: Moment | UnsetType = UNSET
    product_code: Required
    sign_up_reward: SignUpReward | UnsetType = UNSET
    params: AgreementParams | UnsetType = UNSET


class Operator(Wire, frozen=True, kw_only=True):
    """A market partner that operates the meter, the network or the transmission system for a time."""

    code: Required
    valid_from: Moment
    valid_to: Moment | None = None


class BalancingPeriodTimeSlice(Wire, frozen=True, kw_only=True):
    valid_from: date
    valid_to: date | None = None
    balancing_group: Required


class BalancingPeriod(Wire, frozen=True, kw_only=True):
    valid_from: Moment
    valid_to: Moment | None = None
    balancing_period_time_slices: Annotated[tuple[BalancingPeriodTimeSlice, ...], Meta(max_length=MAX_ITEMS)] = ()


class Article(Wire, frozen=True, kw_only=True):
    article_id: Required
    article_type: Text = ""
    period_start_at: Moment | UnsetType = UNSET
    period_end_at: Moment | None = None
    quantity: DecimalText = ""
    municipal_rebate_percent: DecimalText = ""
    adjustment_type: Text = ""
    adjustment_percent: DecimalText = ""
    number_of_individual_assets: DecimalText = ""
    price_per_individual_asset_per_day: DecimalText = ""
    time_of_use_definition: DecimalText = ""
    time_of_use_register: DecimalText = ""
    custom_price: DecimalText = ""
    custom_price_quantity: DecimalText = ""
    custom_price_quantity_unit: Text = ""


class SupplyPoint(Wire, frozen=True, kw_only=True):
    identifier: Required
    agreements: Annotated[tuple[Agreement, ...], Meta(max_length=MAX_ITEMS)] = ()
    supply_type: SupplyType
    supply_start_date: date
    supply_end_date: date | None = None
    supply_start_type: Text = ""
    melos: Annotated[tuple[Melo, ...], Meta(max_length=MAX_ITEMS)] = ()
    previous_supplier_id: Text = ""
    last_billed_to_date: date | UnsetType = UNSET
    balancing_periods: Annotated[tuple[BalancingPeriod, ...], Meta(max_length=MAX_ITEMS)] = ()
    meter_operators: Annotated[tuple[Operator, ...], Meta(max_length=MAX_ITEMS)] = ()
    network_operators: Annotated[tuple[Operator, ...], Meta(max_length=MAX_ITEMS)] = ()
    transmission_system_operators: Annotated[tuple[Operator, ...], Meta(max_length=MAX_ITEMS)] = ()
    articles: Annotated[tuple[Article, ...], Meta(max_length=MAX_ITEMS)] = ()
    gas_supply_point_load_profiles: Annotated[tuple[GasSupplyPointLoadProfile, ...], Meta(max_length=MAX_ITEMS)] = ()
    electricity_supply_point_load_profiles: Annotated[
        tuple[ElectricitySupplyPointLoadProfile, ...], Meta(max_length=MAX_ITEMS)
    ] = ()


class SupplyAddress(Wire, frozen=True, kw_only=True):
    supply_address1: Required
    supply_address2: Text = ""
    supply_address3: Text = ""
    supply_address4: Text = ""
    supply_postcode: Annotated[str, Meta(min_length=1, max_length=10)]
    customer_at_supply_address_from_date: date
    supply_points: Annotated[tuple[SupplyPoint, ...], Meta(max_length=MAX_ITEMS)]
