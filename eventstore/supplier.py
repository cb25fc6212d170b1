"""The import supplier: a group of migrated accounts, whether it takes any more, and how they are judged. Pure."""

from datetime import datetime
from typing import Literal, assert_never

from msgspec.structs import replace

from eventstore.aggregate import Aggregate, Command, Event, State
from eventstore.errors import IllegalTransition

SupplierStatus = Literal["ongoing", "paused", "complete"]
Strictness = Literal["standard", "strict"]
"""Strict: what the market's rules only warn of is refused."""
UnknownFields = Literal["refuse", "ignore"]
"""Ignore: undocumented fields are dropped, and each drop is recorded with the import."""


class SupplierCreated(Event, frozen=True):
    """The platform team has set the supplier up; it takes accounts."""


class SupplierStatusChanged(Event, frozen=True):
    """The platform team opened, paused or closed the supplier."""

    status: SupplierStatus
    reason: str = ""


class SupplierConfigured(Event, frozen=True):
    """How accounts of the supplier are judged from now on: all of it, not only what has changed."""

    strictness: Strictness
    unknown_fields: UnknownFields
    is_dry_run_only: bool


SupplierEvent = SupplierCreated | SupplierStatusChanged | SupplierConfigured

TOPICS: dict[str, type[Event]] = {
    "supplier_created.v1": SupplierCreated,
    "supplier_status_changed.v1": SupplierStatusChanged,
    "supplier_configured.v1": SupplierConfigured,
}


class CreateSupplier(Command, frozen=True):
    """Set the supplier up."""


class ChangeSupplierStatus(Command, frozen=True):
    """Open, pause or close the supplier."""

    status: SupplierStatus
    reason: str = ""


class ConfigureSupplier(Command, frozen=True):
    """Change how accounts are judged; None leaves a setting as it is."""

    strictness: Strictness | None = None
    unknown_fields: UnknownFields | None = None
    is_dry_run_only: bool | None = None


SupplierCommand = CreateSupplier | ChangeSupplierStatus | ConfigureSupplier


class Supplier(State, frozen=True):
    """The state of a supplier; a new one judges by the contract."""

    status: str = "new"
    strictness: Strictness = "standard"
    unknown_fields: UnknownFields = "refuse"
    is_dry_run_only: bool = False


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
        case ConfigureSupplier(), "ongoing" | "paused" | "complete":
            configured = _configured(command, supplier)
            return None if evolve(supplier, configured) == supplier else configured
    raise IllegalTransition(supplier.status, type(command).__name__)


def evolve(supplier: Supplier, event: SupplierEvent) -> Supplier:
    """The state after the event."""
    match event:
        case SupplierCreated():
            return Supplier(status="ongoing")
        case SupplierStatusChanged(status=status):
            return replace(supplier, status=status)
        case SupplierConfigured():
            return replace(
                supplier,
                strictness=event.strictness,
                unknown_fields=event.unknown_fields,
                is_dry_run_only=event.is_dry_run_only,
            )
        case _:
            assert_never(event)


def _configured(command: ConfigureSupplier, supplier: Supplier) -> SupplierConfigured:
    return SupplierConfigured(
        strictness=command.strictness or supplier.strictness,
        unknown_fields=command.unknown_fields or supplier.unknown_fields,
        is_dry_run_only=supplier.is_dry_run_only if command.is_dry_run_only is None else command.is_dry_run_only,
    )


def stream_of(code: str) -> str:
    return f"supplier/{code}"


SUPPLIER = Aggregate("supplier", TOPICS, Supplier(), decide, evolve)
