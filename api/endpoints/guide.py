"""The guide at /docs/guide/, and the example account at /docs/account.json. Neither needs a token.

The guide is built from README.md and docs/ by `make docs` into `api/guide/`, and comes with the wheel. Its pages may
load nothing from anywhere else and run no scripts but its own: those that stand in a page are named by their hashes.
"""

import asyncio
import base64
import gzip
import hashlib
import re
from functools import cache
from pathlib import Path

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from api.http.status_codes import ApiError
from schemas.sentence import Sentence

HERE = Path(__file__).parent.parent
FOLDER = HERE / "guide"
EXAMPLE = HERE / "examples" / "account.json"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".txt": "text/plain; charset=utf-8",
}
"""What is served, by its ending; other files of the generator are not."""
_INLINE_SCRIPT = re.compile(rb"<script(?![^>]*\bsrc=)[^>]*>(.*?)</script>", re.DOTALL)


_NO_PAGE = Sentence("There is no such page in the guide.", "Diese Seite gibt es im Handbuch nicht.")
_NOT_BUILT = Sentence("The guide was not built: `make docs`.", "Das Handbuch wurde nicht gebaut: `make docs`.")


class Guide:
    """The handlers. The list of files is made at the start, so no path leads out of the folder."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._files = {
            str(file.relative_to(folder)): file
            for file in folder.rglob("*")
            if file.is_file() and file.suffix in TYPES and "_sources" not in file.parts
        }

    async def account(self, request: Request) -> Response:
        """An account that the service accepts, for the first steps."""
        return Response(_content(EXAMPLE)[0], media_type="application/json")

    async def to_first_page(self, request: Request) -> Response:
        return RedirectResponse("/docs/guide/", status_code=308)

    async def file(self, request: Request) -> Response:
        """A page of the guide, or what belongs to one. Raises ApiError 404."""
        path = request.path_params["path"] or "index.html"
        file = self._files.get(path)
        if file is None:
            raise ApiError(404, _NO_PAGE if self._files else _NOT_BUILT)
        plain, compressed, policy = await asyncio.to_thread(_content, file)
        etag = f'"{hashlib.sha256(plain).hexdigest()[:32]}"'
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
def _content(file: Path) -> tuple[bytes, bytes, str]:
    """A file's bytes, plain and compressed, and its Content-Security-Policy."""
    content = file.read_bytes()
    scripts = _INLINE_SCRIPT.findall(content) if file.suffix == ".html" else []
    allowed = sorted({f"'sha256-{base64.b64encode(hashlib.sha256(script).digest()).decode()}'" for script in scripts})
    policy = "; ".join(
        (
            "default-src 'none'",
            " ".join(("script-src 'self'", *allowed)),
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data:",
            "font-src 'self'",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'self'",
            "frame-ancestors 'none'",
        )
    )
    return content, gzip.compress(content, 9), policy
