"""Who was shown personal data of an account, in clear: a stream for each account. Pure.

The console masks persons until somebody asks for them and says why. The event names the user, what was shown and the
reason by its id; the reason's text lies in a row that is erased with the person (`projections.unlogged.typed_reasons`).
"""

from datetime import datetime

from eventstore.aggregates.aggregate import Aggregate, Command, Event, Events, State, event_of


class PersonalDataShown(Event, frozen=True):
    """A user was shown personal data in clear: `what`, by names of places on pages, and `reason`, by its id."""

    user: str
    what: tuple[str, ...]
    reason: str


class ShowPersonalData(Command, frozen=True):
    """Show personal data in clear."""

    user: str
    what: tuple[str, ...]
    reason: str


class Disclosures(State, frozen=True):
    """How often personal data of the account was shown."""

    number: int = 0


def decide(command: ShowPersonalData, disclosures: Disclosures, at: datetime) -> PersonalDataShown:
    """Every showing is one of its own."""
    return event_of(PersonalDataShown, command)


def evolve(disclosures: Disclosures, event: PersonalDataShown) -> Disclosures:
    """The state after the event."""
    return Disclosures(number=disclosures.number + 1)


def stream_of(supplier: str, external: str) -> str:
    return f"disclosure/{supplier}/{external}"


def identity_of(stream: str) -> tuple[str, str]:
    """(supplier, external account number) of a stream."""
    _, supplier, external = stream.split("/", 2)
    return supplier, external


EVENTS: Events = {
    "personal_data_shown.v1": (PersonalDataShown, ShowPersonalData),
}
DISCLOSURE = Aggregate("disclosure", EVENTS, Disclosures(), decide, evolve, parts=3)
