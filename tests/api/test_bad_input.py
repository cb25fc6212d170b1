"""Bad input is answered with a {detail, code} body and the right status, never with a 500. Nothing is stored."""

import re
from codecs import BOM_UTF8
from collections.abc import Callable
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.http.limits import MAX_BODY_BYTES
from api.operation import Operation
from api.operations import OPERATIONS
from schemas.reading.problems import MAX_PROBLEMS
from tests.support.make import an_account, encoded
from tests.support.running import Importer, RunningService

ACCOUNTS = "/v2/data-import/accounts/"


@pytest.mark.asvs("V2.2.1", "V15.3.3")
@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "parse_error"),
        (b'{"a": "\xff"}', "parse_error"),
        (b"[" * 5000, "parse_error"),
        (b'{"metadata": ' + b"[" * 70 + b"]" * 70 + b"}", "parse_error"),
        (b'{"payment_schedules": [{"amount": 0e99999999999999999999}]}', "parse_error"),
        (b"[]", "account_failed_validation"),
        (b'{"import_supplier": "\\u0000", "external_account_number": "\\u0000"}', "account_failed_validation"),
        (b'{"payload": 5}', "account_failed_validation"),
        (b'{"payload": {}, "task_params": []}', "account_failed_validation"),
    ],
)
@pytest.mark.parametrize("path", [ACCOUNTS, ACCOUNTS + "validate/"])
def test_a_bad_body_is_refused_with_its_code(importer: Importer, path: str, body: bytes, code: str) -> None:
    answer, _ = importer.request("POST", path, body)
    assert (answer.status, answer.body["code"]) == (400, code)
    assert answer.body["detail"]


@pytest.fixture(scope="module")
def callers(service: RunningService, importer: Importer) -> Callable[[Operation], Importer]:
    """The caller of an operation: with a key of a role that may call it."""
    keys = {"importer": importer}

    def caller(operation: Operation) -> Importer:
        role = max(operation.roles or {"importer"})
        if role not in keys:
            keys[role] = service.importer(role=role, supplier=importer.supplier)
        return keys[role]

    return caller


def path_of(operation: Operation, importer: Importer) -> str:
    """The operation's path, of an account and a run that are not there."""
    names = {"supplier": importer.supplier, "external": "none", "run": "none"}
    return re.sub(r"\{(\w+)\}", lambda match: names[match[1]], operation.path)


@pytest.mark.promise("query-parameter-operation-declare")
@pytest.mark.asvs("V15.3.7")
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_a_parameter_that_an_operation_does_not_declare_is_refused_by_every_operation(
    callers: Callable[[Operation], Importer], operation: Operation
) -> None:
    caller = callers(operation)
    path, declared = path_of(operation, caller), [parameter.name for parameter in operation.query]
    body = encoded(operation.example) if operation.body else None
    queries = dict.fromkeys(("nonsense=1", "mod=validate&Run=a", "spread=&x=%00%ff"), "unknown_field")
    queries |= {f"{name}=1&{name}=1": "repeated_field" for name in declared}
    for query, code in queries.items():
        for form in (path, path.rstrip("/")) if operation.is_slashed else (path,):
            answer, _ = caller.request(operation.method, f"{form}?{query}", body)
            assert (answer.status, answer.body["code"]) == (400, "validation_error")
            assert {error["code"] for error in answer.body["errors"]} == {code}


EDGES = (
    "0001-01-01",
    "9999-12-31",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-14:00",
    "9" * 30,
    "%2F",
    "%C3%BC%00",
    "",
)


@pytest.mark.promise("value-parameter-field-form", "description-s-patterns-say")
@pytest.mark.asvs("V1.2.4")
@pytest.mark.parametrize(
    "operation", [operation for operation in OPERATIONS if operation.query], ids=lambda operation: operation.name
)
def test_no_value_of_a_parameter_ends_in_a_5xx(
    importer: Importer, callers: Callable[[Operation], Importer], operation: Operation
) -> None:
    caller = callers(operation)
    importer.client.create(encoded(an_account(importer.supplier, 1) | {"external_account_number": "none"}))
    body = encoded(operation.example) if operation.body else None
    for parameter in operation.query:
        for value in EDGES:
            path = f"{path_of(operation, caller)}?{parameter.name}={value}"
            answer, _ = caller.request(operation.method, path, body)
            assert answer.status < 500, path
            schema = parameter.schema
            is_text = schema["type"] == "string"
            if value in ("", "%2F") and not (
                is_text and jsonschema_rs.validator_for(schema).is_valid(value.replace("%2F", "/"))
            ):
                # an account or a run that is not there is 404 before its parameters are read
                may_be_missing = "{run}" in operation.path or "{external}" in operation.path
                assert answer.status in ((400, 404) if may_be_missing else (400,)), path


def test_a_query_of_many_names_takes_no_time_and_a_bounded_answer(service: RunningService) -> None:
    names = "&".join(f"{number:x}" for number in range(1_700))
    answer, _ = service.request("GET", f"/errors/?{names}")
    assert (answer.status, len(answer.body["errors"])) == (400, MAX_PROBLEMS)
    assert answer.body["errors_truncated"]


@pytest.mark.asvs("V1.1.1")
@pytest.mark.parametrize(
    "operation", [operation for operation in OPERATIONS if operation.body], ids=lambda operation: operation.name
)
def test_a_byte_order_mark_before_a_body_is_skipped_by_every_operation(
    importer: Importer, operation: Operation
) -> None:
    path = path_of(operation, importer)
    for body in (b"{}", b"[", b"\xef"):
        plain, _ = importer.request(operation.method, path, body)
        marked, _ = importer.request(operation.method, path, BOM_UTF8 + body)
        assert marked == plain


@pytest.mark.asvs("V5.2.1")
def test_a_body_that_is_too_large_is_refused_before_it_is_read(importer: Importer) -> None:
    body = b" " * (MAX_BODY_BYTES + 1)
    answer, headers = importer.request("POST", ACCOUNTS, body)
    assert (answer.status, answer.body["code"]) == (413, "request_too_large")
    assert headers["content-type"] == "application/json"


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_another_content_type_is_refused(importer: Importer, content_type: str) -> None:
    answer, _ = importer.request("POST", ACCOUNTS, b"{}", {"Content-Type": content_type})
    assert (answer.status, answer.body["code"]) == (415, "unsupported_media_type")


@pytest.mark.promise("404-found")
@pytest.mark.asvs("V13.4.4")
@pytest.mark.api_top_10("API9")
@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/anything/", 404, "not_found"),
        ("GET", "/v3/anything/", 404, "not_found"),
        ("POST", "/v2/data-import/accounts/a/b/c/d/", 404, "not_found"),
        ("GET", ACCOUNTS, 405, "method_not_allowed"),
        ("DELETE", ACCOUNTS + "A/1/", 405, "method_not_allowed"),
        ("PUT", ACCOUNTS, 405, "method_not_allowed"),
        ("TRACE", ACCOUNTS, 405, "method_not_allowed"),
        ("GET", "/v1/graphql/", 405, "method_not_allowed"),
    ],
)
def test_an_unknown_path_or_method_is_answered_as_json(
    importer: Importer, method: str, path: str, status: int, code: str
) -> None:
    answer, headers = importer.request(method, path)
    assert (answer.status, answer.body["code"]) == (status, code)
    assert (status == 405) == ("allow" in headers)


@pytest.mark.parametrize("part", ["%ff", "%00", "%C3", "a%2500"])
def test_an_identifier_that_is_no_text_does_not_exist(importer: Importer, part: str) -> None:
    answer, _ = importer.request("GET", f"{ACCOUNTS}{importer.supplier}/{part}/")
    assert (answer.status, answer.body["code"]) == (404, "not_found")


JUNK: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
)


@pytest.mark.asvs("V2.2.2")
@settings(max_examples=150)
@given(
    st.binary(max_size=200)
    | JUNK.map(encoded)
    | st.dictionaries(st.sampled_from(sorted(an_account())), JUNK).map(encoded)
)
def test_no_body_is_answered_with_500(importer: Importer, body: bytes) -> None:
    answer, _ = importer.request("POST", ACCOUNTS + "validate/", body)
    assert answer.status == 400
    assert answer.body["code"] in ("parse_error", "account_failed_validation")
