"""The console's addresses: its screens, the files that its pages load, and a page for all others."""

import asyncio
from collections.abc import Iterator
from importlib.util import find_spec

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from api.endpoints.documentation import TYPES, content_of
from api.http.errors import not_found
from api.http.paths import both_forms, single_form
from api.services import Services
from console.access.checkup import Checkup
from console.access.guard import handler
from console.access.visit import ROOT, Console, Screen, Visit
from console.presentation.rendering import ASSETS, HEADERS
from console.screens import SCREENS
from console.settings import ConsoleSettings


def console_routes(services: Services, *, settings: ConsoleSettings | None = None) -> Iterator[Route]:
    """Yield all routes of the console."""
    settings, openid = settings or ConsoleSettings(), None
    if settings.openid is not None:
        from console.access.openid import OpenIdProvider  # imported here: only this provider needs an HTTP client

        openid = OpenIdProvider(settings.openid)
    navigation = tuple(
        screen
        for screen in SCREENS
        if screen.nav
        and (settings.four_eyes or screen.path != "/proposals/")
        and (find_spec("importledger_client") or screen.path != "/books/")  # steps of books run this package
    )
    console = Console(services, settings, openid, navigation, Checkup(settings.examine))
    for screen in SCREENS:
        yield from both_forms(ROOT + screen.path, handler(console, screen), screen.method)
    yield from single_form(f"{ROOT}/assets/{{name}}", _asset_answer, "GET")
    nowhere = Screen(function=_nowhere, path="/", method="GET", roles=None)
    yield from single_form(f"{ROOT}/{{path:path}}", handler(console, nowhere), "GET", "POST")


async def _nowhere(visit: Visit) -> Response:
    raise not_found()


async def _asset_answer(request: Request) -> Response:
    """Answer with a script or style sheet, whose address changes with its content, so that browsers may cache it."""
    file = ASSETS.get(request.path_params["name"])
    if file is None:
        raise not_found()
    is_compressed = "gzip" in request.headers.get("accept-encoding", "")
    headers = HEADERS | {"Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding"}
    headers |= {"Content-Encoding": "gzip"} if is_compressed else {}
    plain, compressed, *_ = await asyncio.to_thread(content_of, file)
    return Response(compressed if is_compressed else plain, media_type=TYPES[file.suffix], headers=headers)
