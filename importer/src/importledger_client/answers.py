"""Answers of the service as typed objects. Unknown fields are ignored, so that later services may add fields."""

import re
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

NOT_VALID = "account_failed_validation"
"""Code of an account with problems. The sentence of the code lists the first problems as code@path."""
_NAMED = re.compile(r"\b([a-z0-9_]+)@([^\s,]+)")


class Suggestion(msgspec.Struct, frozen=True):
    """A value that is safe to use instead of a wrong one: the kind of correction, the value, a sentence for people."""

    name: str
    value: str
    sentence: str = ""
    before: Any = UNSET
    """The wrong value, as it was sent, in a file of failures."""


class FieldError(msgspec.Struct, frozen=True):
    """An error: dotted path ("" for the whole account), permanent code, and a sentence for people."""

    attr: str = ""
    code: str = ""
    detail: str = ""
    suggestion: Suggestion | UnsetType = UNSET


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one line. Lines count from 1 in the order of the push.

    `status` is PENDING (stored durably), VALID or REFUSED. `replayed` is True for an account that the service already
    had with the same content, which is a success. `service_identifier` is the account number, or None. `code` is the
    reason of REFUSED.
    """

    line: int = 1
    external_account_number: str | None = None
    status: str
    replayed: bool = False
    service_identifier: str | None = None
    code: str | None = None
    warnings: tuple[FieldError, ...] = ()
    errors: tuple[FieldError, ...] = ()

    @property
    def is_refused(self) -> bool:
        return self.status == "REFUSED"


class LatestError(msgspec.Struct, frozen=True):
    """Reason why an import has ended in ERRORED or DRY_RUN_ERRORED."""

    code: str = ""
    detail: str = ""
    domain: str = ""


class ImportStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Status of an import: PENDING, IN_PROGRESS, PROCESSED, ERRORED, CANCELLED, DRY_RUN_SUCCEEDED, …"""

    status: str
    service_identifier: str | None = None
    created_at: datetime | None = None
    modified_at: datetime | None = None
    latest_error: LatestError | None = None
    external_account_number: str | None = None

    @property
    def has_ended(self) -> bool:
        return self.status not in ("PENDING", "IN_PROGRESS")


class RunError(msgspec.Struct, frozen=True, kw_only=True):
    """Number of submissions of a run with an error, or with a warning, at a path. Repeated submissions count again."""

    code: str
    path: str = ""
    number: int = 0


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A run: all accounts that were sent under one name, in any number of requests. Rates are accounts a second."""

    run: str
    import_supplier: str
    mode: str | None = None
    started_at: datetime | None = None
    last_at: datetime | None = None
    total: int = 0
    refused: int = 0
    by_status: dict[str, int] = {}
    processed_per_s: float | None = None
    eta_s: float | None = None
    errors: tuple[RunError, ...] = ()
    warned: int = 0
    """Accepted or validated submissions with warnings."""
    warnings: tuple[RunError, ...] = ()

    @property
    def waiting(self) -> int:
        """Number of accounts that have not ended yet."""
        return self.by_status.get("PENDING", 0) + self.by_status.get("IN_PROGRESS", 0)

    @property
    def failed(self) -> int:
        """Number of accounts that have ended in an error."""
        return self.by_status.get("ERRORED", 0) + self.by_status.get("DRY_RUN_ERRORED", 0)


class JobProgress(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of the job that computes the totals of a run. `why` is the reason if the job makes no progress."""

    accounts: int = 0
    accounts_done: int = 0
    eta_s: float | None = None
    why: str = ""


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """An account of a run whose import has failed."""

    external_account_number: str | None = None
    status: str = ""
    latest_error: LatestError | None = None

    @property
    def code(self) -> str:
        return self.latest_error.code if self.latest_error else ""

    @property
    def errors(self) -> tuple[FieldError, ...]:
        """Errors by code and path if the service lists them, otherwise only the code."""
        error = self.latest_error
        if error is None:
            return ()
        named = (_NAMED.findall(error.detail) if error.code == NOT_VALID else ()) or [(error.code, "")]
        return tuple(FieldError(attr, code, error.detail) for code, attr in named)


class Summary(msgspec.Struct, frozen=True):
    """Numbers of a push. `warned` counts accounts with warnings, accepted or refused."""

    lines: int = 0
    accepted: int = 0
    replayed: int = 0
    refused: int = 0
    warned: int = 0


class PlatformValue(msgspec.Struct, frozen=True):
    """A value on the platform: the number of its row, its digest, and its text, masked if it may describe a person.

    A masked value has no digest.
    """

    row: int
    digest: str
    value: str


class PathDifference(msgspec.Struct, frozen=True):
    """A path of an account whose values differ. `is_personal` if they may describe a person."""

    path: str
    stored: str
    is_personal: bool
    values: tuple[PlatformValue, ...]


class AccountDifference(msgspec.Struct, frozen=True, kw_only=True):
    """An account that is missing on the platform, additional there, or different.

    `is_as_logged` is True if the platform has what the log says, False if it has lost or altered it.
    """

    external_account_number: str
    kind: str
    digest: str = ""
    service_identifier: str | None = None
    status: str | None = None
    is_erased: bool = False
    is_as_logged: bool | None = None
    paths: tuple[PathDifference, ...] = ()


class SupplierProgress(msgspec.Struct, frozen=True):
    """Number of a supplier's imports, in total and by status."""

    total: int
    by_status: dict[str, int] = {}


class Content(msgspec.Struct, frozen=True):
    """Body of an account or of one of its records, or number and status of an import that is `left_out`.

    `position` is the position of the import, which is the same for an account and its records.
    """

    position: int
    kind: str
    payload: msgspec.Raw
