"""The choice of language."""

from starlette.responses import Response

from console.access import cookies
from console.access.visit import ROOT, Visit, action
from console.presentation.texts import LANGUAGES


@action("/language/", roles=None)
async def choose_language(visit: Visit) -> Response:
    """Show all pages in another language from now on."""
    chosen = visit.form.text("language")
    if chosen in LANGUAGES:
        visit.set_cookie(cookies.LANGUAGE, chosen, cookies.YEAR)
    return visit.redirect(local_address(visit.form.text("next")))


def local_address(address: str) -> str:
    """The address where it is one of the console's, and its first page otherwise: nobody is led elsewhere."""
    is_ours = address.startswith(f"{ROOT}/") and address.isprintable() and "\\" not in address
    return address if is_ours else f"{ROOT}/"


SCREENS = (choose_language,)
