"""`/metrics` on the public port, unless a separate port is set.

The page needs an operator's key for all suppliers, since metrics name suppliers, which other organisations may not see.
Requests from this machine need a key, too, since a proxy on this machine forwards the requests of all clients.
"""

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from api.access.auth import Authenticator
from api.http.database import with_timeout
from api.http.status_codes import ApiError
from schemas.sentence import Sentence
from telemetry.serving import Expose

OPERATORS = frozenset({"operator"})
WITHIN_S = 8.0
_ALL_ONLY = Sentence(
    "The key must be for all suppliers: these are their numbers.",
    "Der Schlüssel muss für alle Quellen gelten, denn es sind die Zahlen aller.",
)


class MetricsPage:
    """The handler. `expose` returns the metrics."""

    def __init__(self, expose: Expose, auth: Authenticator) -> None:
        self._expose = expose
        self._auth = auth

    async def read(self, request: Request) -> Response:
        """Answer with the metrics as text. Raises ApiError without an operator's key for all suppliers."""
        key = await self._auth.caller(request, OPERATORS)
        if key.reach is not None:
            raise ApiError(403, _ALL_ONLY)
        accept = request.headers.get("accept", "")
        body, media = await with_timeout(run_in_threadpool(self._expose, accept), within_s=WITHIN_S)
        return Response(body, 200, {"Content-Type": media, "Cache-Control": "no-store"})
