"""The import supplier: a group of migrated accounts, whether it takes any more, and how they are judged. Pure."""

from datetime import datetime
from typing import Annotated, Literal, assert_never

import msgspec
from msgspec import Meta
from msgspec.structs import asdict, replace

from eventstore.aggregates.aggregate import Aggregate, Command, Event, Events, State, event_of
from eventstore.errors import IllegalTransition, Refused

SupplierStatus = Literal["ongoing", "paused", "complete"]
Strictness = Literal["standard", "strict"]
"""Strict: what the market's rules only warn of is refused."""
UnknownFields = Literal["refuse", "ignore"]
"""Ignore: undocumented fields are dropped, and each drop is recorded with the import."""
DocumentsCheck = Literal["off", "warn", "require"]
"""Whether documents are looked for while processing, and whether a missing one ends the import."""
EmailLanguage = Literal["de", "en"]


class SupplierSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a supplier's accounts are treated; a new supplier's are treated by the contract, as these defaults say.

    This is the one list of settings: the columns of the view, what the api and workers know of a supplier, and
    `importledger supplier set` and `show` follow from it. A title is the setting's name on the command line, where it
    is not the field's; `no` and `yes` are its words there.
    """

    strictness: Strictness = "standard"
    unknown_fields: UnknownFields = "refuse"
    is_dry_run_only: Annotated[bool, Meta(title="dry-run-only")] = False
    documents_root: str = ""
    """A URL, "" for none."""
    documents_check: DocumentsCheck = "off"
    sends_customer_emails: Annotated[bool, Meta(title="customer-emails", extra={"no": "off", "yes": "on"})] = False
    email_language: EmailLanguage = "de"


class DocumentsRootMissing(Refused):
    """Documents cannot be checked below a root that is not set."""

    code = "documents_root_missing"
    sentences = (
        "Set documents-root before documents are checked.",
        "documents-root ist zu setzen, bevor Dokumente geprüft werden.",
    )


class AlreadyArchived(Refused):
    """The supplier's payloads lie in an archive already."""

    code = "supplier_already_archived"
    sentences = (
        "The supplier is archived already: attach that archive first.",
        "Der Lieferant ist bereits archiviert: zuerst ist dieses Archiv anzuhängen.",
    )


class SupplierCreated(Event, frozen=True):
    """The platform team has set the supplier up; it takes accounts."""


class SupplierStatusChanged(Event, frozen=True):
    """The platform team opened, paused or closed the supplier."""

    status: SupplierStatus
    reason: str = ""


class SupplierConfigured(SupplierSettings, Event, frozen=True):
    """How the supplier's accounts are treated from now on: all of it, not only what has changed.

    The first three are always stored, as they were when there were no others.
    """

    strictness: Strictness
    unknown_fields: UnknownFields
    is_dry_run_only: bool
    documents_organisation: str = ""


class SupplierArchived(Event, frozen=True):
    """What the log holds of the supplier lies in an archive as well; its payloads may lie there alone from now on.

    `position` is the last one of the log that the archive, a file with this digest, speaks of.
    """

    url: str
    sha256: str
    position: int
    payloads: int


class ArchiveAttached(Event, frozen=True):
    """The payloads of the archive with this digest are in the database again, but for those of erased persons."""

    sha256: str


SupplierEvent = SupplierCreated | SupplierStatusChanged | SupplierConfigured | SupplierArchived | ArchiveAttached


class CreateSupplier(Command, frozen=True):
    """Set the supplier up."""


class ChangeSupplierStatus(Command, frozen=True):
    """Open, pause or close the supplier."""

    status: SupplierStatus
    reason: str = ""


class ConfigureSupplier(Command, frozen=True):
    """Change how accounts are treated; None leaves a setting as it is.

    `documents_organisation` counts if a root is given: the organisation that sets it, "" for the platform itself.
    """

    strictness: Strictness | None = None
    unknown_fields: UnknownFields | None = None
    is_dry_run_only: bool | None = None
    documents_root: str | None = None
    documents_check: DocumentsCheck | None = None
    sends_customer_emails: bool | None = None
    email_language: EmailLanguage | None = None
    documents_organisation: str = ""


class ArchiveSupplier(Command, frozen=True):
    """Say that the supplier is archived; its payloads are detached after that."""

    url: str
    sha256: str
    position: int
    payloads: int


class AttachArchive(Command, frozen=True):
    """Say that the payloads of the archive are back."""


class Supplier(SupplierSettings, State, frozen=True):
    """The state of a supplier: its status, its settings, and the archive that its payloads lie in, if any.

    `documents_organisation` has set the documents root, which must be among its allowed places; "" for the platform.
    """

    status: str = "new"
    documents_organisation: str = ""
    archive: SupplierArchived | None = None


def decide(command: Command, supplier: Supplier, at: datetime) -> SupplierEvent | None:
    """The event that follows, or none. Raises IllegalTransition for a supplier that does not exist,
    DocumentsRootMissing."""
    match command, supplier.status:
        case CreateSupplier(), "new":
            return SupplierCreated()
        case CreateSupplier(), _:
            return None
        case ChangeSupplierStatus(status=status), present if present == status:
            return None
        case ChangeSupplierStatus(), "ongoing" | "paused" | "complete":
            return event_of(SupplierStatusChanged, command)
        case ConfigureSupplier(), "ongoing" | "paused" | "complete":
            configured = _configured(command, supplier)
            if configured.documents_check != "off" and not configured.documents_root:
                raise DocumentsRootMissing
            return None if evolve(supplier, configured) == supplier else configured
        case ArchiveSupplier(), "complete":
            return _archived(command, supplier)
        case AttachArchive(), "ongoing" | "paused" | "complete":
            return ArchiveAttached(sha256=supplier.archive.sha256) if supplier.archive else None
    raise IllegalTransition(supplier.status, type(command).__name__)


def evolve(supplier: Supplier, event: SupplierEvent) -> Supplier:
    """The state after the event."""
    match event:
        case SupplierCreated():
            return Supplier(status="ongoing")
        case SupplierStatusChanged(status=status):
            return replace(supplier, status=status)
        case SupplierConfigured():
            return replace(supplier, **asdict(event))
        case SupplierArchived():
            return replace(supplier, archive=event)
        case ArchiveAttached():
            return replace(supplier, archive=None)
        case _:
            assert_never(event)


def _configured(command: ConfigureSupplier, supplier: Supplier) -> SupplierConfigured:
    names = (*SupplierSettings.__struct_fields__, "documents_organisation")
    changed = {name: new for name, new in asdict(command).items() if new is not None}
    if command.documents_root is None:
        del changed["documents_organisation"]
    return SupplierConfigured(**{name: getattr(supplier, name) for name in names} | changed)


def _archived(command: ArchiveSupplier, supplier: Supplier) -> SupplierArchived | None:
    """None where it is archived in this file. Raises AlreadyArchived where it is in another."""
    archived = event_of(SupplierArchived, command)
    if supplier.archive is not None and supplier.archive != archived:
        raise AlreadyArchived
    return None if supplier.archive else archived


def stream_of(code: str) -> str:
    return f"supplier/{code}"


EVENTS: Events = {
    "supplier_created.v1": (SupplierCreated, CreateSupplier),
    "supplier_status_changed.v1": (SupplierStatusChanged, ChangeSupplierStatus),
    "supplier_configured.v1": (SupplierConfigured, ConfigureSupplier),
    "supplier_archived.v1": (SupplierArchived, ArchiveSupplier),
    "archive_attached.v1": (ArchiveAttached, AttachArchive),
}
SUPPLIER = Aggregate("supplier", EVENTS, Supplier(), decide, evolve)
