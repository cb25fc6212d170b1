"""`Visit`: one request to the console, with the helpers that screens use."""

import asyncio
import hmac
import secrets
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import quote, unquote

import msgspec
from markupsafe import Markup
from psycopg import AsyncConnection
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from api.access.auth import authentication_failed
from api.http.database import read, with_timeout
from api.http.errors import query_not_valid
from api.http.fields import FIELDS
from api.http.languages import Language, language_of
from api.http.paths import identifier
from api.http.status_codes import ApiError
from api.services import Services
from console.access import cookies
from console.access.checkup import Checkup
from console.access.people import Person
from console.access.saved_filters import address_to_save, read_filters
from console.access.transport import Transport
from console.presentation.forms import Form
from console.presentation.listing import hidden, revealed
from console.presentation.refill import SEEN, UNKEPT, Fields
from console.presentation.rendering import rendered
from console.presentation.texts import LANGUAGES, N_, translations
from console.settings import ConsoleSettings
from eventstore.aggregates.aggregate import Command
from eventstore.clock import now
from eventstore.events import Recorded
from eventstore.log.ledger import WriteRows
from projections.auxiliary.sessions import OpenSession, new_token, open_session
from projections.auxiliary.typed_reasons import MAX_REASON
from schemas.base import Problem
from schemas.sentence import Sentence, german_of

if TYPE_CHECKING:
    from console.access.openid import OpenIdProvider

P = ParamSpec("P")
T = TypeVar("T")
ROOT = "/console"
WRITE_TIMEOUT_S = 10.0
STALE = N_("The form must come from a page of this session. Reload the page and send the form again.")
MAX_COOKIE = 3_500
"""Characters of a form in a cookie. Browsers drop cookies of more than 4,096."""
_HOMES = dict.fromkeys(("/keys/", "/users/"), f"{ROOT}/suppliers/")
"""Navigation entry that is marked on pages below a path, by path."""


class Screen(msgspec.Struct, frozen=True, kw_only=True):
    """A page or a form: its address, the roles that may use it, and the function that answers it."""

    function: Callable[["Visit"], Awaitable[Response]]
    path: str
    method: str
    roles: frozenset[str] | None
    """Roles that may use the screen; None for pages without a session, such as the sign-in page."""
    nav: str = ""
    """Name of the page in the navigation; "" for a page that is not in the navigation."""
    is_whole: bool = False
    """True for a page that only users who see all suppliers may open."""
    is_streamed: bool = False
    """True if the function reads the body itself, and the token of a form in it."""


def page(path: str, *, roles: frozenset[str] | None, nav: str = "", is_whole: bool = False) -> Callable[..., Screen]:
    """Mark the function of a page at `/console` + path for these roles. `nav` is its name in the navigation."""
    return lambda function: Screen(function=function, path=path, method="GET", roles=roles, nav=nav, is_whole=is_whole)


def action(path: str, *, roles: frozenset[str] | None) -> Callable[..., Screen]:
    """Mark the function that handles a form at `/console` + path. Forms from other sites never reach the function."""
    return lambda function: Screen(function=function, path=path, method="POST", roles=roles)


def upload(path: str, method: str, *, roles: frozenset[str] | None) -> Callable[..., Screen]:
    """Mark the function that reads the body of uploads at `/console` + path."""
    return lambda function: Screen(function=function, path=path, method=method, roles=roles, is_streamed=True)


class Console(msgspec.Struct, frozen=True):
    """Objects that all requests to the console share."""

    services: Services
    settings: ConsoleSettings
    openid: "OpenIdProvider | None"
    """None if no provider is configured."""
    navigation: tuple[Screen, ...]
    checkup: Checkup


class Visit:
    """A request to the console. `opened` is the user of the request, None without a session."""

    def __init__(self, console: Console, request: Request, screen: Screen) -> None:
        self.console = console
        self.services = console.services
        self.transport = Transport(request, console.settings.trusted_proxies)
        self.screen = screen
        self.language = _chosen(request, self.transport)
        self.request = in_language(request, self.language)
        self.form = Form()
        self._form_id = ""
        self.opened: Person | None = None
        self._saved_filters = ""
        self.token = self.cookie(cookies.SESSION)
        """Token that opens the session of the visit."""
        self._anonymous_token = self.cookie(cookies.FORM)
        self.cookies: list[tuple[str, str, timedelta | None]] = []
        """Cookies for the answer: name, value ("" to delete it) and lifetime."""

    @property
    def person(self) -> Person:
        """User of the visit. Only screens with roles may read this property."""
        assert self.opened is not None, "this page is for strangers too"
        return self.opened

    @property
    def organisation(self) -> str:
        return self.person.organisation

    async def open(self) -> Person | None:
        """Return the user whose session the cookie opens, or None."""
        opened: OpenSession | None = await self.read(open_session, self.services.authority, self.token, now())
        self._saved_filters = opened.saved_filters if opened else ""
        return Person.of(opened) if opened else None

    async def confirm(self) -> None:
        """Raise ApiError if the session has ended, or if role or suppliers of the user have changed.

        Long lists call `confirm` before each page.
        """
        if await self.open() != self.opened:
            raise authentication_failed()

    @property
    def lists(self) -> list[str]:
        """Addresses of the pages in the user's navigation. Their filters can be saved."""
        return [ROOT + screen.path for screen in self._navigation]

    @property
    def _navigation(self) -> list[Screen]:
        return [screen for screen in self.console.navigation if self.opened and self.opened.may_see(screen)]

    @property
    def is_partial(self) -> bool:
        """Return True if a script requests a live part of the page."""
        return "hx-request" in self.request.headers

    def path(self, name: str) -> str:
        """Return a parameter of the path, percent-decoded. Raises ApiError 404."""
        return identifier(self.request, name)

    def query(self, name: str, default: str = "") -> str:
        """Return a parameter of the query, stripped."""
        return self.request.query_params.get(name, default).strip()

    def reason(self) -> str:
        """Return the reason in the form. Raises NotValid if it is empty."""
        reason = self.form.text("reason")[:MAX_REASON]
        if not reason:
            raise self.invalid("reason", N_("A reason must be given."), "required")
        return reason

    def is_outdated(self, current: str) -> bool:
        """Return True if the page of the form has shown another state than `current`, in the field `seen`."""
        return self.form.fields.get(SEEN, [current])[-1] != current

    def require_confirmation(self, name: str) -> None:
        """Raise NotValid unless the form has this name, which the user must type."""
        if self.form.text("confirm") != name:
            raise self.invalid("confirm", N_("Nothing was changed: the typed name differs from the name shown."))

    def _(self, text: str, **values: Any) -> str:
        """Translate a text into the user's language, and insert the values at `%(name)s`."""
        translated = translations(self.language).ugettext(text)
        if self.language == "de":
            values = {name: german_of(value) for name, value in values.items()}
        return translated % values if values else translated

    def refusal(self, status: int, text: str, **values: Any) -> ApiError:
        """Return an ApiError with this status and text, in both languages."""
        return ApiError(status, self._sentence(text, values))

    def invalid(self, name: str, text: str, code: str = "invalid") -> Exception:
        """Return a NotValid (status 400) about a parameter or field."""
        return query_not_valid(Problem(name, code, self._sentence(text, {})))

    def _sentence(self, text: str, values: dict[str, Any]) -> Sentence:
        return Sentence(text % values if values else text, self._(text, **values))

    async def read(
        self,
        query: Callable[Concatenate[AsyncConnection[Any], P], Awaitable[T]],
        *arguments: P.args,
        **keywords: P.kwargs,
    ) -> T:
        """Call `query` with a database connection and the arguments, and return its result. Raises StoreUnavailable."""
        return await read(self.services.pool, query, *arguments, **keywords)

    async def execute(
        self, stream: str, command: Command, *, write_rows: WriteRows | None = None, by: str = ""
    ) -> Recorded | None:
        """Execute a command with the user, or `by`, as the actor. Raises Refused."""
        execute = self.services.ledger.execute
        return await self.written(execute, stream, command, at=now(), by=by or self.person.by, write_rows=write_rows)

    async def written(self, work: Callable[P, T], *arguments: P.args, **keywords: P.kwargs) -> T:
        """Run a blocking call in a thread and return its result. Raises StoreUnavailable when it takes too long."""
        return await self.written_within(WRITE_TIMEOUT_S, work, *arguments, **keywords)

    async def written_within(
        self, within_s: float, work: Callable[P, T], *arguments: P.args, **keywords: P.kwargs
    ) -> T:
        """Run a blocking call like `written`, within this time [seconds]."""
        return await with_timeout(asyncio.to_thread(work, *arguments, **keywords), within_s=within_s)

    @property
    def csrf_token(self) -> str:
        """The token of every form: bound to the session, or to the browser before sign-in."""
        if not (self.token if self.opened else self._anonymous_token):
            self._anonymous_token = new_token()
            self.set_cookie(cookies.FORM, self._anonymous_token)
        return hmac.new((self.token if self.opened else self._anonymous_token).encode(), b"form", "sha256").hexdigest()

    def form_secret(self, purpose: str) -> bytes:
        """Return 32 bytes that nobody can guess, the same bytes whenever the same form of a page is sent."""
        self._form_id = self._form_id or self.form.secret("form") or secrets.token_hex(16)
        parts = (self.token, self.request.url.path, self._form_id)
        return bytes.fromhex(self.services.authority.mac("console form", purpose, *parts))

    def is_own_form(self) -> bool:
        """Return True if the form, or the header of a script's request, has the token of a page of this session."""
        key = self.token if self.opened else self._anonymous_token
        sent = self.request.headers.get("x-form-token", "") if self.screen.method == "PUT" else self.form.secret("csrf")
        return bool(key) and hmac.compare_digest(sent.encode(), self.csrf_token.encode())

    def require_all(self) -> None:
        """Raise ApiError 403 for users who see only some suppliers."""
        if self.person.reach is not None:
            raise self.refusal(403, N_("Only users who may see all suppliers may request this action."))

    def render(self, template: str, status: int = 200, **values: Any) -> Response:
        """Return a page in the user's language, with the values that the layout needs."""
        return HTMLResponse(rendered(template, self.language, **self._layout(), **values), status)

    def live(self, response: Response, part: str, *, is_live: bool) -> Response:
        """If `is_live` is False, make the script that refreshes this part of a page reload the whole page."""
        if self.is_partial and not is_live and self.request.headers.get("hx-target") == part:
            response.headers["HX-Refresh"] = "true"
        return response

    def redirect(self, to: str, *, notice: str = "", secret: str = "") -> Response:
        """Redirect to another page, which shows the notice and the secret once.

        The notice must not name a person. The overview replaces an address outside the console.
        """
        if notice:
            self.set_cookie(cookies.NOTICE, quote(notice))
        if secret:
            self.set_cookie(cookies.SECRET, hidden(f"{to}\n{secret}", self.token), cookies.ATTEMPT)
        return RedirectResponse(to if is_local(to) else f"{ROOT}/", status_code=303)

    def secret(self) -> str:
        """Return the secret that this page shows once, or ""."""
        to, _, secret = revealed(self.cookie(cookies.SECRET), self.token).partition("\n")
        if self.is_partial or to != self.request.url.path:
            return ""
        self.set_cookie(cookies.SECRET, "")
        return secret

    def keep_typed(self) -> str:
        """Store the form in a cookie for the page after its author's sign-in, and return the address of this page.

        Return "" for a form that does not fit into a cookie.
        """
        here, author = self.form.secret("here"), revealed(self.form.secret("author"), self._typed_key)
        fields = {name: values for name, values in self.form.fields.items() if name not in UNKEPT}
        typed = hidden(msgspec.json.encode((author, here, self.request.url.path, fields)).decode(), self._typed_key)
        if not author or not is_local(here):
            return f"{ROOT}/"
        if len(typed) > MAX_COOKIE:
            return ""
        self.set_cookie(cookies.TYPED, typed, cookies.ATTEMPT)
        return here

    def typed(self) -> tuple[str, Fields] | None:
        """Return address and fields of the user's form on this page whose session has ended, once; None without such a
        form. Another user of the same browser does not get the form.
        """
        text = revealed(self.cookie(cookies.TYPED), self._typed_key)
        if not text or self.is_partial:
            return None
        author, here, action, fields = msgspec.json.decode(text, type=tuple[str, str, str, dict[str, list[str]]])
        is_author = self.opened is not None and self.opened.user_id == author
        if not is_author or here.partition("?")[0] != self.request.url.path:
            return None
        self.set_cookie(cookies.TYPED, "")
        return action, fields

    @property
    def _typed_key(self) -> str:
        return self.services.authority.mac("console typed")

    def cookie(self, name: str) -> str:
        return cookies.read_cookie(self.request, name, is_secure=self.transport.is_secure)

    def set_cookie(self, name: str, value: str, lasts: timedelta | None = None) -> None:
        """Set a cookie with any answer to this visit; the value "" deletes it."""
        self.cookies.append((name, value, lasts))

    def _layout(self) -> dict[str, Any]:
        """Return the values that the layout needs."""
        notice = "" if self.is_partial else unquote(self.cookie(cookies.NOTICE))
        if notice:
            self.set_cookie(cookies.NOTICE, "")
        author = hidden(self.opened.user_id, self._typed_key) if self.opened else ""
        here = self.request.url.path
        address = here + (f"?{self.request.url.query}" if self.request.url.query else "")
        active_path = next((home for part, home in _HOMES.items() if here.startswith(ROOT + part)), here)
        screens = self._navigation
        current = max(
            (
                screen
                for screen in screens
                if active_path.startswith(ROOT + screen.path) and (screen.path != "/" or active_path == f"{ROOT}/")
            ),
            key=lambda screen: len(screen.path),
            default=None,
        )
        return {
            "person": self.opened,
            "has_shortcuts": self.opened is not None and self.cookie(cookies.SHORTCUTS) != "off",
            "here": address,
            "navigation": [(ROOT + screen.path, self._(screen.nav), screen is current) for screen in screens],
            "notice": notice,
            "may_save": address_to_save(address, self.lists) is not None,
            "saved": read_filters(self.services.authority, self.opened.user_id, self._saved_filters)
            if self.opened
            else [],
            "four_eyes": self.console.settings.four_eyes,
            "csrf": Markup("").join(
                Markup('<input type="hidden" name="{}" value="{}">').format(name, value)
                for name, value in (
                    *(("csrf", self.csrf_token), ("form", secrets.token_hex(16))),
                    *(("here", address), ("author", author)),
                )
            ),
        }


def is_local(address: str) -> bool:
    """Return True for an address of the console."""
    return address.startswith(f"{ROOT}/") and address.isprintable() and "\\" not in address


def _chosen(request: Request, transport: Transport) -> Language:
    """Return the language in the cookie, or else the browser's preferred language."""
    chosen = cookies.read_cookie(request, cookies.LANGUAGE, is_secure=transport.is_secure)
    return next((language for language in LANGUAGES if language == chosen), language_of(request))


def in_language(request: Request, language: Language) -> Request:
    """Return the request with this preferred language, so that errors of the API are answered in this language."""
    headers = [(name, value) for name, value in request.scope["headers"] if name != b"accept-language"]
    request.scope["headers"] = [*headers, (b"accept-language", language.encode())]
    request.scope.pop(FIELDS, None)
    return Request(request.scope, request.receive)
