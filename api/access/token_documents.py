"""Answer GraphQL documents: parse, validate and execute them.

Callers may send secrets in the wrong place. Therefore errors repeat nothing that was sent: their sentences are
constant, and `locations` has the place of the error.
"""

import time
from functools import lru_cache
from typing import Any

import structlog
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
from psycopg import Error as PsycopgError
from psycopg_pool import PoolTimeout

from api.access.auth import Authenticator
from api.access.directory import Key
from eventstore.errors import StoreUnavailable

MAX_TOKENS = 250
"""Tokens of a document. A request for a token needs about 30; the cost of validation grows with the square."""
MAX_DOCUMENT = 8_192
MAX_CACHED = 64

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

logger = structlog.get_logger()


class TokenDocuments:
    """Executes GraphQL documents. The only mutation of the schema obtains tokens."""

    def __init__(self, auth: Authenticator) -> None:
        self._auth = auth
        self._root = {"service": "importledger", "obtainToken": self._obtain_token}

    async def answer(self, query: str, variables: dict[str, Any] | None, operation_name: str | None) -> dict[str, Any]:
        """Execute a document, and return its answer: a JSON object with `data`, `errors` or both."""
        document = _document(query)
        if isinstance(document, GraphQLError):
            return {"data": None, "errors": [document.formatted]}
        result = execute(SCHEMA, document, self._root, variable_values=variables, operation_name=operation_name)
        if not isinstance(result, ExecutionResult):
            result = await result
        if result.errors:
            result = ExecutionResult(result.data, [_shown(error) for error in result.errors])
        return dict(result.formatted)

    async def _obtain_token(self, info: GraphQLResolveInfo[Any], **arguments: dict[str, str | None]) -> dict[str, Any]:
        credentials = {name: value for name, value in arguments["input"].items() if value}
        if len(credentials) != 1:
            raise _error(
                "KT-CT-1137", "The input must have exactly one of organizationSecretKey, apiKey and refreshToken."
            )
        [(name, value)] = credentials.items()
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


@lru_cache(MAX_CACHED)
def _document(query: str) -> DocumentNode | GraphQLError:
    """Return the validated document, or the error if it is too long, not GraphQL, or does not fit the schema."""
    if len(query) > MAX_DOCUMENT:
        return _error("GRAPHQL_VALIDATION_FAILED", f"A document has {MAX_DOCUMENT} characters at most.")
    try:
        document = parse(query, max_tokens=MAX_TOKENS)
    except GraphQLError as error:
        return _error("GRAPHQL_PARSE_FAILED", "The document is not GraphQL, or too long.", error)
    if errors := validate(SCHEMA, document, max_errors=1):
        description = "The document must fit the schema: it has an unknown name or value."
        return _error("GRAPHQL_VALIDATION_FAILED", description, errors[0])
    return document


def _shown(error: GraphQLError) -> GraphQLError:
    """Return the error without internal details and without the content of other libraries' errors."""
    cause = error.original_error
    if error.extensions and "errorCode" in error.extensions:
        return error
    if isinstance(cause, StoreUnavailable | PsycopgError | PoolTimeout):
        return _error(
            "SERVICE_UNAVAILABLE", "The service cannot read at the moment. Repeat the request.", error, "APPLICATION"
        )
    if cause is not None and not isinstance(cause, GraphQLError):
        logger.error("unexpected error", route="/v1/graphql/", reason=type(cause).__name__)
        return _error("INTERNAL_SERVER_ERROR", "An unexpected error occurred.", error, "APPLICATION")
    return _error("BAD_USER_INPUT", "The variables or `operationName` do not fit the document.", error)


def _error(code: str, description: str, cause: GraphQLError | None = None, kind: str = "VALIDATION") -> GraphQLError:
    """Return an error with a code, at the place of its cause."""
    extensions = {"errorType": kind, "errorCode": code, "errorDescription": description}
    message = "Invalid data." if kind == "VALIDATION" else description
    if cause is None:
        return GraphQLError(message, extensions=extensions)
    return GraphQLError(
        message, cause.nodes, source=cause.source, positions=cause.positions, path=cause.path, extensions=extensions
    )
