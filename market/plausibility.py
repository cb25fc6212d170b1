"""Warnings for implausible values: dates far away, readings that run backwards, prices in cents.

All rules of this module are warnings: the account is accepted, and the importer reads the warnings.
"""

# ruff: noqa: SIM110 - a loop is faster than a generator, and every account is checked

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from itertools import pairwise
from operator import attrgetter

from msgspec import UNSET

from market.rule import Rule, inlined, reading, warning
from schemas.base import MARKET_TIME
from schemas.meter import Meter, Register
from schemas.supply import SupplyAddress, SupplyPoint

OLDEST_YEARS = 120
MAX_DAYS_AHEAD = timedelta(days=2 * 366)
MAX_UNIT_RATE = Decimal(5)
"""Euros per kWh. A higher price is probably in cents."""
UNASSIGNED_REGIONS = ("00", "05", "43", "62")
"""First digits that no German postcode has."""
DAY = timedelta(days=1)
_read_at = attrgetter("read_at")
OBIS_MEDIA = {"ELECTRICITY": "1-", "GAS": "7-"}
_REGISTERS = {"EINTARIF": 1, "ZWEITARIF": 2}

_POINT = "supply_addresses[].supply_points[]"
_METER = f"{_POINT}.melos[].meters[]"
_REGISTER = f"{_METER}.registers[]"


def today_in_germany(now: datetime) -> date:
    if now.tzinfo is UTC and now.hour < 22:  # German time is one or two hours ahead of UTC
        return now.date()
    return now.astimezone(MARKET_TIME).date()


_past_year = inlined("{v}.year < now.year or {holds}({v}, now)")
"""Compares years before days, because most dates are in past years."""


@_past_year
def _is_not_after_today(day: date, now: datetime) -> bool:
    return day <= today_in_germany(now)


@_past_year
def _is_past(moment: datetime, now: datetime) -> bool:
    return moment.year < now.year or moment <= now


def _is_within_a_lifetime(day: date, now: datetime) -> bool:
    return day.year >= now.year - OLDEST_YEARS


@_past_year
def _is_not_far_ahead(day: date, now: datetime) -> bool:
    return day <= today_in_germany(now) + MAX_DAYS_AHEAD


def _is_not_negative(number: Decimal | int) -> bool:
    """Return True for a number without minus sign. The shape check refuses numbers that are not finite."""
    return not Decimal(number).is_signed()


@inlined("{v}[0] != '-' or {holds}({v})")
def _has_no_sign(number: str) -> bool:
    return not number.startswith("-") or Decimal(number) == 0


@inlined("({v}[0] < '5' and {v}[1:2] == '.') or {holds}({v})")
def _is_price_in_euros(number: str) -> bool:
    return Decimal(number) <= MAX_UNIT_RATE


def _is_assigned(postcode: str) -> bool:
    """Return True if the postcode is in an assigned range.

    Also True for a text without five digits, which another rule reports.
    """
    return not (len(postcode) == 5 and postcode.isdigit()) or not postcode.startswith(UNASSIGNED_REGIONS)


def _between(low: str, high: str) -> Callable[[str], bool]:
    least, most = Decimal(low), Decimal(high)
    return lambda number: least <= Decimal(number) <= most


_is_calorific_value = _between("5", "15")
_is_condition_value = _between("0.5", "2")


@reading("customer_at_supply_address_from_date", "supply_points[].supply_start_date")
def _supplied_after_moving_in(address: SupplyAddress) -> bool:
    since = address.customer_at_supply_address_from_date
    for point in address.supply_points:
        if point.supply_start_date < since:
            return False
    return True


@reading("supply_end_date", "agreements[].effective_from")
def _agreed_before_the_end(point: SupplyPoint) -> bool:
    end = point.supply_end_date
    return not end or all(agreement.effective_from <= end for agreement in point.agreements)


@reading("supply_start_date", "last_billed_to_date")
def _billed_since_the_start(point: SupplyPoint) -> bool:
    billed = point.last_billed_to_date
    return billed is UNSET or billed.toordinal() + 1 >= point.supply_start_date.toordinal()


@reading("supply_type", "melos[].meters[].registers[].obis_code")
def _obis_codes_fit_commodity(point: SupplyPoint) -> bool:
    """Return True if no OBIS code names another medium than the supplied one.

    Another rule reports codes that name no medium.
    """
    medium = OBIS_MEDIA[point.supply_type]
    for melo in point.melos:
        for meter in melo.meters:
            for register in meter.registers:
                code = register.obis_code
                if not code.startswith(medium) and code.startswith(tuple(OBIS_MEDIA.values())):
                    return False
    return True


@reading("registeranzahl", "energierichtung", "registers[].active_to")
def _register_count_fits_tariffs(meter: Meter) -> bool:
    """Return True if a meter for one direction has as many active registers as its type says, or no registers.

    True for all other meters.
    """
    expected = _REGISTERS.get(meter.registeranzahl)
    if expected is None or meter.energierichtung != "EINRICHTUNGSZAEHLER" or not meter.registers:
        return True
    return len([register for register in meter.registers if not register.active_to]) in (0, expected)


@reading("digits", "readings[].value")
def _fits_its_digits(register: Register) -> bool:
    digits = register.digits
    if digits is not UNSET:
        for meter_reading in register.readings:
            value = meter_reading.value
            if len(value) > digits and abs(int(Decimal(value))) >= 10**digits:
                return False
    return True


@reading("digits", "readings[].value", "readings[].read_at")
def _runs_forward(register: Register) -> bool:
    """Return True if no reading is smaller than the previous one, unless the register has turned over between them.

    A turnover is assumed if the consumption is then less than half of the register's capacity.
    """
    readings, digits = register.readings, register.digits
    for earlier, later in pairwise(readings):
        if later.read_at < earlier.read_at or float(later.value) <= float(earlier.value):
            break
    else:
        return True
    in_order = sorted(readings, key=_read_at)
    return all(
        float(earlier.value) < float(later.value)
        or (decrease := Decimal(earlier.value) - Decimal(later.value)) <= 0
        or (digits is not UNSET and 2 * decrease > 10**digits)
        for earlier, later in pairwise(in_order)
    )


@reading("active_from", "active_to", "readings[].read_at")
def _read_while_active(register: Register) -> bool:
    """Return True if the register was active on the days of its readings. One day of tolerance for a meter change."""
    first, last = register.active_from, register.active_to
    for meter_reading in register.readings:
        if (first is not UNSET and first - meter_reading.read_at >= DAY) or (
            last and meter_reading.read_at - last >= DAY
        ):
            return False
    return True


_warning = partial(warning, source="ours: plausibility of migrated data")


def _past_day(at: str, english: str, german: str) -> Rule:
    return _warning("date_in_future", at, _is_not_after_today, english, german, needs_now=True)


def _not_far_ahead(at: str, noun: str, nomen: str) -> Rule:
    return _warning(
        "date_far_in_future",
        at,
        _is_not_far_ahead,
        f"{noun} must not be more than two years ahead.",
        f"{nomen} darf nicht mehr als zwei Jahre in der Zukunft liegen.",
        needs_now=True,
    )


def _postcode(at: str) -> Rule:
    return _warning(
        "unassigned_postcode",
        at,
        _is_assigned,
        "A German postcode must not begin with 00, 05, 43 or 62.",
        "Eine deutsche Postleitzahl darf nicht mit 00, 05, 43 oder 62 beginnen.",
        source="Deutsche Post, Leitfaden zur Postleitzahl",
    )


PLAUSIBILITY: tuple[Rule, ...] = (
    _past_day(
        "customers[].date_of_birth",
        "A date of birth must not lie in the future.",
        "Ein Geburtsdatum darf nicht in der Zukunft liegen.",
    ),
    _warning(
        "implausible_date_of_birth",
        "customers[].date_of_birth",
        _is_within_a_lifetime,
        f"A customer must be born within the last {OLDEST_YEARS} years.",
        f"Ein Kunde muss in den letzten {OLDEST_YEARS} Jahren geboren sein.",
        needs_now=True,
    ),
    _postcode("billing_postcode"),
    _postcode("supply_addresses[].supply_postcode"),
    _not_far_ahead("supply_addresses[].customer_at_supply_address_from_date", "The move-in day", "Das Einzugsdatum"),
    _warning(
        "supply_before_move_in",
        "supply_addresses[]",
        _supplied_after_moving_in,
        "A customer must not be supplied before the move-in day.",
        "Ein Kunde darf nicht vor dem Einzugsdatum beliefert werden.",
    ),
    _not_far_ahead(f"{_POINT}.supply_start_date", "The start of the supply", "Der Lieferbeginn"),
    _not_far_ahead(f"{_POINT}.agreements[].effective_from", "The start of an agreement", "Der Vertragsbeginn"),
    _warning(
        "agreement_after_supply_end",
        _POINT,
        _agreed_before_the_end,
        "An agreement must begin before the supply ends.",
        "Ein Vertrag muss vor dem Ende der Belieferung beginnen.",
    ),
    _past_day(
        f"{_POINT}.last_billed_to_date",
        "The last billed day must not be in the future.",
        "Der letzte abgerechnete Tag darf nicht in der Zukunft liegen.",
    ),
    _warning(
        "billed_before_supply_start",
        _POINT,
        _billed_since_the_start,
        "The last billed day must not be before the start of the supply.",
        "Der letzte abgerechnete Tag darf nicht vor dem Lieferbeginn liegen.",
        field="last_billed_to_date",
    ),
    _warning(
        "obis_code_of_other_medium",
        _POINT,
        _obis_codes_fit_commodity,
        "A register for electricity must have an OBIS code with medium 1, a register for gas one with medium 7.",
        "Ein Zählwerk für Strom muss eine OBIS-Kennzahl mit dem Medium 1 haben, eines für Gas mit dem Medium 7.",
        source="EDI@Energy, Codeliste der OBIS-Kennzahlen und Medien 2.5c",
    ),
    _warning(
        "negative_number",
        f"{_POINT}.agreements[].params.annual_consumption",
        _has_no_sign,
        "A consumption must not be negative.",
        "Ein Verbrauch darf nicht negativ sein.",
    ),
    *(
        _warning(
            "implausible_unit_rate",
            f"{_POINT}.agreements[].params.{field}",
            _is_price_in_euros,
            f"A unit rate must not be above {MAX_UNIT_RATE} euros per kWh.",
            f"Ein Arbeitspreis darf nicht über {MAX_UNIT_RATE} Euro je kWh liegen.",
        )
        for field in (
            "unit_rate_per_kwh",
            "net_unit_rate_per_kwh",
            "night_unit_rate_per_kwh",
            "net_night_unit_rate_per_kwh",
        )
    ),
    _warning(
        "implausible_conversion_factor",
        f"{_POINT}.melos[].conversion_factors[].calorific_value",
        _is_calorific_value,
        "A calorific value must lie between 5 and 15 kWh per cubic metre.",
        "Ein Brennwert muss zwischen 5 und 15 kWh je Kubikmeter liegen.",
        source="DVGW G 260, gas families and their calorific values",
    ),
    _warning(
        "implausible_conversion_factor",
        f"{_POINT}.melos[].conversion_factors[].condition_value",
        _is_condition_value,
        "A condition value must lie between 0.5 and 2 at the pressures of supply to customers.",
        "Eine Zustandszahl muss bei den Drücken der Kundenversorgung zwischen 0,5 und 2 liegen.",
        source="DVGW G 685, conversion of gas volumes",
    ),
    _warning(
        "implausible_register_count",
        _METER,
        _register_count_fits_tariffs,
        "A meter for one direction must have as many active registers as tariffs.",
        "Ein Einrichtungszähler muss so viele aktive Zählwerke haben, wie seine Registeranzahl angibt.",
    ),
    _warning(
        "negative_reading",
        f"{_REGISTER}.readings[].value",
        _has_no_sign,
        "A meter reading must not be negative.",
        "Ein Zählerstand darf nicht negativ sein.",
    ),
    _warning(
        "date_in_future",
        f"{_REGISTER}.readings[].read_at",
        _is_past,
        "The day of a meter reading must not be in the future.",
        "Der Ablesetag eines Zählers darf nicht in der Zukunft liegen.",
        needs_now=True,
    ),
    _warning(
        "reading_exceeds_digits",
        _REGISTER,
        _fits_its_digits,
        "A reading must not have more digits before the point than its register.",
        "Ein Zählerstand darf höchstens so viele Vorkommastellen haben wie sein Zählwerk.",
    ),
    _warning(
        "readings_run_backwards",
        _REGISTER,
        _runs_forward,
        "A later meter reading must not be smaller than an earlier meter reading, unless the register has rolled over.",
        "Ein späterer Zählerstand darf nicht kleiner sein als ein früherer, außer nach einem Überlauf.",
    ),
    _warning(
        "reading_outside_active_period",
        _REGISTER,
        _read_while_active,
        "A register must be read while it is active.",
        "Ein Zählwerk muss abgelesen sein, solange es aktiv ist.",
    ),
    _past_day(
        "statements[].bill_period_to_date",
        "The billed period of a statement must not end in the future.",
        "Der abgerechnete Zeitraum einer Abrechnung darf nicht in der Zukunft enden.",
    ),
    _warning(
        "negative_number",
        "statements[].annual_consumption",
        _is_not_negative,
        "A consumption must not be negative.",
        "Ein Verbrauch darf nicht negativ sein.",
    ),
    _past_day(
        "ledgers[].last_statement_closing_date",
        "The closing date of a ledger's last statement must not be in the future.",
        "Das Abschlussdatum der letzten Abrechnung darf nicht in der Zukunft liegen.",
    ),
    _warning(
        "negative_number",
        "ledgers[].current_statement_transactions[].amount",
        _has_no_sign,
        "A transaction's amount must not be negative; its type names the direction.",
        "Der Betrag einer Buchung darf nicht negativ sein; ihr Typ nennt die Richtung.",
    ),
    _not_far_ahead(
        "payment_instructions[].valid_from", "The start of a payment instruction", "Der Beginn eines Zahlungswegs"
    ),
    _warning(
        "negative_number",
        "payment_schedules[].amount",
        _is_not_negative,
        "A payment schedule's amount must not be negative.",
        "Der Betrag eines Abschlagsplans darf nicht negativ sein.",
    ),
    _not_far_ahead(
        "payment_schedules[].start_date", "The start of a payment schedule", "Der Beginn eines Abschlagsplans"
    ),
    _warning(
        "date_in_future",
        "notes[].created_at",
        _is_past,
        "The time of a note must not be in the future.",
        "Der Zeitpunkt einer Notiz darf nicht in der Zukunft liegen.",
        needs_now=True,
    ),
)
