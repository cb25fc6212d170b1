"""The service's description of itself: openapi.json, error codes, the reference page, the guide.

Pages and their assets come with the package; `make docs` builds the guide from README.md and docs/ into `api/guide/`.
Pages load no content from other servers, and run only their own scripts: inline scripts are allowed by their hashes.
Pages need no token.
"""

import asyncio
import base64
import gzip
import hashlib
import re
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from api.description.catalogue import CATALOGUE, ErrorCode
from api.description.openapi import openapi
from api.http.errors import not_found
from api.http.languages import JSON, language_headers, language_of
from api.http.responses import JsonResponse, encoded
from api.http.status_codes import ApiError
from api.operation import SERVICE, operation
from api.services import Services
from schemas.sentence import Sentence

_HERE = Path(__file__).parent.parent
_GUIDE = _HERE / "guide"
_REFERENCE = (_HERE / "pages", _HERE / "vendor" / "swagger-ui")
_ASSETS = {file.name: file for folder in _REFERENCE for file in folder.iterdir() if file.suffix in (".js", ".css")}
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".txt": "text/plain; charset=utf-8",
}
"""Media types by suffix. The guide's generator also writes files with other suffixes, which are not served."""
_INLINE_SCRIPT = re.compile(rb"<script(?![^>]*\bsrc=)[^>]*>(.*?)</script>", re.DOTALL)
_NO_PAGE = Sentence("There is no such page in the guide.", "Diese Seite gibt es im Handbuch nicht.")
_NOT_BUILT = Sentence("The guide was not built: `make docs`.", "Das Handbuch wurde nicht gebaut: `make docs`.")


class Documentation:
    """The handlers of descriptions. Answers are built once and cached, openapi.json at its first request."""

    def __init__(self, services: Services) -> None:
        self._operations = services.operations
        self._errors = {language: encoded(CATALOGUE, language) for language in JSON}

    @operation("GET", "/errors/", SERVICE, answers={200: list[ErrorCode]})
    async def list_errors(self, request: Request) -> Response:
        """List every error code with its meaning, cause, remedy and an example."""
        language = language_of(request)
        return JsonResponse(self._errors[language], 200, language_headers(language))

    @operation("GET", "/openapi.json", SERVICE, answers={200: dict[str, Any], 304: None}, is_slashed=False)
    async def read_description(self, request: Request) -> Response:
        """Read this description."""
        description, etag = await asyncio.to_thread(lambda: self._description)
        headers = {"ETag": etag, "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == etag:
            return Response(status_code=304, headers=headers)
        return JsonResponse(description, 200, headers)

    @cached_property
    def _description(self) -> tuple[bytes, str]:
        """Return the OpenAPI document and its entity tag."""
        document = msgspec.json.encode(openapi(self._operations))
        return document, f'"{hashlib.sha256(document).hexdigest()[:32]}"'

    @operation("GET", "/docs/", SERVICE, answers={200: None})
    async def read_reference(self, request: Request) -> Response:
        """Read this description as an interactive page."""
        return await _served(request, _HERE / "pages" / "docs.html")


class Guide:
    """The handlers of pages and files. The list of files is made at the start, so no path leads out of the folder."""

    def __init__(self, folder: Path = _GUIDE) -> None:
        self._files = {
            str(file.relative_to(folder)): file
            for file in folder.rglob("*")
            if file.is_file() and file.suffix in TYPES and "_sources" not in file.parts
        }

    async def account(self, request: Request) -> Response:
        """Answer with an example account that the service accepts, for the first steps."""
        return Response(content_of(_HERE / "examples" / "account.json")[0], media_type="application/json")

    async def asset(self, request: Request) -> Response:
        """Answer with a script or style sheet of the reference page. Raises ApiError 404."""
        file = _ASSETS.get(request.path_params["name"])
        if file is None:
            raise not_found()
        return await _served(request, file)

    async def to_first_page(self, request: Request) -> Response:
        """Redirect to the guide's first page."""
        return RedirectResponse("/docs/guide/", status_code=308)

    async def to_guide(self, request: Request) -> Response:
        """Redirect `/` to the guide, or to the API's reference page if the guide was not built."""
        return RedirectResponse("/docs/guide/" if self._files else "/docs/", status_code=307)

    async def file(self, request: Request) -> Response:
        """Answer with a page of the guide, or a file that belongs to one. Raises ApiError 404."""
        file = self._files.get(request.path_params["path"] or "index.html")
        if file is None:
            raise ApiError(404, _NO_PAGE if self._files else _NOT_BUILT)
        return await _served(request, file)


async def _served(request: Request, file: Path) -> Response:
    """Answer with a file, compressed if the client accepts gzip; 304 if the client has this version."""
    plain, compressed, policy, etag = await asyncio.to_thread(content_of, file)
    headers = {
        "Cache-Control": "no-cache",
        "Content-Security-Policy": policy,
        "ETag": etag,
        "Referrer-Policy": "no-referrer",
        "Vary": "Accept-Encoding",
        "X-Content-Type-Options": "nosniff",
    }
    if request.headers.get("if-none-match") == etag:
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(compressed, headers=headers | {"Content-Encoding": "gzip"}, media_type=TYPES[file.suffix])
    return Response(plain, headers=headers, media_type=TYPES[file.suffix])


@cache
def content_of(file: Path) -> tuple[bytes, bytes, str, str]:
    """Return a file's bytes, plain and compressed, its Content-Security-Policy, and its entity tag."""
    content = file.read_bytes()
    scripts = _INLINE_SCRIPT.findall(content) if file.suffix == ".html" else []
    allowed = sorted({f"'sha256-{base64.b64encode(hashlib.sha256(script).digest()).decode()}'" for script in scripts})
    sources = " ".join(("'self'", *allowed))
    is_reference = file.parent in _REFERENCE  # style sheets of references have fonts; the guide has a search form
    fonts, forms = ("'self' data:", "'none'") if is_reference else ("'self'", "'self'")
    policy = (
        f"default-src 'none'; script-src {sources}; style-src 'self' 'unsafe-inline'; "
        f"img-src 'self' data:; font-src {fonts}; connect-src 'self'; base-uri 'none'; form-action {forms}; "
        "frame-ancestors 'none'"
    )
    return content, gzip.compress(content, 9), policy, f'"{hashlib.sha256(content).hexdigest()[:32]}"'
