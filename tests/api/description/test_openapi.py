"""The OpenAPI description: valid, complete, and changed by additions only."""

import copy
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import jsonschema_rs
import msgspec
import pytest
from msgspec import inspect

from api.bulk.receipts import BulkEnd, Summary, refused
from api.description.openapi import MOMENT_PATTERN, openapi
from api.operation import Operation
from api.operations import OPERATIONS
from checks.generated import CONTRACT, contract_changes
from eventstore.aggregates.import_process import STATUSES
from eventstore.aggregates.run import Mode
from market.post_account import POST_ACCOUNT_BOOKS
from schemas.account import Account, WrappedAccount
from schemas.field_descriptions import structs_of
from schemas.reading.shape import Shape
from schemas.submission import read_submission
from tests.support.make import NOON, encoded
from tests.support.running import RunningService

API = Path(__file__).parent.parent.parent.parent / "api"
DOCUMENT = openapi(OPERATIONS)


def operation_in(document: dict[str, Any], operation: Operation) -> Any:
    return document["paths"][operation.path][operation.method.lower()]


def test_the_description_can_be_read_without_a_token(service: RunningService) -> None:
    answer, headers = service.request("GET", "/openapi.json")
    assert (answer.status, answer.body) == (200, msgspec.json.decode(msgspec.json.encode(DOCUMENT)))
    again, _ = service.request("GET", "/openapi.json", None, {"If-None-Match": headers["etag"]})
    assert again.status == 304


@pytest.mark.parametrize("operation", [o for o in OPERATIONS if o.body], ids=lambda operation: operation.name)
def test_an_example_conforms_and_is_accepted_by_its_shape(operation: Operation) -> None:
    [media] = operation_in(DOCUMENT, operation)["requestBody"]["content"].values()
    schema = media.get("x-itemSchema", media["schema"]) | {"components": DOCUMENT["components"]}
    examples = [media["example"]] if "example" in media else [shown["value"] for shown in media["examples"].values()]
    if operation.is_ndjson:
        examples = [msgspec.json.decode(line) for line in media["example"].splitlines()]
    assert examples[0] == operation.example
    assert all(jsonschema_rs.validator_for(schema).is_valid(example) for example in examples)
    body = encoded(operation.example)
    if operation.body is WrappedAccount:
        assert read_submission(body).shape_errors == ()
    elif operation.body in POST_ACCOUNT_BOOKS:
        envelope, shape_errors = Shape(operation.body).examine(body)
        assert [*shape_errors, *POST_ACCOUNT_BOOKS[operation.body].breaches(envelope, NOON)] == []
    elif operation.roles:
        assert operation.body is not None
        assert Shape(operation.body).examine(body)[1] == ()


@pytest.mark.asvs("V2.1.1")
def test_every_field_is_described_with_its_term() -> None:
    missing = [
        f"{name}.{field}"
        for name, schema in DOCUMENT["components"]["schemas"].items()
        for field, inner in schema.get("properties", {}).items()
        if not inner.get("description")
    ]
    assert missing == []
    point = DOCUMENT["components"]["schemas"]["SupplyPoint"]["properties"]["identifier"]["description"]
    assert point == "Market location identifier (Marktlokation, MaLo-ID): 11 digits with check digit."


def schemas_in(part: Any) -> Iterator[dict[str, Any]]:
    """Every schema, and every other object, within a part of the description; examples are left out."""
    match part:
        case dict():
            yield part
            for name, inner in part.items():
                yield from schemas_in(inner) if name not in ("example", "examples") else ()
        case list():
            for inner in part:
                yield from schemas_in(inner)
        case _:
            pass


def test_no_schema_is_left_open_by_silence() -> None:
    """Generators take an array without `items` for an error, and a bare object for one without members."""
    arrays = [schema for schema in schemas_in(DOCUMENT) if schema.get("type") == "array"]
    objects = [schema for schema in schemas_in(DOCUMENT) if schema.get("type") == "object"]
    assert len(arrays) > 50
    assert len(objects) > 50
    assert [schema for schema in arrays if "items" not in schema] == []
    assert [schema for schema in objects if not {"properties", "additionalProperties"} & schema.keys()] == []


def test_alternatives_are_told_apart_by_their_members() -> None:
    """Clients ask whether an answer has a member. Only one alternative may have members that it does not name."""
    unions = [[part["$ref"] for part in schema.get("anyOf", ()) if "$ref" in part] for schema in schemas_in(DOCUMENT)]
    several = [[name.rpartition("/")[2] for name in union] for union in unions if len(union) > 1]
    assert ["Problems", "AlreadyImported"] in several
    for union in several:
        opened = [name for name in union if DOCUMENT["components"]["schemas"][name].get("additionalProperties") is True]
        assert len(opened) <= 1, union


def test_every_moment_is_described_as_one() -> None:
    """Of every field that holds a moment, whichever way its class declares it.

    Moments that importers usually send without a zone are not `date-time`: generated clients would refuse them.
    """
    types = [type_ for o in OPERATIONS for type_ in (o.body, o.last_line, *o.answers.values()) if type_]
    structs = structs_of([Account, *types])
    moments = {
        (name, field.encode_name)
        for name, struct in structs.items()
        for field in inspect.type_info(struct).fields  # type: ignore[attr-defined]
        if any(isinstance(kind, inspect.DateTimeType) for kind in getattr(field.type, "types", (field.type,)))
    }
    assert len(moments) > 40
    schemas = DOCUMENT["components"]["schemas"]
    described = {
        (name, field)
        for name, field in moments
        if {"date-time"} <= {shown.get("format") for shown in schemas_in(schemas[name]["properties"][field])}
    }
    assert moments - described == {("SmgwConfiguration", "valid_from")}
    assert schemas["SmgwConfiguration"]["properties"]["valid_from"]["pattern"] == MOMENT_PATTERN


def test_states_are_enumerations_and_those_that_the_log_knows() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    for name in ("ImportStatus", "ListedImport", "RunImport", "FoundAccount"):
        assert schemas[name]["properties"]["status"]["enum"] == sorted(STATUSES)
    assert schemas["Empty"]["properties"]["status"]["enum"] == sorted([*STATUSES, "VALID"])
    assert schemas["RunRecord"]["properties"]["mode"]["enum"] == sorted(get_args(Mode))


@pytest.mark.parametrize("operation", [o for o in OPERATIONS if o.is_ndjson], ids=lambda operation: operation.name)
def test_a_bulk_body_is_lines_and_its_last_receipt_is_described(operation: Operation) -> None:
    described = operation_in(DOCUMENT, operation)
    sent = described["requestBody"]["content"]["application/x-ndjson"]
    answered = described["responses"]["200"]["content"]["application/x-ndjson"]
    assert sent["schema"] == answered["schema"] == {"type": "string", "format": "binary"}
    line = jsonschema_rs.validator_for(answered["x-itemSchema"] | {"components": DOCUMENT["components"]})
    assert line.is_valid(msgspec.to_builtins(BulkEnd(summary=Summary(lines=3, accepted=3, replayed=0, refused=0))))
    assert line.is_valid(msgspec.to_builtins(refused(1, "invalid", ())))
    assert not line.is_valid({"lines": 3})


def test_link_is_described_wherever_a_list_is_in_pages() -> None:
    paged = [o for o in OPERATIONS if any(parameter.name == "after" for parameter in o.query)]
    assert {o.name for o in paged} == {"list_imports", "list_runs", "search_accounts"}
    assert all("Link" in operation_in(DOCUMENT, o)["responses"]["200"]["headers"] for o in paged)


def test_every_refusal_of_a_body_shows_what_is_answered() -> None:
    for operation in OPERATIONS:
        for status, answer in operation_in(DOCUMENT, operation)["responses"].items():
            if status[0] in "45":
                [media] = answer["content"].values()
                assert media["examples"], (operation.name, status)
                validator = jsonschema_rs.validator_for(media["schema"] | {"components": DOCUMENT["components"]})
                assert all(validator.is_valid(example["value"]) for example in media["examples"].values())
    create = operation_in(DOCUMENT, next(o for o in OPERATIONS if o.name == "create_account"))
    shown = create["responses"]["400"]["content"]["application/json"]["examples"]
    refused = shown["account_failed_validation"]["value"]
    assert refused["external_account_number"] == ["External account number must be given."]


@pytest.mark.promise("contract-evolves-additions")
def test_the_contract_is_the_released_one_and_additions() -> None:
    released = msgspec.json.decode(CONTRACT.read_bytes())
    assert list(contract_changes(released, DOCUMENT)) == []
    assert msgspec.json.decode(msgspec.json.encode(DOCUMENT)) == released, "an addition: say `make docs`"


def changed(*path: Any, value: Any = ...) -> dict[str, Any]:
    """The document with another value there, or without it. Only what lies on the way is copied: it is large."""
    other: Any = dict(DOCUMENT)
    place = other
    for step in path[:-1]:
        place[step] = copy.copy(place[step])
        place = place[step]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return dict(other)


CONSENTS = [*DOCUMENT["components"]["schemas"]["Consent"]["properties"]["value"]["enum"], "X"]
ACCOUNT = ("components", "schemas", "Account")
STATUS = ("components", "schemas", "ImportStatus")
STATES = DOCUMENT["components"]["schemas"]["ImportStatus"]["properties"]["status"]["enum"]
TITLE = ("components", "schemas", "Customer", "properties", "title", "maxLength")
CREATE = ("paths", "/v2/data-import/accounts/", "post")


@pytest.mark.promise("contract-evolves-additions")
@pytest.mark.parametrize(
    "document",
    [
        changed(*CREATE),
        changed(*CREATE, "responses", "201"),
        changed(*ACCOUNT, "properties", "notes"),
        changed(*ACCOUNT, "required", value=["import_supplier", "external_account_number", "customers"]),
        changed(*ACCOUNT, "properties", "notes", "maxItems", value=5),
        changed(*TITLE, value=35),
        changed(*ACCOUNT, "properties", "sales_channel", "pattern", value="^A"),
        changed("components", "schemas", "Consent", "properties", "value", "enum", value=["ACCEPTED"]),
        changed("components", "schemas", "ImportStatus", "properties", "status", "type", value="integer"),
        changed(*STATUS, "properties", "status", "enum", value=[*STATES, "LOST"]),
        changed(*STATUS, "properties", "status", "enum", value=STATES[1:]),
        changed(*STATUS, "required", value=["status"]),
        changed(*STATUS, "properties", "created_at", value={"type": "string"}),
    ],
)
def test_a_change_that_is_no_addition_is_found(document: dict[str, Any]) -> None:
    assert list(contract_changes(DOCUMENT, document))


@pytest.mark.parametrize(
    "document",
    [
        DOCUMENT,
        changed("paths", "/v3/", value={"get": {}}),
        changed(*CREATE, "responses", "202", value={"description": "x"}),
        changed(*CREATE, "summary", value="Other words."),
        changed(*ACCOUNT, "properties", "loyalty_tier", value={"type": "string"}),
        changed("components", "schemas", "Consent", "properties", "value", "enum", value=CONSENTS),
        changed(*STATUS, "properties", "service_identifier", "maxLength", value=10),
        changed("components", "schemas", "Empty", "required", value=["status"]),
        changed(*TITLE, value=DOCUMENT["components"]["schemas"]["Customer"]["properties"]["title"]["maxLength"] + 1),
    ],
)
def test_an_addition_is_no_change(document: dict[str, Any]) -> None:
    assert list(contract_changes(DOCUMENT, document)) == []


def test_the_reference_page_needs_nothing_from_elsewhere(service: RunningService) -> None:
    page = (API / "pages" / "docs.html").read_text()
    _, headers = service.raw("GET", "/docs/")
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "://" not in page
    for name in ("swagger-ui-bundle.js", "swagger-ui.css", "docs.js"):
        assert f"assets/{name}" in page
        for encoding in ("gzip", "identity"):
            status, headers = service.raw("GET", f"/docs/assets/{name}", {"Accept-Encoding": encoding})
            assert status == 200
            assert ("content-encoding" in headers) == (encoding == "gzip")
    assert service.raw("GET", "/docs/assets/..%2Fapp.py")[0] == 404


def test_vendored_assets_are_unmodified() -> None:
    lines = (API / "vendor" / "SHA256SUMS").read_text().splitlines()
    vendored = {file.relative_to(API / "vendor").as_posix() for file in (API / "vendor").glob("*/*")}
    assert {line.split("  ", 1)[1] for line in lines} == vendored
    for line in lines:
        digest, name = line.split("  ", 1)
        assert hashlib.sha256((API / "vendor" / name).read_bytes()).hexdigest() == digest, name
