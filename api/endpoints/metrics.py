"""`/metrics` on the public port, where it has no port of its own: for this machine, and for operators' keys.

The numbers name suppliers, of which no importer may see another's: whoever comes from elsewhere, or through a proxy,
needs a key whose role is operator.
"""

import ipaddress

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from api.auth import Authenticator
from api.database import in_time
from telemetry.serving import Expose

OPERATORS = frozenset({"operator"})
_FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip", "via")
WITHIN_S = 8.0


class MetricsPage:
    """Its handler. `expose` gives what is to be shown."""

    def __init__(self, expose: Expose, auth: Authenticator) -> None:
        self._expose = expose
        self._auth = auth

    async def read(self, request: Request) -> Response:
        """200 with the metrics as text. Raises ApiError for strangers from elsewhere."""
        if not is_from_here(request):
            await self._auth.caller(request, OPERATORS)
        accept = request.headers.get("accept", "")
        body, media = await in_time(run_in_threadpool(self._expose, accept), within_s=WITHIN_S)
        return Response(body, 200, {"Content-Type": media, "Cache-Control": "no-store"})


def is_from_here(request: Request) -> bool:
    """Whether a request comes from this machine itself, and asks it by a name that only this machine has."""
    if request.client is None or any(name in request.headers for name in _FORWARDED):
        return False
    asked = request.headers.get("host", "").rpartition(":")[0] or request.headers.get("host", "")
    return _is_loopback(request.client.host) and (asked == "localhost" or _is_loopback(asked.strip("[]")))


def _is_loopback(text: str) -> bool:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)
