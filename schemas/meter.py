"""Metering locations (Messlokationen), their meters, registers and readings."""

from datetime import date
from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from schemas.base import MAX_ITEMS, DecimalText, LocalMoment, Moment, Required, Required32, Text, Wire


class Reading(Wire, frozen=True, kw_only=True):
    status: Text = ""
    value: DecimalText
    type_of_read: Text = ""
    origin: Text = ""
    qualifier: Text = ""
    read_at: Moment
    is_transfer_reading: bool | UnsetType = UNSET
    edifact_reference_number: Text = ""


class SmgwConfiguration(Wire, frozen=True, kw_only=True):
    """A configuration of the smart meter gateway."""

    configuration_id: Required
    valid_from: LocalMoment


class Register(Wire, frozen=True, kw_only=True):
    obis_code: Required
    digits: Annotated[int, Meta(ge=1, le=32)] | UnsetType = UNSET
    decimal_places: Annotated[int, Meta(ge=0, le=10)] | UnsetType = UNSET
    is_relevant_for_billing: bool | UnsetType = UNSET
    active_from: Moment | UnsetType = UNSET
    active_to: Moment | None = None
    readings: Annotated[tuple[Reading, ...], Meta(max_length=MAX_ITEMS)] = ()
    smgw_configurations: Annotated[tuple[SmgwConfiguration, ...], Meta(max_length=MAX_ITEMS)] = ()


class Meter(Wire, frozen=True, kw_only=True):
    meter_number: Required32
    meter_type: Text = ""
    meter_sub_type: Text = ""
    messwerterfassung: Text = ""
    energierichtung: Text = ""
    fernschaltung: Text = ""
    registeranzahl: Text = ""
    active_from: Moment
    active_to: Moment | None = None
    registers: Annotated[tuple[Register, ...], Meta(max_length=MAX_ITEMS)] = ()


class ElectricityMeterGateway(Wire, frozen=True, kw_only=True):
    number: Required
    communication_method: Text = ""
    valid_from: Moment
    valid_to: Moment | None = None


class ConversionFactor(Wire, frozen=True, kw_only=True):
    """Gas: calorific value (Brennwert, kWh/m³) and condition value (Zustandszahl). Electricity: factor."""

    active_from_date: date
    active_to_date: date | None = None
    edifact_reference_number: Text = ""
    calorific_value: DecimalText = ""
    condition_value: DecimalText = ""
    factor: DecimalText = ""


class Melo(Wire, frozen=True, kw_only=True):
    """A metering location."""

    melo_number: Required
    meters: Annotated[tuple[Meter, ...], Meta(max_length=MAX_ITEMS)] = ()
    conversion_factors: Annotated[tuple[ConversionFactor, ...], Meta(max_length=MAX_ITEMS)] = ()
    electricity_meter_gateways: Annotated[tuple[ElectricityMeterGateway, ...], Meta(max_length=MAX_ITEMS)] = ()
