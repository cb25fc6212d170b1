"""The service's description of itself: openapi.json, the list of error codes, the reference page.

Pages and their assets come with the package; a page may load nothing from anywhere else. None of them needs a token.
"""

import asyncio
import gzip
import hashlib
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from api.description.catalogue import CATALOGUE, ErrorCode
from api.description.openapi import openapi
from api.http.errors import not_found
from api.http.languages import JSON, language_headers, language_of
from api.http.responses import JsonResponse, encoded
from api.operation import SERVICE, operation
from api.services import Services

_HERE = Path(__file__).parent.parent
_ASSETS = {
    file.name: file
    for folder in ("pages", "vendor/swagger-ui")
    for file in (_HERE / folder).iterdir()
    if file.suffix in (".js", ".css")
}
_TYPES = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}
_PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; font-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


class Documentation:
    """The handlers. What is answered is made once; the description, which takes longest, when it is first asked for."""

    def __init__(self, services: Services) -> None:
        self._operations = services.operations
        self._errors = {language: encoded(CATALOGUE, language) for language in JSON}

    @operation("GET", "/openapi.json", SERVICE, answers={200: dict[str, Any], 304: None}, is_slashed=False)
    async def read_description(self, request: Request) -> Response:
        """This description."""
        description, etag = await asyncio.to_thread(lambda: self._description)
        headers = {"ETag": etag, "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == etag:
            return Response(status_code=304, headers=headers)
        return JsonResponse(description, 200, headers)

    @cached_property
    def _description(self) -> tuple[bytes, str]:
        """The document, and the tag by which a client knows whether it has it."""
        document = msgspec.json.encode(openapi(self._operations))
        return document, f'"{hashlib.sha256(document).hexdigest()[:32]}"'

    @operation("GET", "/errors/", SERVICE, answers={200: list[ErrorCode]})
    async def list_errors(self, request: Request) -> Response:
        """Every error code: what it means, where it is met, an example."""
        language = language_of(request)
        return JsonResponse(self._errors[language], 200, language_headers(language))

    @operation("GET", "/docs/", SERVICE, answers={200: None})
    async def read_reference(self, request: Request) -> Response:
        """This description as an interactive page."""
        return _page("docs.html")

    async def asset(self, request: Request) -> Response:
        """A script or style sheet of the pages."""
        file = _ASSETS.get(request.path_params["name"])
        if file is None:
            raise not_found()
        is_compressed = "gzip" in request.headers.get("accept-encoding", "")
        headers = {"Cache-Control": "max-age=3600", "Vary": "Accept-Encoding", **_PAGE_HEADERS}
        headers |= {"Content-Encoding": "gzip"} if is_compressed else {}
        content = await asyncio.to_thread(_asset, file, is_compressed)
        return Response(content, media_type=_TYPES[file.suffix], headers=headers)


@cache
def _asset(file: Path, is_compressed: bool) -> bytes:
    """An asset's bytes, compressed once."""
    return gzip.compress(file.read_bytes(), 9) if is_compressed else file.read_bytes()


def _page(name: str) -> Response:
    return Response((_HERE / "pages" / name).read_bytes(), media_type="text/html", headers=_PAGE_HEADERS)
