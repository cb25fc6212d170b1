"""The OpenAPI 3.1 document, made from the table of operations, the wire shapes and the catalogue of codes.

Constraints of the shapes become JSON Schema, including other accepted spellings (numbers for decimals, times without
zone). `/errors/` lists the rules that no schema can express, such as sums and check digits.
"""

from collections.abc import Sequence
from functools import partial
from importlib.metadata import version
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType, inspect

from api.description.catalogue import CATALOGUE, ErrorCode
from api.http.errors import tree_of, unknown_parameter
from api.http.responses import encoded
from api.http.status_codes import CODES
from api.operation import EVENTS, TAGS, Operation
from schemas.account import Account, WrappedAccount
from schemas.base import DECIMAL_PATTERN, Problem, Suggestion
from schemas.field_descriptions import field_descriptions, structs_of
from schemas.reading import shape_errors
from schemas.reading.field_names import named
from schemas.reading.problems import UNKNOWN_FIELD

_REF = "#/components/schemas/{name}"
_MOMENT = {"type": "string", "format": "date-time"}
MOMENT_PATTERN = r"^\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?([Zz]|[+-]\d{2}(:?\d{2})?)?$"
_SENT_MOMENT = _MOMENT | {
    "pattern": MOMENT_PATTERN,
    "description": "ISO 8601 with Z, an offset, or no zone, which is German market time.",
}
_DECIMAL = {
    "type": ["string", "number"],
    "pattern": r"^-?\d+(\.\d+)?([eE][+-]?\d{1,3})?$",
    "exclusiveMinimum": -(10**18),
    "exclusiveMaximum": 10**18,
    "description": "A decimal as text or number: 18 digits before the point and 10 after it at most.",
}
_TRIMMED = r"^\S([\s\S]*\S)?$"
_NDJSON = "application/x-ndjson"
_LINES = {"type": "string", "format": "binary"}
"""Schema of a body of lines, which JSON Schema cannot describe as a whole."""
_LINES_SENT = "One object a line, plain or with Content-Encoding gzip or zstd. `x-itemSchema` is the schema of a line."
_LINES_ANSWERED = "One object a line. `x-itemSchema` is the schema of a line."
_EVENTS_ANSWERED = "A stream of events. `x-itemSchema` is the schema of an event, and `contentSchema` that of its data."
_ALWAYS_POSSIBLE = (400, 405, 414, 431, 500)
_WITH_TOKEN = (401, 403, 429, 503)
_WITH_BODY = (408, 409, 413, 415, 422)


class Refusal(msgspec.Struct, kw_only=True):
    """A refusal of a request."""

    detail: str
    """Sentence for people (Meldung); may change."""
    code: str
    """Permanent code; /errors/ lists all (Fehlercode)."""
    request_id: str | UnsetType = UNSET
    """With 500: id of the request in the service's log (Anfragenummer)."""


class Problems(Refusal, kw_only=True):
    """Refusal of a request. If the content is refused, `errors` lists its problems.

    Answers of the account endpoints also have the problems in members with the names of the fields, nested like the
    account.
    """

    errors: list[Problem] | UnsetType = UNSET
    """Every problem (Fehler), in the order of the fields."""
    errors_truncated: bool | UnsetType = UNSET
    """True if there are more problems than listed (gekürzt); the last entry has the number of the others."""


class AlreadyImported(msgspec.Struct, kw_only=True):
    """Refusal of an account that was imported before."""

    non_field_errors: Refusal
    """Reason of the refusal (Ablehnungsgrund)."""
    account_id: str
    """Number of the account (Vertragskontonummer)."""


_CLOSED = (Refusal.__name__, AlreadyImported.__name__)
"""Types without further members, so that readers can distinguish these types from other types of an answer."""


def openapi(operations: Sequence[Operation]) -> dict[str, Any]:
    """Return the OpenAPI document of these operations."""
    bodies = [operation.body for operation in operations if operation.body]
    answers = [answer for operation in operations for answer in operation.answers.values() if answer]
    answers += [operation.last_line for operation in operations if operation.last_line]
    types = list(dict.fromkeys([Account, *bodies, *answers, Problems, AlreadyImported, Suggestion]))
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    components["Problem"]["properties"]["left_out"] = _LEFT_OUT
    components["Problem"]["properties"]["suggestion"] = {
        "$ref": _REF.format(name="Suggestion"),
        "description": "Only with `suggest=1`, if there is a safe correction (Vorschlag).",
    }
    structs = structs_of(types)
    by_type = dict(zip(map(repr, types), schemas, strict=True))
    sent = names_within([by_type[repr(body)] for body in [Account, *bodies]], components)
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, by_type)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Import ledger",
            "version": version("importledger"),
            "description": "Takes in migrated energy accounts and can say at any time what became of each.",
            "contact": {"name": "The organisation that runs this service"},
            "license": {"name": "Apache License 2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [
            {"name": tag, "description": TAGS[tag]} for tag in dict.fromkeys(operation.tag for operation in operations)
        ],
        "paths": paths,
        "components": {
            "schemas": {
                name: _described(_part(schema, structs[name], is_sent=name in sent), structs[name])
                for name, schema in sorted(components.items())
            },
            "securitySchemes": {
                "token": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "Authorization",
                    "description": "The word Token, a space, and a token of obtainToken or the organisation's key.",
                }
            },
        },
    }


def names_within(schema: Any, components: dict[str, Any]) -> set[str]:
    """Return the names of the components in a schema, directly or through others."""
    names: set[str] = set()
    waiting = [schema]
    while waiting:
        match waiting.pop():
            case {"$ref": str(ref)} if (name := ref.rpartition("/")[2]) not in names:
                names.add(name)
                waiting.append(components[name])
            case dict() as inner:
                waiting += inner.values()
            case list() as inner:
                waiting += inner
    return names


def _operation(operation: Operation, schemas: dict[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.name,
        "tags": [operation.tag],
        "summary": operation.summary.partition(". ")[0].removesuffix("."),
        "description": f"{operation.summary} {_callers(operation)}",
        "responses": {str(status): _answer(operation, status, of, schemas) for status, of in operation.answers.items()},
        "security": [{"token": []}] if operation.roles else [],
    }
    parameters = [
        {"name": name, "in": "path", "required": True, "description": meaning, "schema": _NAME}
        for name, meaning in _PATH_PARAMETERS.items()
        if f"{{{name}}}" in operation.path
    ]
    parameters += [
        {
            "name": parameter.name,
            "in": "query",
            "required": parameter.is_required,
            "description": parameter.description,
            "schema": parameter.schema,
        }
        for parameter in operation.query
    ]
    if operation.roles and operation.method == "POST" and not operation.is_ndjson:
        parameters.append(_IDEMPOTENCY_KEY)
    if operation.prefers:
        parameters.append(_PREFER)
    if parameters:
        described["parameters"] = parameters
    if operation.body:
        described["requestBody"] = _request_body(operation, schemas)
        if operation.is_ndjson:
            described["requestBody"]["description"] = _LINES_SENT
    refusals = {*operation.refusals, *_ALWAYS_POSSIBLE, *([404] if operation.names_supplier else ())}
    refusals |= {*(_WITH_TOKEN if operation.roles else ()), *(_WITH_BODY if operation.roles and operation.body else ())}
    for status in sorted(refusals):
        described["responses"][str(status)] = _refusal(status, operation)
    return described


def _callers(operation: Operation) -> str:
    """Return the sentence about the roles that may call an operation."""
    if not operation.roles:
        return "Needs no key."
    *others, last = sorted(operation.roles)
    return f"For keys of the role {', '.join(others)} or {last}." if others else f"For keys of the role {last}."


def _lines(schema: dict[str, Any], example: Any = None) -> dict[str, Any]:
    """Return the description of a body of lines: bytes, and a line's schema as OpenAPI 3.2 has it in `itemSchema`."""
    media = {"schema": _LINES, "x-itemSchema": schema}
    return media | ({} if example is None else {"example": encoded(example).decode() + "\n"})


def _events(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the description of a stream of events, with the schema of one event as OpenAPI 3.2 has it in `itemSchema`.

    The standard `schema` is empty. Tools for OpenAPI 3.1 do not agree whether it describes the whole body, an event,
    or the data of an event.
    """
    data = {"anyOf": [schema, {"$ref": _REF.format(name="Refusal")}]}
    described = {
        "event": {"type": "string"},
        "id": {"type": "string"},
        "data": {"type": "string", "contentMediaType": "application/json", "contentSchema": data},
    }
    return {"schema": {}, "x-itemSchema": {"type": "object", "required": list(described), "properties": described}}


def _request_body(operation: Operation, schemas: dict[str, Any]) -> dict[str, Any]:
    schema = _json_schema(schemas[repr(operation.body)])
    if operation.body is WrappedAccount:
        schema = {"anyOf": [_json_schema(schemas[repr(Account)]), schema]}
    media = (
        _lines(schema, operation.example) if operation.is_ndjson else {"schema": schema, "example": operation.example}
    )
    if operation.examples:
        described = {operation.name: {"value": operation.example}}
        described |= {name: {"value": example} for name, example in operation.examples.items()}
        media = {"schema": schema, "examples": described}
    kind = _NDJSON if operation.is_ndjson else "application/json"
    return {"required": not operation.is_body_optional, "content": {kind: media}}


def _answer(operation: Operation, status: int, of: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    if of is None:
        return (
            {"description": "Not modified."}
            if status == 304
            else {"description": "A page.", "content": {"text/html": {"schema": {"type": "string"}}}}
        )
    description = "Created." if status == 201 else "Success."
    kind = operation.media or (_NDJSON if operation.is_ndjson else "application/json")
    schema = _json_schema(schemas[repr(of)])
    if operation.last_line is not None:
        schema = {
            "anyOf": [schema, _json_schema(schemas[repr(operation.last_line)]), {"$ref": _REF.format(name="Refusal")}]
        }
    if kind == _NDJSON:
        return {"description": f"{description} {_LINES_ANSWERED}", "content": {kind: _lines(schema)}}
    if kind == EVENTS:
        return {"description": f"{description} {_EVENTS_ANSWERED}", "content": {kind: _events(schema)}}
    described: dict[str, Any] = {"description": description, "content": {kind: {"schema": schema}}}
    is_paged = any(parameter.name == "after" for parameter in operation.query)
    return described | ({"headers": {"Link": _LINK}} if is_paged else {})


def _refusal(status: int, operation: Operation) -> dict[str, Any]:
    possible = [entry for entry in CATALOGUE if entry.status == status and "answer" in entry.where]
    name = "Refusal" if status != 400 else "Problems"
    schema: dict[str, Any] = {"$ref": _REF.format(name=name)}
    if status == 400 and operation.name == "create_account":
        schema = {"anyOf": [schema, {"$ref": _REF.format(name="AlreadyImported")}]}
    headers = {"Retry-After": {"schema": {"type": "string"}}} if status in (429, 503) else {}
    return {
        "description": " ".join(entry.meaning for entry in possible if _concerns(entry, operation)) or CODES[status],
        "content": {"application/json": {"schema": schema, "examples": _examples(status, possible, operation)}},
    } | ({"headers": headers} if headers else {})


def _concerns(entry: ErrorCode, operation: Operation) -> bool:
    """Return True if an operation may answer with this code."""
    of_accounts = operation.body is WrappedAccount
    if entry.status == 400 and operation.method == "GET":
        return entry.code == "validation_error"
    match entry.code:
        case "account_failed_validation":
            return of_accounts
        case "validation_error":
            return not of_accounts
        case "import_cannot_be_cancelled" | "import_cannot_be_retried":
            return entry.code.split("_")[-1].startswith(operation.name.split("_")[0])
        case code if code.startswith(("account_import_process", "import_supplier")):
            return operation.name == "create_account"
        case _:
            return True


def _json_schema(schema: Any, *, is_sent: bool = False) -> Any:
    """Return a schema of msgspec in the form that other JSON Schema tools expect.

    `is_sent` is True for schemas of requests.
    """
    translated = partial(_json_schema, is_sent=is_sent)
    match schema:
        case {"pattern": pattern} if pattern == DECIMAL_PATTERN:
            return _DECIMAL
        case {"type": "string", "format": "decimal"}:
            return _DECIMAL
        case {"type": "string", "format": "date-time"}:
            return {name: inner for name, inner in schema.items() if name == "description"} | (
                _SENT_MOMENT if is_sent else _MOMENT
            )
        case {"enum": [*values]} if all(isinstance(value, str) for value in values):
            return {"type": "string"} | schema
        case {"type": "array", **rest} if "items" not in rest:
            return schema | {"items": {}}
        case {"type": "object", **rest} if not {"properties", "additionalProperties"} & rest.keys():
            return schema | {"additionalProperties": True}
        case {"pattern": pattern} if pattern == MOMENT_PATTERN:
            return schema
        case {"pattern": str(), **rest}:
            return rest | {"pattern": _TRIMMED}
        case {"properties": properties, **rest}:
            described = {name: _without_default(translated(inner)) for name, inner in properties.items()}
            is_closed = "additionalProperties" in rest or rest.get("title") in _CLOSED
            open_schema = {} if is_closed else {"additionalProperties": True}
            return rest | open_schema | {"properties": described}
        case dict():
            return {name: translated(inner) for name, inner in schema.items()}
        case list():
            return [translated(inner) for inner in schema]
        case _:
            return schema


def _part(schema: dict[str, Any], struct: type, *, is_sent: bool) -> Any:
    """Return the schema of a struct, with patterns for datetimes whose zone is optional, which msgspec does not add.

    Datetimes in requests usually have no zone, so they are not `date-time`. Datetimes in answers have a zone.
    """
    moment = {"pattern": MOMENT_PATTERN, "description": _SENT_MOMENT["description"]} if is_sent else _MOMENT
    for field in getattr(inspect.type_info(struct), "fields", ()):
        if any(isinstance(kind, inspect.DateTimeType) for kind in getattr(field.type, "types", (field.type,))):
            described = schema["properties"][field.encode_name]
            for part in (described, *described.get("anyOf", ())):
                part |= moment if part.get("type") == "string" and "format" not in part else {}
    return _json_schema(schema, is_sent=is_sent)


def _described(schema: Any, struct: type) -> Any:
    """Return a struct's schema with the descriptions of its fields."""
    described = field_descriptions(struct)
    for name, inner in schema.get("properties", {}).items():
        if name in described:
            inner["description"] = " ".join(filter(None, (described[name], inner.get("description"))))
    return schema


def _without_default(schema: Any) -> Any:
    """Return the schema without its default. `required` lists the fields that must be present."""
    return {name: inner for name, inner in schema.items() if name != "default"} if isinstance(schema, dict) else schema


def _examples(status: int, possible: list[ErrorCode], operation: Operation) -> dict[str, Any]:
    """Return example answers by code. Answers to invalid content have a problem of its first field."""
    shown = {entry.code: entry.example for entry in possible if _concerns(entry, operation)}
    for code in _WITH_ERRORS.intersection(shown):
        shape = Account if operation.body is WrappedAccount else operation.body
        fields = getattr(inspect.type_info(shape), "fields", ()) if shape else ()
        required = next((field.encode_name for field in fields if field.required), "")
        optional = next((parameter.name for parameter in operation.query), "reason" if shape else "")
        problems = [Problem("verbose", UNKNOWN_FIELD, unknown_parameter(()))]
        if optional:
            problems = [Problem(optional, "invalid", shape_errors.expected(shape_errors.STRING, 5))]
        if shape and required:
            problems = [Problem(required, "required", named(shape_errors.REQUIRED, shape, [required]))]
        tree = tree_of(problems) if shape is Account else {}
        shown[code] = {**tree, **shown[code], "errors": problems}
    if status == 400 and operation.name != "create_account":
        shown.pop("account_import_process_already_imported", None)
    return {code: {"value": msgspec.json.decode(encoded(value))} for code, value in shown.items()}


_WITH_ERRORS = frozenset({"account_failed_validation", "validation_error"})
_LEFT_OUT = {"type": "integer", "description": "Only with `errors_truncated`: problems that are not listed."}
_NAME = {"type": "string", "minLength": 1}
_PATH_PARAMETERS = {
    "supplier": "The code of an import supplier.",
    "external": "The account's identifier in the old system, percent-encoded; it may contain a slash as %2F.",
    "run": "The name of a run.",
}
_IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Name of the request, chosen by the caller. A repeated request gets the first answer again.",
    "schema": {"type": "string", "pattern": r'^ *"?[ !#-\[\]-~]{1,255}"? *$'},
}
_PREFER = {
    "name": "Prefer",
    "in": "header",
    "required": False,
    "description": "return=representation: the answer has the resulting status and the warnings.",
    "schema": {"type": "string", "pattern": "^return=(representation|minimal)$"},
}
_LINK = {
    "description": 'Address of the next page, as in `<...>; rel="next"`; absent on the last page.',
    "schema": {"type": "string"},
}
