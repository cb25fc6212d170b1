"""The service's own app with one more route: token check and an untyped decode, nothing else. A peer for validation."""

import os

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from api.access.auth import WRITERS
from api.app import create_app
from api.http.paths import Endpoint
from api.http.responses import JsonResponse, read_body
from bench.peers.server import serve

_decode = msgspec.json.Decoder().decode


def main() -> None:
    app = create_app(os.environ["DATABASE_URL"], os.environ["IMPORTLEDGER_TOKEN_KEY"].encode())

    async def untyped(request: Request) -> Response:
        await app.state.auth.caller(request, WRITERS)
        _decode(await read_body(request))
        return JsonResponse(b"{}", 200)

    app.router.routes.insert(0, Route("/v2/data-import/accounts/untyped/", Endpoint(untyped), methods=["POST"]))
    serve(app)


if __name__ == "__main__":
    main()
