"""Who may call what: every operation by every role, for the own and a foreign supplier, with every kind of token."""

import itertools
import json
from typing import Any

import msgspec
import pytest

from api.auth import READERS
from api.operation import Operation
from api.operations import OPERATIONS
from tests.support.make import encoded
from tests.support.running import RunningService

ROLES = sorted(READERS)
GUARDED = [operation for operation in OPERATIONS if operation.roles]
UNKNOWN = "NOBODYS"


class Caller(msgspec.Struct, frozen=True):
    """A role's credentials by kind, for one supplier."""

    supplier: str
    credentials: dict[str, str]


@pytest.fixture(scope="module")
def callers(service: RunningService) -> dict[str, Caller]:
    """One caller of each role; all have the same supplier, on which there is nothing."""
    supplier = service.importer().supplier
    return {role: Caller(supplier, credentials(service, supplier, role)) for role in ROLES}


@pytest.fixture(scope="module")
def foreign(service: RunningService) -> str:
    return service.importer().supplier


def credentials(service: RunningService, supplier: str, role: str) -> dict[str, str]:
    made = service.cli("key", "create", "Roles", "--supplier", supplier, "--role", role, "--json")
    key = json.loads(made.stdout)["api_key"]
    revoked = json.loads(service.cli("key", "create", "Roles", "--supplier", supplier, "--json").stdout)
    service.cli("key", "revoke", revoked["api_key"].split("_")[1])
    query = "mutation($input: ObtainTokenInput!) { obtainToken(input: $input) { token refreshToken } }"
    body = encoded({"query": query, "variables": {"input": {"organizationSecretKey": key}}})
    answer, _ = service.request("POST", "/v1/graphql/", body, {"Content-Type": "application/json"})
    tokens = answer.body["data"]["obtainToken"]
    return {
        "key": key,
        "access token": tokens["token"],
        "refresh token": tokens["refreshToken"],
        "revoked key": revoked["api_key"],
        "nothing": "",
    }


def answered(service: RunningService, operation: Operation, supplier: str, credential: str) -> tuple[int, Any]:
    path = operation.path.replace("{supplier}", supplier).replace("{external}", "NONE-1").replace("{run}", "none")
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Token {credential}"} if credential else {})
    body = encoded(operation.example) if operation.method == "POST" else None
    answer, fields = service.request(operation.method, path, body, headers)
    named = {name.lower(): value for name, value in fields.items()}
    assert (named["cache-control"], named["x-content-type-options"]) == ("no-store", "nosniff"), "what it holds is kept"
    return answer.status, answer.body


@pytest.mark.parametrize("operation", GUARDED, ids=lambda operation: operation.name)
def test_an_operation_admits_exactly_the_roles_of_its_row(
    service: RunningService, callers: dict[str, Caller], foreign: str, operation: Operation
) -> None:
    for role, kind in itertools.product(ROLES, ("key", "access token")):
        caller = callers[role]
        status, body = answered(service, operation, caller.supplier, caller.credentials[kind])
        if role in (operation.roles or ()):
            assert status not in (401, 403, 500), (role, kind, body)
        else:
            assert (status, body["code"]) == (403, "permission_denied"), (role, kind, body)


@pytest.mark.parametrize("operation", GUARDED, ids=lambda operation: operation.name)
def test_no_cache_keeps_what_is_answered_and_no_browser_guesses_its_type(
    service: RunningService, callers: dict[str, Caller], operation: Operation
) -> None:
    """Each answer of these tests is looked at; here, one to each who is admitted and one who is not."""
    for caller in callers.values():
        answered(service, operation, caller.supplier, caller.credentials["key"])
        answered(service, operation, caller.supplier, caller.credentials["nothing"])


@pytest.mark.parametrize("operation", GUARDED, ids=lambda operation: operation.name)
@pytest.mark.parametrize("kind", ["refresh token", "revoked key", "nothing"])
def test_an_operation_admits_nobody_without_a_valid_credential(
    service: RunningService, callers: dict[str, Caller], operation: Operation, kind: str
) -> None:
    for role in ROLES:
        status, _ = answered(service, operation, callers[role].supplier, callers[role].credentials[kind])
        assert status == 401, (role, kind)


@pytest.mark.parametrize(
    "operation", [operation for operation in GUARDED if "{supplier}" in operation.path], ids=lambda o: o.name
)
def test_a_foreign_supplier_looks_like_one_that_does_not_exist(
    service: RunningService, callers: dict[str, Caller], foreign: str, operation: Operation
) -> None:
    for role in sorted(operation.roles or ()):
        key = callers[role].credentials["key"]
        of_foreign, of_unknown = (answered(service, operation, code, key) for code in (foreign, UNKNOWN))
        assert of_foreign == of_unknown, role
        assert of_foreign == (200, []) if operation.is_foreign_empty else of_foreign[0] == 404, role
