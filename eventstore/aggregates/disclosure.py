"""Disclosures: which user was shown personal data of an account in clear. One stream for each account. Pure.

The console masks persons until a user asks for them with a reason. The event names the user, the parts that were shown
and the id of the reason. The text of the reason is a row that is deleted with the person
(`projections.auxiliary.typed_reasons`).
"""

from datetime import datetime

from eventstore.aggregates.aggregate import Aggregate, Command, Event, Events, State, event_of


class PersonalDataShown(Event, frozen=True):
    """A user was shown personal data in clear.

    `what` names the shown parts: now always `account`. `reason` is the id of the typed reason.
    """

    user: str
    what: tuple[str, ...]
    reason: str


class ShowPersonalData(Command, frozen=True):
    """Record that personal data is shown in clear to a user."""

    user: str
    what: tuple[str, ...]
    reason: str


class Disclosures(State, frozen=True):
    """Number of times that personal data of the account was shown."""

    number: int = 0


def decide(command: ShowPersonalData, disclosures: Disclosures, at: datetime) -> PersonalDataShown:
    """Return one event for each disclosure, also if the data was shown before."""
    return event_of(PersonalDataShown, command)


def evolve(disclosures: Disclosures, event: PersonalDataShown) -> Disclosures:
    """Return the state after the event."""
    return Disclosures(number=disclosures.number + 1)


def stream_of(supplier: str, external: str) -> str:
    return f"disclosure/{supplier}/{external}"


def identity_of(stream: str) -> tuple[str, str]:
    """Return supplier and external account number of a stream."""
    _, supplier, external = stream.split("/", 2)
    return supplier, external


EVENTS: Events = {
    "personal_data_shown.v1": (PersonalDataShown, ShowPersonalData),
}
DISCLOSURE = Aggregate("disclosure", EVENTS, Disclosures(), decide, evolve, parts=3)
