"""Every endpoint as a row: the routes and the service's description of itself are both made from this table."""

from typing import Any

import msgspec

from api.auth import AUDITORS, DECIDERS, READERS, WRITERS
from api.catalogue import ErrorCode
from projections.history import HistoryEntry
from schemas.account import Reason, WrappedAccount
from schemas.base import Wire
from schemas.delivery_note import DeliveryNoteImport
from schemas.difference import FieldChange
from schemas.energy_amount import EnergyAmountImport
from schemas.invoice import MarketParticipantInvoiceImport
from schemas.market_participant import MarketParticipant
from schemas.price_sheet import FeeImport
from schemas.status import ErrorCount, FoundAccount, ImportListItem, ImportStatus, SupplierProgress, TransferStatus

V1, V2 = "/v1/data-import", "/v2/data-import"
ACCOUNT_PATH = f"{V2}/accounts/{{supplier}}/{{external}}/"


class Empty(Wire, frozen=True, kw_only=True):
    """The empty payload."""


class PriceSheetsImported(Wire, frozen=True, kw_only=True):
    """How many price sheets the request named; all of them are imported."""

    price_sheets_imported: int


class Health(Wire, frozen=True, kw_only=True):
    """Which process answers, and how it is."""

    status: str
    pid: int


class GraphQLRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A GraphQL document, and what it needs."""

    query: str
    variables: dict[str, Any] | None = None
    operationName: str | None = None  # noqa: N815 - the wire's name


class GraphQLAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Data or errors; `extensions.errorCode` of an error is permanent."""

    data: dict[str, Any] | None = None
    errors: list[dict[str, Any]] = []


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint. `roles` is None where no token is needed; `body` is None where none is taken."""

    name: str
    method: str
    path: str
    tag: str
    summary: str
    answers: dict[int, Any]
    """Status to type of the body; None for a body that is no JSON."""
    roles: frozenset[str] | None = None
    body: type | None = None
    is_body_optional: bool = False
    query: tuple[str, ...] = ()
    """Names of query parameters; `description.py` says what they mean."""
    refuses: tuple[int, ...] = ()
    """Statuses of refusals beside those that every endpoint of its kind has."""
    is_slashed: bool = True


_BEFORE, _ACCOUNTS, _AFTER = "Before accounts", "Accounts", "After accounts"
_STATUS, _TOKENS, _SERVICE = "Following imports", "Tokens", "The service"

# Routes are tried in this order: what is asked most often comes first.
OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="create_account",
        method="POST",
        path=f"{V2}/accounts/",
        tag=_ACCOUNTS,
        summary="Import an account. 201 once it is durably stored; creation follows.",
        answers={201: Empty},
        roles=WRITERS,
        body=WrappedAccount,
    ),
    Operation(
        name="validate_account",
        method="POST",
        path=f"{V2}/accounts/validate/",
        tag=_ACCOUNTS,
        summary="Validate an account: every problem at once, no side effects.",
        answers={200: Empty},
        roles=WRITERS,
        body=WrappedAccount,
    ),
    Operation(
        name="obtain_token",
        method="POST",
        path="/v1/graphql/",
        tag=_TOKENS,
        summary="GraphQL: obtain a token for a key or a refresh token. Always 200; errors carry errorCode.",
        answers={200: GraphQLAnswer},
        body=GraphQLRequest,
        refuses=(400, 408, 413, 415, 503),
    ),
    Operation(
        name="import_market_participant",
        method="POST",
        path=f"{V1}/market-participant/import/",
        tag=_BEFORE,
        summary="Import a market participant. 201 the first time, 200 and the stored record afterwards.",
        answers={201: MarketParticipant, 200: MarketParticipant},
        roles=WRITERS,
        body=MarketParticipant,
    ),
    Operation(
        name="import_price_sheets",
        method="POST",
        path=f"{V1}/market-participant-fees/import/",
        tag=_BEFORE,
        summary="Import fee price sheets, all of them or none.",
        answers={201: PriceSheetsImported},
        roles=WRITERS,
        body=FeeImport,
    ),
    Operation(
        name="read_import_status",
        method="GET",
        path=ACCOUNT_PATH,
        tag=_ACCOUNTS,
        summary="What became of an import.",
        answers={200: ImportStatus},
        roles=READERS,
        query=("as_of",),
        refuses=(400, 404),
    ),
    Operation(
        name="read_history",
        method="GET",
        path=f"{ACCOUNT_PATH}history/",
        tag=_ACCOUNTS,
        summary="Everything that happened to an account, for auditors and staff.",
        answers={200: list[HistoryEntry]},
        roles=AUDITORS,
        query=("as_of",),
        refuses=(400, 404),
    ),
    Operation(
        name="read_payload_difference",
        method="GET",
        path=f"{ACCOUNT_PATH}history/difference/",
        tag=_ACCOUNTS,
        summary="What differs between two payloads of an account, for auditors and staff.",
        answers={200: list[FieldChange]},
        roles=AUDITORS,
        query=("from", "to"),
        refuses=(400, 404),
    ),
    Operation(
        name="cancel_import",
        method="POST",
        path=f"{ACCOUNT_PATH}cancel/",
        tag=_ACCOUNTS,
        summary="Do not process a pending import.",
        answers={200: ImportStatus},
        roles=DECIDERS,
        body=Reason,
        is_body_optional=True,
        refuses=(404,),
    ),
    Operation(
        name="retry_import",
        method="POST",
        path=f"{ACCOUNT_PATH}retry/",
        tag=_ACCOUNTS,
        summary="Process an errored import once more.",
        answers={200: ImportStatus},
        roles=DECIDERS,
        body=Reason,
        is_body_optional=True,
        refuses=(404,),
    ),
    Operation(
        name="create_delivery_note",
        method="POST",
        path=f"{V1}/delivery-note/create/",
        tag=_AFTER,
        summary="Attach a delivery note to an account.",
        answers={201: DeliveryNoteImport},
        roles=WRITERS,
        body=DeliveryNoteImport,
    ),
    Operation(
        name="create_energy_amount",
        method="POST",
        path=f"{V1}/energy-amount/create/",
        tag=_AFTER,
        summary="Attach an energy amount to an account.",
        answers={201: EnergyAmountImport},
        roles=WRITERS,
        body=EnergyAmountImport,
    ),
    Operation(
        name="create_market_participant_invoice",
        method="POST",
        path=f"{V1}/market-participant-invoice/create/",
        tag=_AFTER,
        summary="Attach a market participant's invoice to an account.",
        answers={201: MarketParticipantInvoiceImport},
        roles=WRITERS,
        body=MarketParticipantInvoiceImport,
    ),
    Operation(
        name="read_transfer_status",
        method="GET",
        path=f"{V1}/account-transfer-status/{{supplier}}/{{external}}/",
        tag=_STATUS,
        summary="Whether the account has been created: UNKNOWN, IN_PROGRESS or COMPLETED.",
        answers={200: TransferStatus},
        roles=READERS,
        refuses=(404,),
    ),
    *(
        Operation(
            name=f"list_{kind}_imports",
            method="GET",
            path=f"{V1}/{kind}-account-import-processes/{{supplier}}/",
            tag=_STATUS,
            summary=summary,
            answers={200: list[ImportListItem]},
            roles=READERS,
            refuses=(404,),
        )
        for kind, summary in (
            ("all", "A supplier's imports, in order of creation."),
            ("pending", "A supplier's imports without an account, but for the cancelled ones."),
            ("imported", "A supplier's imports that have an account."),
        )
    ),
    Operation(
        name="read_supplier_progress",
        method="GET",
        path=f"{V2}/suppliers/{{supplier}}/progress/",
        tag=_STATUS,
        summary="How many of a supplier's imports are in which state; up to a second late.",
        answers={200: SupplierProgress},
        roles=READERS,
        refuses=(404,),
    ),
    Operation(
        name="read_supplier_errors",
        method="GET",
        path=f"{V2}/suppliers/{{supplier}}/errors/",
        tag=_STATUS,
        summary="What goes wrong for a supplier: refused requests and failed imports by day, code and place.",
        answers={200: list[ErrorCount]},
        roles=READERS,
        query=("from_day", "to_day"),
        refuses=(400, 404),
    ),
    Operation(
        name="search_accounts",
        method="GET",
        path=f"{V2}/search/",
        tag=_STATUS,
        summary="Accounts by part of a name, e-mail, postcode, meter number or MaLo-ID; for auditors and staff.",
        answers={200: list[FoundAccount]},
        roles=AUDITORS,
        query=("q", "supplier"),
        refuses=(400,),
    ),
    Operation(
        name="list_errors",
        method="GET",
        path="/errors/",
        tag=_SERVICE,
        summary="Every error code: what it means, where it is met, an example.",
        answers={200: list[ErrorCode]},
    ),
    Operation(
        name="read_description",
        method="GET",
        path="/openapi.json",
        tag=_SERVICE,
        summary="This description.",
        answers={200: dict[str, Any], 304: None},
        is_slashed=False,
    ),
    Operation(
        name="read_reference",
        method="GET",
        path="/docs/",
        tag=_SERVICE,
        summary="This description as an interactive page.",
        answers={200: None},
    ),
    Operation(
        name="read_liveness",
        method="GET",
        path="/livez/",
        tag=_SERVICE,
        summary="200 while the process lives.",
        answers={200: Health},
    ),
    Operation(
        name="read_readiness",
        method="GET",
        path="/readyz/",
        tag=_SERVICE,
        summary="200 when the database answers with the schema that this service needs.",
        answers={200: Health},
        refuses=(503,),
    ),
)
