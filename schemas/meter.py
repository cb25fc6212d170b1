"""Metering locations (Messlokationen), their meters, registers and readings."""

from datetime import date
from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from schemas.base import MAX_ITEMS, DecimalText, LocalMoment, Moment, Required, Text, Wire


class Reading(Wire, frozen=True, kw_only=True):
    status: Text = ""
    """Status of the reading (Status des Zählerstands)."""
    value: DecimalText
    """The reading (Zählerstand), in the register's unit."""
    type_of_read: Text = ""
    """Kind of reading (Ableseart)."""
    origin: Text = ""
    """Origin of the reading (Herkunft)."""
    qualifier: Text = ""
    """Qualifier of the value (Wertqualifier), such as read or estimated."""
    read_at: Moment
    """Time of the reading (Ablesezeitpunkt)."""
    is_transfer_reading: bool | UnsetType = UNSET
    """True for the reading at the transfer (Übergabestand)."""
    edifact_reference_number: Text = ""
    """Reference of the EDIFACT message that the data came with (EDIFACT-Referenznummer)."""


class SmgwConfiguration(Wire, frozen=True, kw_only=True):
    """A configuration of the smart meter gateway."""

    configuration_id: Required
    """Identifier of the configuration (Konfigurations-ID des Smart-Meter-Gateways)."""
    valid_from: LocalMoment
    """First moment of validity (gültig ab)."""


class Register(Wire, frozen=True, kw_only=True):
    obis_code: Required
    """OBIS code of the measured value (OBIS-Kennzahl), A-B:C.D.E."""
    digits: Annotated[int, Meta(ge=1, le=32)] | UnsetType = UNSET
    """Digits before the point (Vorkommastellen)."""
    decimal_places: Annotated[int, Meta(ge=0, le=10)] | UnsetType = UNSET
    """Digits after the point (Nachkommastellen)."""
    is_relevant_for_billing: bool | UnsetType = UNSET
    """True if the register is billed (abrechnungsrelevant)."""
    active_from: Moment | UnsetType = UNSET
    """First moment of activity (aktiv ab)."""
    active_to: Moment | None = None
    """End of activity (aktiv bis); null while it is active."""
    readings: Annotated[tuple[Reading, ...], Meta(max_length=MAX_ITEMS)] = ()
    """The meter readings (Zählerstände)."""
    smgw_configurations: Annotated[tuple[SmgwConfiguration, ...], Meta(max_length=MAX_ITEMS)] = ()
    """Configurations of the gateway (Konfigurationen des Smart-Meter-Gateways)."""


class Meter(Wire, frozen=True, kw_only=True):
    meter_number: Required
    """Number of the meter (Zählernummer)."""
    meter_type: Text = ""
    """Kind of meter (Zählertyp)."""
    meter_sub_type: Text = ""
    """Subdivision of the meter type (Zählerausprägung)."""
    messwerterfassung: Text = ""
    """Method of reading (Messwerterfassung), on site or remotely."""
    energierichtung: Text = ""
    """Directions of energy that the meter counts (Energierichtung)."""
    fernschaltung: Text = ""
    """Remote switching of the meter (Fernschaltung), as text."""
    registeranzahl: Text = ""
    """Number of tariffs of the meter (Registeranzahl): EINTARIF, ZWEITARIF."""
    active_from: Moment
    """First moment of activity (aktiv ab)."""
    active_to: Moment | None = None
    """End of activity (aktiv bis); null while it is active."""
    registers: Annotated[tuple[Register, ...], Meta(max_length=MAX_ITEMS)] = ()
    """The registers (Zählwerke)."""


class ElectricityMeterGateway(Wire, frozen=True, kw_only=True):
    number: Required
    """Number of the gateway (Gerätenummer des Smart-Meter-Gateways)."""
    communication_method: Text = ""
    """Type of communication (Kommunikationsart)."""
    valid_from: Moment
    """First moment of validity (gültig ab)."""
    valid_to: Moment | None = None
    """End of validity (gültig bis); null while it is open."""


class ConversionFactor(Wire, frozen=True, kw_only=True):
    """Gas: calorific value (Brennwert, kWh/m³) and condition value (Zustandszahl). Electricity: factor."""

    active_from_date: date
    """First day of validity (gültig ab)."""
    active_to_date: date | None = None
    """Last day of validity (gültig bis); null while it is open."""
    edifact_reference_number: Text = ""
    """Reference of the EDIFACT message that the data came with (EDIFACT-Referenznummer)."""
    calorific_value: DecimalText = ""
    """Calorific value in kWh per cubic metre (Brennwert)."""
    condition_value: DecimalText = ""
    """Condition value (Zustandszahl), without unit."""
    factor: DecimalText = ""
    """Product of calorific value and condition value in kWh per cubic metre (Umrechnungsfaktor)."""


class Melo(Wire, frozen=True, kw_only=True):
    """A metering location."""

    melo_number: Required
    """Metering location identifier (Messlokation, MeLo-ID): 33 characters."""
    meters: Annotated[tuple[Meter, ...], Meta(max_length=MAX_ITEMS)] = ()
    """The meters (Zähler)."""
    conversion_factors: Annotated[tuple[ConversionFactor, ...], Meta(max_length=MAX_ITEMS)] = ()
    """Factors from cubic metres to kWh (Umrechnungsfaktoren), for gas."""
    electricity_meter_gateways: Annotated[tuple[ElectricityMeterGateway, ...], Meta(max_length=MAX_ITEMS)] = ()
    """Smart meter gateways (Smart-Meter-Gateways)."""
