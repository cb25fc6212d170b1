"""GraphQL, for the one mutation that the contract has: obtainToken. Always answers 200; errors carry errorCode."""

import time
from functools import lru_cache
from typing import Any

import msgspec
from graphql import (
    DocumentNode,
    ExecutionResult,
    GraphQLError,
    GraphQLResolveInfo,
    build_schema,
    execute,
    parse,
    validate,
)
from starlette.requests import Request
from starlette.responses import Response

from api.directory import Key
from api.operation import TOKENS, Operation
from api.refusals import ApiError
from api.responses import json_response, read_body
from api.services import Services

MAX_TOKENS = 1_000
MAX_DOCUMENT = 16_384

SCHEMA = build_schema('''
"""Any JSON object."""
scalar GenericScalar

type Query {
  """The service's name."""
  service: String!
}

"""Exactly one of the three."""
input ObtainTokenInput {
  organizationSecretKey: String
  apiKey: String
  refreshToken: String
}

type ObtainToken {
  """Goes into the Authorization header, after the word Token."""
  token: String!
  """The token's claims; exp is when it ends, in seconds since 1970."""
  payload: GenericScalar!
  """Obtains further tokens until it expires itself."""
  refreshToken: String
  """When the refresh token expires, in seconds since 1970."""
  refreshExpiresIn: Int
}

type Mutation {
  """A token of 60 minutes for the data import endpoints."""
  obtainToken(input: ObtainTokenInput!): ObtainToken
}
''')


class GraphQLRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A GraphQL document, and what it needs."""

    query: str
    variables: dict[str, Any] | None = None
    operationName: str | None = None  # noqa: N815 - the wire's name


class GraphQLAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Data or errors; `extensions.errorCode` of an error is permanent."""

    data: dict[str, Any] | None = None
    errors: list[dict[str, Any]] = []


_decoder = msgspec.json.Decoder(GraphQLRequest)


class GraphQL:
    """The handler of POST /v1/graphql/."""

    def __init__(self, services: Services) -> None:
        self._auth = services.auth
        self._root = {"service": "importledger", "obtainToken": self._obtain_token}

    async def answer(self, request: Request) -> Response:
        """200 with data or errors; 400 only for what is no GraphQL request at all."""
        try:
            asked = _decoder.decode(await read_body(request))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise ApiError(400, "Expected a JSON object with a query.", code="parse_error") from None
        try:
            document = _document(asked.query)
        except GraphQLError as error:
            return json_response({"data": None, "errors": [error.formatted]})
        result = execute(
            SCHEMA, document, self._root, variable_values=asked.variables, operation_name=asked.operationName
        )
        if not isinstance(result, ExecutionResult):
            result = await result
        return json_response(result.formatted)

    async def _obtain_token(self, info: GraphQLResolveInfo[Any], **arguments: dict[str, str | None]) -> dict[str, Any]:
        given = {name: value for name, value in arguments["input"].items() if value}
        if len(given) != 1:
            raise _error("KT-CT-1137", "Give exactly one of organizationSecretKey, apiKey and refreshToken.")
        [(name, value)] = given.items()
        if name == "refreshToken":
            return await self._refreshed(value)
        key = await self._auth.key_of_secret(value)
        if key is None:
            raise _error("KT-CT-1140" if name == "organizationSecretKey" else "KT-CT-1139", "The key is not valid.")
        refresh = self._auth.issue(key, "refresh")
        return self._tokens(key, refresh.text, refresh.claims["exp"])

    async def _refreshed(self, text: str) -> dict[str, Any]:
        key, ends = await self._auth.key_of_refresh_token(text), self._auth.expires_at(text)
        if key is None and ends is not None and ends <= time.time():
            raise _error("KT-CT-1134", "The refresh token has expired.")
        if key is None or ends is None:
            raise _error("KT-CT-1135", "The refresh token is not valid.")
        return self._tokens(key, text, ends)

    def _tokens(self, key: Key, refresh_token: str, refresh_ends: int) -> dict[str, Any]:
        token = self._auth.issue(key)
        return {
            "token": token.text,
            "payload": token.claims,
            "refreshToken": refresh_token,
            "refreshExpiresIn": refresh_ends,
        }


@lru_cache(256)
def _document(query: str) -> DocumentNode:
    """Parsed and validated; raises the first GraphQLError."""
    if len(query) > MAX_DOCUMENT:
        raise GraphQLError("The document is too long.")
    document = parse(query, max_tokens=MAX_TOKENS)
    if errors := validate(SCHEMA, document):
        raise errors[0]
    return document


def _error(code: str, description: str) -> GraphQLError:
    extensions = {"errorType": "VALIDATION", "errorCode": code, "errorDescription": description}
    return GraphQLError("Invalid data.", extensions=extensions)


OPERATIONS = (
    Operation(
        handler=GraphQL.answer,
        name="obtain_token",
        method="POST",
        path="/v1/graphql/",
        tag=TOKENS,
        summary="GraphQL: obtain a token for a key or a refresh token. Always 200; errors carry errorCode.",
        answers={200: GraphQLAnswer},
        body=GraphQLRequest,
        refuses=(400, 408, 413, 415, 503),
        example={
            "query": 'mutation { obtainToken(input: {organizationSecretKey: "ilk_..."}) '
            "{ token payload refreshToken refreshExpiresIn } }"
        },
    ),
)
