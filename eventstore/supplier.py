"""The import supplier: a group of migrated accounts, and whether it takes any more. Pure."""

from datetime import datetime
from typing import Literal, assert_never

from eventstore.aggregate import Aggregate, Command, Event, State
from eventstore.errors import IllegalTransition

SupplierStatus = Literal["ongoing", "paused", "complete"]


class SupplierCreated(Event, frozen=True):
    """The platform team has set the supplier up; it takes accounts."""


class SupplierStatusChanged(Event, frozen=True):
    """The platform team opened, paused or closed the supplier."""

    status: SupplierStatus
    reason: str = ""


SupplierEvent = SupplierCreated | SupplierStatusChanged

TOPICS: dict[str, type[Event]] = {
    "supplier_created.v1": SupplierCreated,
    "supplier_status_changed.v1": SupplierStatusChanged,
}


class CreateSupplier(Command, frozen=True):
    """Set the supplier up."""


class ChangeSupplierStatus(Command, frozen=True):
    """Open, pause or close the supplier."""

    status: SupplierStatus
    reason: str = ""


SupplierCommand = CreateSupplier | ChangeSupplierStatus


class Supplier(State, frozen=True):
    """The state of a supplier."""

    status: str = "new"


def decide(command: SupplierCommand, supplier: Supplier, at: datetime) -> SupplierEvent | None:
    """The event that follows, or none. Raises IllegalTransition for a supplier that does not exist."""
    match command, supplier.status:
        case CreateSupplier(), "new":
            return SupplierCreated()
        case CreateSupplier(), _:
            return None
        case ChangeSupplierStatus(status=status), present if present == status:
            return None
        case ChangeSupplierStatus(status=status, reason=reason), "ongoing" | "paused" | "complete":
            return SupplierStatusChanged(status=status, reason=reason)
    raise IllegalTransition(supplier.status, type(command).__name__)


def evolve(supplier: Supplier, event: SupplierEvent) -> Supplier:
    """The state after the event."""
    match event:
        case SupplierCreated():
            return Supplier(status="ongoing")
        case SupplierStatusChanged(status=status):
            return Supplier(status=status)
        case _:
            assert_never(event)


def stream_of(code: str) -> str:
    return f"supplier/{code}"


SUPPLIER = Aggregate("supplier", TOPICS, Supplier(), decide, evolve)
