"""Keys, tokens and roles."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import OctKey

from embedded.postgres import PostgresUrls
from tests.support.make import encoded
from tests.support.running import Importer, RunningService, wait_for
from tests.support.serving import running

STATUS = "/v1/data-import/all-account-import-processes/{}/"


def graphql(service: RunningService, query: str, **variables: Any) -> dict[str, Any]:
    body = encoded({"query": query, "variables": variables})
    answer, _ = service.request("POST", "/v1/graphql/", body, {"Content-Type": "application/json"})
    assert answer.status == 200
    found: dict[str, Any] = answer.body
    return found


def obtain(service: RunningService, **given: str) -> dict[str, Any]:
    return graphql(
        service,
        "mutation($input: ObtainTokenInput!) {"
        " obtainToken(input: $input) { token payload refreshToken refreshExpiresIn } }",
        input=given,
    )


def read(service: RunningService, importer: Importer, header: str | None) -> tuple[int, str | None]:
    headers = {"Authorization": header} if header is not None else {}
    answer, _ = service.request("GET", STATUS.format(importer.supplier), headers=headers)
    return answer.status, answer.body["code"] if answer.status != 200 else None


@pytest.mark.promise("header-word-token-token")
@pytest.mark.parametrize("form", ["Token {}", "{}", "Bearer {}", "JWT {}", "token {}", "Token   {}"])
def test_a_token_is_taken_in_every_documented_form(service: RunningService, importer: Importer, form: str) -> None:
    for credential in (importer.client.token(), importer.api_key):
        assert read(service, importer, form.format(credential)) == (200, None)


@pytest.mark.promise("header-word-token-token")
@pytest.mark.asvs("V9.1.1", "V9.1.2", "V9.1.3", "V9.2.3")
@pytest.mark.api_top_10("API2")
@pytest.mark.parametrize(
    ("header", "code"),
    [
        (None, "not_authenticated"),
        ("", "not_authenticated"),
        ("Token x", "authentication_failed"),
        ("Token a b c", "authentication_failed"),
        ("Basic abc", "authentication_failed"),
        ("Token ilk_aaaaaaaa_" + "A" * 43, "authentication_failed"),
        (
            "Token eyJhbGciOiJub25lIn0.eyJrZXkiOiJ4IiwidXNlIjoiYWNjZXNzIiwiZXhwIjo5OTk5OTk5OTk5fQ.",
            "authentication_failed",
        ),
    ],
)
def test_bad_credentials_are_401(service: RunningService, importer: Importer, header: str | None, code: str) -> None:
    assert read(service, importer, header) == (401, code)


@pytest.mark.promise("token-obtaintoken-organisation-s")
@pytest.mark.asvs("V10.4.10")
def test_a_key_buys_a_token_and_a_refresh_token_buys_another(service: RunningService, importer: Importer) -> None:
    for name in ("organizationSecretKey", "apiKey"):
        obtained = obtain(service, **{name: importer.api_key})["data"]["obtainToken"]
        payload = obtained["payload"]
        assert payload["exp"] - payload["iat"] == 3600
        assert obtained["refreshExpiresIn"] - payload["iat"] == 7 * 24 * 3600
        renewed = obtain(service, refreshToken=obtained["refreshToken"])["data"]["obtainToken"]
        assert renewed["refreshExpiresIn"] == obtained["refreshExpiresIn"]
        assert read(service, importer, f"Token {renewed['token']}") == (200, None)


@pytest.fixture(scope="module")
def alone(shared_database: PostgresUrls) -> Iterator[Importer]:
    """An importer at an api whose signing key the test knows."""
    with running(shared_database) as service:
        yield service.importer()


@pytest.mark.asvs("V9.1.1", "V9.1.2", "V9.2.1", "V9.2.2", "V10.3.1")
@pytest.mark.parametrize("change", ["none", "key", "algorithm", "exp", "iss", "use"])
def test_a_token_that_has_ended_or_was_signed_otherwise_opens_nothing(alone: Importer, change: str) -> None:
    claims: dict[str, Any] = {"iss": "importledger", "key": alone.api_key.split("_")[1], "use": "access"}
    claims |= {"exp": int(time.time()) + (-1 if change == "exp" else 60)}
    claims |= {"iss": "another"} if change == "iss" else {"use": "refresh"} if change == "use" else {}
    secret = OctKey.import_key((b"x" if change == "key" else b"k") * 32)
    algorithm = "HS512" if change == "algorithm" else "HS256"
    token = jwt.encode({"alg": algorithm}, claims, secret, algorithms=[algorithm])
    answered = read(alone.service, alone, f"Token {token}")
    assert answered == ((200, None) if change == "none" else (401, "authentication_failed"))


SECRET = "ilk_abcdefgh_THE-SECRET-OF-SOMEBODY"
_OBTAIN = "mutation($input: ObtainTokenInput!) { obtainToken(input: $input) { token } }"


@pytest.mark.promise("graphql-s-errors-errorcode")
@pytest.mark.asvs("V16.5.1")
@pytest.mark.parametrize(
    ("query", "variables", "code"),
    [
        ("mutation {", {}, "GRAPHQL_PARSE_FAILED"),
        (f"mutation {{ obtainToken(input: {{apiKey: '{SECRET}'}}) {{ token }} }}", {}, "GRAPHQL_PARSE_FAILED"),
        ("", {}, "GRAPHQL_PARSE_FAILED"),
        ("{ nothing }", {}, "GRAPHQL_VALIDATION_FAILED"),
        (f'mutation {{ obtainToken(input: {{apiKeyy: "{SECRET}"}}) {{ token }} }}', {}, "GRAPHQL_VALIDATION_FAILED"),
        (f'mutation {{ obtainToken(input: "{SECRET}") {{ token }} }}', {}, "GRAPHQL_VALIDATION_FAILED"),
        (f'mutation {{ obtainToken(apiKey: "{SECRET}") {{ token }} }}', {}, "GRAPHQL_VALIDATION_FAILED"),
        ("mutation { obtainToken(input: {apiKey: THE_SECRET}) { token } }", {}, "GRAPHQL_VALIDATION_FAILED"),
        ("mutation { THE_SECRET }", {}, "GRAPHQL_VALIDATION_FAILED"),
        ("x" * 20_000, {}, "GRAPHQL_VALIDATION_FAILED"),
        ("{ service " + "a " * 400 + "}", {}, "GRAPHQL_PARSE_FAILED"),
        (_OBTAIN, {"input": {"apiKeyy": SECRET}}, "BAD_USER_INPUT"),
        (_OBTAIN, {"input": SECRET}, "BAD_USER_INPUT"),
        (_OBTAIN, {"input": {SECRET: "x"}}, "BAD_USER_INPUT"),
        (_OBTAIN, {"input": {"apiKey": [SECRET]}}, "BAD_USER_INPUT"),
        (_OBTAIN, {"inputt": {"apiKey": SECRET}}, "BAD_USER_INPUT"),
        (_OBTAIN, {"input": {"apiKey": SECRET}}, "KT-CT-1139"),
        (_OBTAIN, {"input": {"organizationSecretKey": SECRET}}, "KT-CT-1140"),
        (_OBTAIN, {"input": {"refreshToken": "x.y.z"}}, "KT-CT-1135"),
        (_OBTAIN, {"input": {}}, "KT-CT-1137"),
        (_OBTAIN, {"input": {"apiKey": SECRET, "refreshToken": "y"}}, "KT-CT-1137"),
    ],
)
def test_an_error_of_graphql_has_a_code_and_repeats_no_secret(
    service: RunningService, query: str, variables: dict[str, Any], code: str
) -> None:
    found = graphql(service, query, **variables)
    [error] = found["errors"]
    assert error["extensions"]["errorCode"] == code
    assert "SECRET" not in json.dumps(found)
    assert error["message"]


@pytest.mark.asvs("V4.3.2")
def test_aliases_fragments_and_introspection_work(service: RunningService) -> None:
    assert graphql(service, "{ a: service ...f } fragment f on Query { b: service }")["data"] == {
        "a": "importledger",
        "b": "importledger",
    }
    assert graphql(service, "{ __schema { mutationType { name } } }")["data"]["__schema"]["mutationType"]


def test_a_body_that_is_no_graphql_is_400(service: RunningService) -> None:
    for body in (b"", b"[]", b'{"query": 5}', b"\xff"):
        answer, _ = service.request("POST", "/v1/graphql/", body, {"Content-Type": "application/json"})
        assert (answer.status, answer.body["code"]) == (400, "parse_error")


@pytest.mark.asvs("V10.4.9")
@pytest.mark.api_top_10("API2")
def test_a_revoked_key_and_its_tokens_are_void(service: RunningService) -> None:
    revoked = service.importer()
    token = revoked.client.token()
    key_id = revoked.api_key.split("_")[1]
    assert read(service, revoked, f"Token {token}") == (200, None)
    service.cli("key", "revoke", key_id, "--reason", "lost")
    wait_for(lambda: read(service, revoked, f"Token {token}")[0] == 401, "the token is void")
    assert read(service, revoked, f"Token {revoked.api_key}")[0] == 401
    listed = [json.loads(line) for line in service.cli("key", "list", "--json").stdout.splitlines()]
    [entry] = [line for line in listed if line["key_id"] == key_id]
    assert entry["revoked_at"] is not None
    assert revoked.api_key not in service.cli("key", "list").stdout
