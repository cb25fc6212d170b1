"""GraphQL for the mutation obtainToken of the contract. The answer is always 200; errors have an errorCode."""

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from api.http.responses import ANONYMOUS, json_response, read_body
from api.http.status_codes import ApiError
from api.operation import TOKENS, operation
from api.services import Endpoint
from schemas.sentence import Sentence

_NO_QUERY = Sentence(
    "The body must be a JSON object with a query.", "Der Inhalt muss ein JSON-Objekt mit einer Abfrage (query) sein."
)


class GraphQLRequest(msgspec.Struct, frozen=True, kw_only=True):
    """GraphQL document with its variables."""

    query: str
    """The GraphQL document (Abfrage)."""
    variables: dict[str, Any] | None = None
    """Variables of the document (Variablen)."""
    operationName: str | None = None  # noqa: N815 - the wire's name
    """Name of the operation to execute (Name der Operation)."""


class GraphQLAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Data or errors; `extensions.errorCode` of an error is permanent."""

    data: dict[str, Any] | None = None
    """Requested data (Daten)."""
    errors: list[dict[str, Any]] = []
    """Errors of the request (Fehler)."""


_decoder = msgspec.json.Decoder(GraphQLRequest)


class GraphQL(Endpoint):
    """The handler of POST /v1/graphql/."""

    @operation(
        "POST",
        "/v1/graphql/",
        TOKENS,
        answers={200: GraphQLAnswer},
        body=GraphQLRequest,
        refusals=(408, 413, 415, 503),
        example={
            "query": 'mutation { obtainToken(input: {organizationSecretKey: "ilk_..."}) '
            "{ token payload refreshToken refreshExpiresIn } }"
        },
    )
    async def obtain_token(self, request: Request) -> Response:
        """Obtain a token for a key or a refresh token, by GraphQL.

        The answer is always 200; errors have an errorCode.
        """
        try:
            sent = _decoder.decode(await read_body(request, ANONYMOUS, address=self._services.address_of(request)))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise ApiError(400, _NO_QUERY, code="parse_error") from None
        # Imported here: the library is large, and most processes answer no GraphQL.
        from api.access.token_documents import TokenDocuments

        documents = TokenDocuments(self._services.auth)
        return json_response(await documents.answer(sent.query, sent.variables, sent.operationName))
