"""Suppliers open, pause and close; keys are issued and revoked."""

import pytest

from eventstore.aggregates.aggregate import Event
from eventstore.aggregates.organisation import (
    ORGANISATION,
    ConfirmKey,
    CreateKey,
    KeyConfirmed,
    KeyCreated,
    KeyRevoked,
    RevokeKey,
)
from eventstore.aggregates.supplier import (
    SUPPLIER,
    AlreadyArchived,
    ArchiveAttached,
    ArchiveSupplier,
    AttachArchive,
    ChangeSupplierStatus,
    ConfigureSupplier,
    CreateSupplier,
    SupplierArchived,
    SupplierConfigured,
    SupplierCreated,
    SupplierStatusChanged,
)
from eventstore.errors import IllegalTransition
from tests.support.make import Given

CREATE_KEY = CreateKey(key_id="k1", secret_sha256="d", role="importer", suppliers=("A",))
KEY_CREATED = KeyCreated(key_id="k1", secret_sha256="d", role="importer", suppliers=("A",))


def supplier(*events: Event) -> Given:
    return Given(SUPPLIER, events)


def organisation(*events: Event) -> Given:
    return Given(ORGANISATION, events)


def test_a_supplier_is_created_once() -> None:
    supplier().when(CreateSupplier()).then(SupplierCreated())
    supplier(SupplierCreated()).when(CreateSupplier()).then()


def test_a_supplier_is_paused_with_a_reason() -> None:
    pause = ChangeSupplierStatus(status="paused", reason="audit")
    paused = SupplierStatusChanged(status="paused", reason="audit")
    supplier(SupplierCreated()).when(pause).then(paused)
    supplier(SupplierCreated(), paused).when(pause).then()


@pytest.mark.promise("supplier-complete")
def test_a_complete_supplier_can_be_opened_again() -> None:
    complete = SupplierStatusChanged(status="complete")
    reopen = ChangeSupplierStatus(status="ongoing")
    supplier(SupplierCreated(), complete).when(reopen).then(SupplierStatusChanged(status="ongoing"))


def test_settings_are_changed_one_by_one_and_stay_when_the_status_changes() -> None:
    strict = SupplierConfigured(strictness="strict", unknown_fields="refuse", is_dry_run_only=False)
    both = SupplierConfigured(strictness="strict", unknown_fields="refuse", is_dry_run_only=True)
    paused = SupplierStatusChanged(status="paused")
    supplier(SupplierCreated()).when(ConfigureSupplier(strictness="strict")).then(strict)
    supplier(SupplierCreated(), strict, paused).when(ConfigureSupplier(is_dry_run_only=True)).then(both)
    supplier(SupplierCreated(), strict, paused).when(ConfigureSupplier(strictness="strict")).then()
    supplier().when(ConfigureSupplier(strictness="strict")).refuses(IllegalTransition)


def test_a_complete_supplier_is_archived_once_and_attached_again() -> None:
    complete = SupplierStatusChanged(status="complete")
    archived = SupplierArchived(url="file:///a/A-9.archive.zip", sha256="d", position=9, payloads=2)
    archive = ArchiveSupplier(url="file:///a/A-9.archive.zip", sha256="d", position=9, payloads=2)
    other = ArchiveSupplier(url="file:///a/A-12.archive.zip", sha256="e", position=12, payloads=3)
    supplier(SupplierCreated()).when(archive).refuses(IllegalTransition)
    supplier(SupplierCreated(), complete).when(archive).then(archived)
    supplier(SupplierCreated(), complete, archived).when(archive).then()
    supplier(SupplierCreated(), complete, archived).when(other).refuses(AlreadyArchived)
    supplier(SupplierCreated(), complete, archived).when(AttachArchive()).then(ArchiveAttached(sha256="d"))
    supplier(SupplierCreated(), complete).when(AttachArchive()).then()
    supplier().when(AttachArchive()).refuses(IllegalTransition)


def test_a_supplier_that_does_not_exist_has_no_status() -> None:
    supplier().when(ChangeSupplierStatus(status="paused")).refuses(IllegalTransition)


def test_a_key_is_created_once() -> None:
    organisation().when(CREATE_KEY).then(KEY_CREATED)
    organisation(KEY_CREATED).when(CREATE_KEY).then()


def test_a_key_is_revoked_for_good() -> None:
    revoked = KeyRevoked(key_id="k1")
    organisation(KEY_CREATED).when(RevokeKey(key_id="k1")).then(revoked)
    organisation(KEY_CREATED, revoked).when(RevokeKey(key_id="k1")).then()
    organisation(KEY_CREATED, revoked).when(CREATE_KEY).then()


def test_a_key_that_waits_is_confirmed_or_revoked_for_good() -> None:
    held, revoked, confirmed = (
        KeyRevoked(key_id="k1", until_confirmed=True),
        KeyRevoked(key_id="k1"),
        KeyConfirmed(key_id="k1"),
    )
    hold, confirm = RevokeKey(key_id="k1", until_confirmed=True), ConfirmKey(key_id="k1")
    organisation(KEY_CREATED).when(hold).then(held)
    organisation(KEY_CREATED, held).when(hold).then()
    organisation(KEY_CREATED, held).when(CREATE_KEY).then()
    organisation(KEY_CREATED, held).when(confirm).then(confirmed)
    organisation(KEY_CREATED, held, confirmed).when(confirm).then()
    organisation(KEY_CREATED, held, confirmed).when(RevokeKey(key_id="k1")).then(revoked)
    organisation(KEY_CREATED, held).when(RevokeKey(key_id="k1")).then(revoked)
    organisation(KEY_CREATED, held, revoked).when(hold).then()
    organisation(KEY_CREATED, held, revoked).when(confirm).refuses(IllegalTransition)
    organisation().when(confirm).refuses(IllegalTransition)


def test_an_unknown_key_cannot_be_revoked() -> None:
    organisation().when(RevokeKey(key_id="k1")).refuses(IllegalTransition)


def test_an_archive_is_attached_once_whatever_the_suppliers_status() -> None:
    complete = SupplierStatusChanged(status="complete")
    archived = SupplierArchived(url="file:///a/A-9.archive.zip", sha256="d", position=9, payloads=2)
    back = ArchiveAttached(sha256="d")
    for status in ("ongoing", "paused"):
        opened = SupplierStatusChanged(status=status)
        supplier(SupplierCreated(), complete, archived, opened).when(AttachArchive()).then(back)
        supplier(SupplierCreated(), complete, archived, back, opened).when(AttachArchive()).then()


def test_a_refused_archive_is_told_by_its_code() -> None:
    assert AlreadyArchived.code == "supplier_already_archived"
