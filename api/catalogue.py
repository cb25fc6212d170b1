"""Every error code: what it means, where it is met, an example. `GET /errors/`, openapi.json and docs/errors.md say it.

Codes are permanent: clients switch on them. A code of the market's rules comes with the rules that use it.
"""

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from api.refusals import CODES
from market import RULES
from market.participant import PARTICIPANT, PRICE_SHEETS
from market.post_account import DELIVERY_NOTE, ENERGY_AMOUNT, INVOICE
from market.rule import Rule

Where = Literal["answer", "field", "latest_error", "history", "graphql"]
"""`answer`: the code of a whole answer. `field`: an item of `errors`. `latest_error`: of an import's status.

`history`: in events only, as code@place or as the code of an event. `graphql`: `errors[].extensions.errorCode`.
"""


class RuleOfCode(msgspec.Struct, frozen=True):
    """A rule of the market: at which place, its sentence, its source, whether it refuses or warns."""

    resource: str
    at: str
    says: str
    severity: str
    source: str


class ErrorCode(msgspec.Struct, frozen=True):
    """One code. `status` is the HTTP status of answers that carry it; None where it is met in a 200 only."""

    code: str
    where: tuple[Where, ...]
    status: int | None
    meaning: str
    example: dict[str, Any]
    rules: tuple[RuleOfCode, ...] = ()


def _answer(status: int, code: str, meaning: str, *where: Where) -> ErrorCode:
    return ErrorCode(code, where or ("answer",), status, meaning, {"detail": meaning, "code": code})


def _field(code: str, attr: str, meaning: str, *also: Where) -> ErrorCode:
    return ErrorCode(code, ("field", *also), 400, meaning, {"detail": meaning, "code": code, "attr": attr})


def _latest(code: str, meaning: str) -> ErrorCode:
    example = {"code": code, "detail": meaning, "domain": "account_import"}
    return ErrorCode(code, ("latest_error",), None, meaning, example)


def _history(code: str, meaning: str) -> ErrorCode:
    return ErrorCode(code, ("history",), None, meaning, {"code": code})


def _graphql(code: str, meaning: str) -> ErrorCode:
    example = {"extensions": {"errorType": "VALIDATION", "errorCode": code, "errorDescription": meaning}}
    return ErrorCode(code, ("graphql",), 200, meaning, example)


_ANSWERS = (
    _answer(400, "parse_error", "The body is no JSON document that can be read; the sentence says where."),
    _answer(
        400,
        "account_failed_validation",
        "The account could not be validated; `errors` names every problem.",
        "answer",
        "latest_error",
    ),
    _answer(400, "validation_error", "The data could not be validated; `errors` names every problem."),
    ErrorCode(
        "account_import_process_already_imported",
        ("answer",),
        400,
        "The account exists already; `account_id` is its number.",
        {
            "non_field_errors": {
                "detail": "This account has already been imported.",
                "code": "account_import_process_already_imported",
            },
            "account_id": "A-7K2M9QXD",
        },
    ),
    _answer(400, "account_import_process_in_progress", "The import is being processed; other content is refused."),
    _answer(
        400,
        "import_supplier_migration_not_ongoing",
        "The import supplier is paused or complete; it takes no accounts now.",
        "answer",
        "field",
    ),
    _answer(
        400, "account_erased", "The data of this account was erased; nothing is taken in again.", "answer", "field"
    ),
    _answer(400, "import_cannot_be_cancelled", "Only a pending import can be cancelled."),
    _answer(400, "import_cannot_be_retried", "Only an errored import can be retried."),
    _answer(400, "invalid_idempotency_key", "An Idempotency-Key has 1 to 255 printable ASCII characters."),
    _answer(400, "illegal_transition", "What was asked is not allowed in the present state."),
    _answer(400, "client_disconnected", "The client went away before the body had arrived."),
    _answer(401, CODES[401], "There is no Authorization header."),
    _answer(401, "authentication_failed", "The token or key is wrong, expired or revoked."),
    _answer(403, CODES[403], "The key's role does not allow this."),
    _answer(404, CODES[404], "There is no such thing, or it is somebody else's."),
    _answer(405, CODES[405], "The path is there, the method is not; Allow names those that are."),
    _answer(408, CODES[408], "The body did not arrive in time."),
    _answer(409, CODES[409], "A request with this Idempotency-Key is being processed; ask again."),
    _answer(
        409, "not_balanced", "What the source adds up to is not what the platform's tables say.", "answer", "field"
    ),
    _answer(413, CODES[413], "The body is larger, holds more, or takes longer to judge than the limits allow."),
    _answer(414, CODES[414], "The request line is longer than the limit."),
    _answer(415, CODES[415], "The body is expected as application/json, and without a Content-Encoding."),
    _answer(422, CODES[422], "This Idempotency-Key was used for a request with another body."),
    _answer(429, CODES[429], "The key makes too many requests a second; Retry-After says when to come again."),
    _answer(431, CODES[431], "The header is larger or has more fields than the limits allow."),
    ErrorCode(
        "error",
        ("answer",),
        500,
        "Something unexpected happened; the service's log has the request id.",
        {"detail": "An unexpected error occurred.", "code": "error", "request_id": "9f8b7c6d5e4f3a2b"},
    ),
    ErrorCode(
        "stream_unreadable",
        ("answer",),
        500,
        "An event of this account cannot be read; the others go on. The service's log has the request id.",
        {"detail": "An unexpected error occurred.", "code": "stream_unreadable", "request_id": "9f8b7c6d5e4f3a2b"},
    ),
    _answer(503, CODES[503], "The service cannot store or read at the moment; repeating the request is safe."),
)

_FIELDS = (
    _field("required", "customers.0.family_name", "This field is required."),
    _field("null", "customers.0.date_of_birth", "This field may not be null."),
    _field("blank", "external_account_number", "This field may not be blank."),
    _field("invalid", "notes.0.created_at", "This is not a value of the kind that is expected here.", "answer"),
    _field("invalid_choice", "import_supplier", "This is not one of the allowed values."),
    _field("not_a_list", "customers", "An array is expected."),
    _field("unknown_field", "customers.0.nickname", "This field is not documented."),
    _field("repeated_field", "customers.0.email", "This field is given twice in one object."),
    _field("max_length", "billing_address1", "The text or array is too long."),
    _field("min_value", "payment_schedules.0.day_of_month", "The number is too small."),
    _field("max_value", "payment_schedules.0.day_of_month", "The number is too large."),
    _field("max_digits", "transfer_balance", "A number has at most 18 digits before the point and 10 after it."),
    _field("null_characters_not_allowed", "notes.0.body", "Null characters are not allowed."),
    _field(
        "errors_truncated", "non_field_errors", "There are more problems than are listed; the sentence says how many."
    ),
    _field("dry_run_only", "task_params.is_dry_run", "This import supplier takes dry runs only."),
    _field("schedule_window_start_in_past", "task_params.schedule_window_start", "The window begins in the past."),
    _field("schedule_window_end_in_past", "task_params.schedule_window_end", "The window ends in the past."),
    _field(
        "schedule_window_start_too_far_in_future",
        "task_params.schedule_window_start",
        "The window begins more than 4 days ahead.",
    ),
    _field(
        "schedule_window_end_too_far_in_future",
        "task_params.schedule_window_end",
        "The window ends more than 4 days ahead.",
    ),
    _field("schedule_window_start__after_end", "task_params.schedule_window_start", "The window begins after its end."),
    _field(
        "market_participant_not_found",
        "price_sheets.0.market_participant_code",
        "There is no such market participant.",
        "history",
    ),
    _field("unique", "price_sheets.0.document_number", "The name was imported with other content, or comes twice."),
    _field("import_process_does_not_exist", "external_account_number", "There is no import of this account."),
    _field("account_not_found", "external_account_number", "The account does not exist yet."),
)

_PROCESSING = (
    _latest("attempts_exhausted", "Processing was given up; retry the import when the cause is mended."),
    _latest("payload_erased", "The payload was erased; send the account again."),
    _latest("account_not_accepted_by_platform", "The platform's tables refuse the account."),
    _history("path_does_not_exist_in_file_store", "There is no document at this path below the supplier's root."),
    _history("document_store_unavailable", "Documents could not be looked for; the import is tried again."),
    _history("processing_failed", "The attempt failed for a reason that is expected to pass; it is tried again."),
    _history("worker_lost", "The worker of the attempt has died; the import is tried again."),
    _history("lease_expired", "The worker of the attempt hangs; the import is tried again."),
    _history("supply_point_on_other_account", "Another live account of the supplier has this supply point."),
    _history("documents_root_missing", "Documents cannot be checked before documents-root is set."),
    _history("smtp_unavailable", "The mail server does not answer; the message is tried again."),
    _history("sender_refused", "The mail server refuses the sender."),
    _history("recipient_refused", "The mail server refuses the recipient."),
    _history("smtputf8_not_supported", "The mail server takes no internationalised addresses (SMTPUTF8)."),
    _history("message_not_possible", "The message cannot be written: an address has no form for mail servers."),
    _history("message_refused", "The mail server refuses the message."),
    _history("outcome_unknown", "Nobody knows whether the message was sent; it is not sent again."),
    _history("no_email_address", "No customer of the account has an e-mail address."),
    _history("payload_unreadable", "The payload of the account cannot be read any more."),
)

_GRAPHQL = (
    _graphql("KT-CT-1134", "The refresh token has expired."),
    _graphql("KT-CT-1135", "The refresh token is not valid."),
    _graphql("KT-CT-1137", "Give exactly one of organizationSecretKey, apiKey and refreshToken."),
    _graphql("KT-CT-1139", "The key is not valid."),
    _graphql("KT-CT-1140", "The organisation's secret key is not valid."),
    _graphql("GRAPHQL_PARSE_FAILED", "The document is not GraphQL; `locations` says where."),
    _graphql("GRAPHQL_VALIDATION_FAILED", "The document does not fit the schema; `locations` says where."),
    _graphql("BAD_USER_INPUT", "The variables or the operation's name do not fit the document."),
    _graphql("SERVICE_UNAVAILABLE", "The service cannot read at the moment; ask again."),
    _graphql("INTERNAL_SERVER_ERROR", "Something unexpected happened; the service's log names it."),
)

_RULES: tuple[tuple[str, tuple[Rule, ...]], ...] = (
    ("account", RULES),
    ("market participant", PARTICIPANT),
    ("price sheets", PRICE_SHEETS),
    ("delivery note", DELIVERY_NOTE),
    ("energy amount", ENERGY_AMOUNT),
    ("market participant invoice", INVOICE),
)


def _with_rules(own: tuple[ErrorCode, ...]) -> Iterator[ErrorCode]:
    """The codes of this table with the rules that use them, then the codes that only rules use."""
    rules: dict[str, list[RuleOfCode]] = {}
    for resource, table in _RULES:
        for rule in table:
            told = RuleOfCode(resource, rule.at, rule.says, str(rule.severity), rule.source)
            rules.setdefault(rule.code, []).append(told)
    for entry in own:
        yield msgspec.structs.replace(entry, rules=tuple(rules.pop(entry.code, ())))
    for code, of_code in sorted(rules.items()):
        meaning = of_code[0].says
        attr = of_code[0].at.replace("[]", ".0") or "non_field_errors"
        yield ErrorCode(code, ("field",), 400, meaning, {"detail": meaning, "code": code, "attr": attr}, tuple(of_code))


CATALOGUE: tuple[ErrorCode, ...] = tuple(_with_rules(_ANSWERS + _FIELDS + _PROCESSING + _GRAPHQL))
