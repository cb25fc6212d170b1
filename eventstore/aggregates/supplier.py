"""Import suppliers: groups of migrated accounts with a status and settings. Pure."""

from datetime import datetime
from typing import Annotated, Literal, assert_never

import msgspec
from msgspec import Meta
from msgspec.structs import asdict, replace

from eventstore.aggregates.aggregate import Aggregate, Command, Event, Events, State, event_of
from eventstore.errors import IllegalTransition, Refused

SupplierStatus = Literal["ongoing", "paused", "complete"]
Strictness = Literal["standard", "strict"]
"""`strict` refuses accounts with warnings, `standard` accepts them."""
UnknownFields = Literal["refuse", "ignore"]
"""`ignore` drops undocumented fields and records each dropped name with the import."""
DocumentsCheck = Literal["off", "warn", "require"]
"""Check of documents during processing: no check, a warning for a missing document, or an error."""
EmailLanguage = Literal["de", "en"]


class SupplierSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a supplier's accounts, with the defaults of the contract.

    This class is the only list of settings: the view's columns, the settings in api and workers, and `importledger
    supplier set` and `show` are derived from it. `title` of a field is the setting's name on the command line, if this
    name differs from the field's. `no` and `yes` are the setting's values on the command line.
    """

    strictness: Strictness = "standard"
    unknown_fields: UnknownFields = "refuse"
    is_dry_run_only: Annotated[bool, Meta(title="dry-run-only")] = False
    documents_root: str = ""
    """URL of the documents root, or ""."""
    documents_check: DocumentsCheck = "off"
    sends_customer_emails: Annotated[bool, Meta(title="customer-emails", extra={"no": "off", "yes": "on"})] = False
    email_language: EmailLanguage = "de"


class DocumentsRootMissing(Refused):
    """The check of documents needs a documents root, and none is set."""

    code = "documents_root_missing"
    sentences = (
        "Set documents-root before documents are checked.",
        "documents-root ist zu setzen, bevor Dokumente geprüft werden.",
    )


class AlreadyArchived(Refused):
    """The supplier's payloads are in an archive already."""

    code = "supplier_already_archived"
    sentences = (
        "The supplier is archived already: attach that archive first.",
        "Die Quelle ist bereits archiviert: zuerst ist dieses Archiv anzuhängen.",
    )


class SupplierCreated(Event, frozen=True):
    """The operator has created the supplier; it accepts accounts."""


class SupplierStatusChanged(Event, frozen=True):
    """The operator has opened, paused or closed the supplier. Its accounts are released while it is complete.

    `ends_complete`: the supplier was complete before this event. Accounts that were processed before stay released.
    """

    status: SupplierStatus
    reason: str = ""
    ends_complete: bool = False


class AccountsReleased(Event, frozen=True):
    """The platform owns the accounts of the supplier, or of a run, that were processed before this event.

    Released accounts cannot be reverted. `reason` is the operator's.
    """

    run: str = ""
    reason: str = ""


class SupplierConfigured(SupplierSettings, Event, frozen=True):
    """All settings of the supplier, changed or not, from now on. The first three settings are always stored."""

    strictness: Strictness
    unknown_fields: UnknownFields
    is_dry_run_only: bool
    documents_organisation: str = ""


class SupplierArchived(Event, frozen=True):
    """The supplier's part of the log is in an archive, and its payloads may be deleted from the database.

    `position` is the log's last position that the archive covers. `sha256` is the digest of the archive file.
    """

    url: str
    sha256: str
    position: int
    payloads: int


class ArchiveAttached(Event, frozen=True):
    """The payloads of an archive are in the database again, except payloads of erased persons.

    `sha256` is the archive's digest.
    """

    sha256: str


SupplierEvent = (
    SupplierCreated | SupplierStatusChanged | AccountsReleased | SupplierConfigured | SupplierArchived | ArchiveAttached
)


class CreateSupplier(Command, frozen=True):
    """Create the supplier."""


class ChangeSupplierStatus(Command, frozen=True):
    """Open, pause or close the supplier."""

    status: SupplierStatus
    reason: str = ""


class ReleaseAccounts(Command, frozen=True):
    """Release the accounts of the supplier, or of a run, that have been processed."""

    run: str = ""
    reason: str = ""


class ConfigureSupplier(Command, frozen=True):
    """Change settings; None keeps a setting.

    If a documents root is given, `documents_organisation` is the organisation that sets it, or "" for the operator.
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
    """Record that the supplier is archived. After this event, its payloads are deleted from the database."""

    url: str
    sha256: str
    position: int
    payloads: int


class AttachArchive(Command, frozen=True):
    """Record that the payloads of the archive are in the database again."""


class Supplier(SupplierSettings, State, frozen=True):
    """State of a supplier: status, settings and archive, if any.

    `documents_organisation` has set the documents root, which must be below a root of that organisation; "" is the
    operator.
    """

    status: str = "new"
    documents_organisation: str = ""
    archive: SupplierArchived | None = None


def decide(command: Command, supplier: Supplier, at: datetime) -> SupplierEvent | None:
    """Return the event that follows, or None. Raises IllegalTransition, DocumentsRootMissing, AlreadyArchived."""
    match command, supplier.status:
        case CreateSupplier(), "new":
            return SupplierCreated()
        case CreateSupplier(), _:
            return None
        case ChangeSupplierStatus(status=status), present if present == status:
            return None
        case ChangeSupplierStatus(), "ongoing" | "paused" | "complete":
            return event_of(SupplierStatusChanged, command, ends_complete=supplier.status == "complete")
        case ReleaseAccounts(), "ongoing" | "paused":
            return event_of(AccountsReleased, command)
        case ReleaseAccounts(), "complete":
            return None  # all accounts of the supplier are released
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
    """Return the state after the event."""
    match event:
        case SupplierCreated():
            return Supplier(status="ongoing")
        case SupplierStatusChanged(status=status):
            return replace(supplier, status=status)
        case AccountsReleased():
            return supplier
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
    """Return None if the supplier is already in this archive.

    Raises AlreadyArchived if the supplier is in another archive.
    """
    archived = event_of(SupplierArchived, command)
    if supplier.archive is not None and supplier.archive != archived:
        raise AlreadyArchived
    return None if supplier.archive else archived


def stream_of(code: str) -> str:
    return f"supplier/{code}"


EVENTS: Events = {
    "supplier_created.v1": (SupplierCreated, CreateSupplier),
    "supplier_status_changed.v1": (SupplierStatusChanged, ChangeSupplierStatus),
    "accounts_released.v1": (AccountsReleased, ReleaseAccounts),
    "supplier_configured.v1": (SupplierConfigured, ConfigureSupplier),
    "supplier_archived.v1": (SupplierArchived, ArchiveSupplier),
    "archive_attached.v1": (ArchiveAttached, AttachArchive),
}
SUPPLIER = Aggregate("supplier", EVENTS, Supplier(), decide, evolve)
