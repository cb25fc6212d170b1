"""What stands before every page and every form of the console, and what they are handed: a `Visit`.

A screen marks its functions with `page` and `action`. Before they are called, the session is there, the role is
allowed, the supplier in the path is one that the person sees, and a form has come from a page of ours.
"""

import asyncio
import hmac
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, unquote

import msgspec
from markupsafe import Markup
from psycopg import Connection
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from api.access.auth import authentication_failed
from api.http.database import in_time, read
from api.http.errors import HANDLERS, answer_of, not_found
from api.http.fields import FIELDS
from api.http.languages import Language, language_of
from api.http.paths import identifier
from api.http.request_log import ORGANISATION
from api.http.responses import CALLERS, STRANGERS, read_body
from api.http.status_codes import ApiError
from api.services import Services
from console.access import cookies
from console.access.people import Person
from console.access.transport import Transport
from console.presentation.forms import Form
from console.presentation.hidden_text import hidden, revealed
from console.presentation.rendering import HEADERS, OVER_TLS, rendered
from console.presentation.texts import LANGUAGES, N_, translations
from console.settings import ConsoleSettings
from eventstore.aggregates import import_process, owner_task
from eventstore.aggregates.aggregate import Command
from eventstore.aggregates.owner_task import OwnerTaskKind
from eventstore.clock import now
from eventstore.events import Recorded
from eventstore.log.ledger import Beside
from projections.unlogged.sessions import OpenSession, new_token, open_session
from projections.unlogged.typed_reasons import MAX_REASON, TypedReason, new_reason_id, write_reason
from projections.views.owner_task import owner_task as owner_task_of
from schemas.sentence import Sentence

if TYPE_CHECKING:
    from console.access.openid_provider import OpenIdProvider

T = TypeVar("T")
ROOT = "/console"
WRITE_TIMEOUT_S = 10.0
TASK_TIMEOUT_S = 10.0
"""Longest wait for the relay [seconds]. The task goes on afterwards."""
TASK_LOOK_S = 0.1

HEADLINES = {
    400: N_("That cannot be done"),
    403: N_("That is not allowed"),
    404: N_("There is nothing here"),
    405: N_("That cannot be done"),
    413: N_("That is too much"),
    429: N_("That is too often"),
    500: N_("Something went wrong"),
    503: N_("The service is busy or away"),
}
_PARTS = dict.fromkeys(("/keys/", "/users/"), f"{ROOT}/suppliers/")
"""Pages that belong to another place of the navigation than their address says."""
STATUS_NAMES = {"ongoing": N_("ongoing"), "paused": N_("paused"), "complete": N_("complete")}
USER_STATES = {"active": N_("may sign in"), "disabled": N_("disabled"), "erased": N_("erased")}
ROLE_NAMES = {
    "auditor": N_("Auditor"),
    "support": N_("Support"),
    "operator": N_("Operator"),
    "importer": N_("Importer"),
}

_STALE = Sentence(
    "This form was not sent from a page of this session. Load the page again, and send it once more.",
    "Dieses Formular wurde nicht von einer Seite dieser Sitzung gesendet. Bitte die Seite neu laden und es noch einmal "
    "senden.",
)
_ALL_ONLY = Sentence(
    "This concerns every supplier: only those who see all may ask for it.",
    "Das betrifft alle Lieferanten: nur wer alle sieht, darf es anfordern.",
)
_NOT_YET = Sentence(
    "The relay, which needs DATABASE_ADMIN_URL, must do this and has not done it yet. Look again later.",
    "Das Relay, das DATABASE_ADMIN_URL braucht, muss dies tun und hat es noch nicht getan. Bitte später nachsehen.",
)
_NOT_ALLOWED = Sentence("Your role does not allow this.", "Ihre Rolle erlaubt das nicht.")


class Screen(msgspec.Struct, frozen=True, kw_only=True):
    """A page or a form: its place, who may use it, and the function that answers it."""

    function: Callable[["Visit"], Awaitable[Response]]
    path: str
    method: str
    roles: frozenset[str] | None
    """None for those that strangers use: signing in."""
    nav: str = ""
    """Its name in the navigation; "" for a page that is not in it."""
    is_whole: bool = False
    """The page is only for people who see all suppliers."""


def page(path: str, *, roles: frozenset[str] | None, nav: str = "", is_whole: bool = False) -> Callable[..., Screen]:
    """Marks the function of a page at `/console` + path, for these roles; `nav` puts it into the navigation."""
    return lambda function: Screen(function=function, path=path, method="GET", roles=roles, nav=nav, is_whole=is_whole)


def action(path: str, *, roles: frozenset[str] | None) -> Callable[..., Screen]:
    """Marks the function that a form is sent to; it is only called for forms of our own pages."""
    return lambda function: Screen(function=function, path=path, method="POST", roles=roles)


def _openid_provider(settings: ConsoleSettings) -> "OpenIdProvider | None":
    """Where users may sign in with an organisation's account; None where nobody has set that up."""
    if settings.openid is None:
        return None
    from console.access.openid_provider import OpenIdProvider  # an HTTP client, which nothing else here needs

    return OpenIdProvider(settings.openid)


class Console:
    """What all visits share: the services of the api, how the console is set up, and its pages."""

    def __init__(self, services: Services, settings: ConsoleSettings, screens: Sequence[Screen]) -> None:
        self.services = services
        self.settings = settings
        self.openid = _openid_provider(settings)
        self.navigation = tuple(screen for screen in screens if screen.nav)

    def handler(self, screen: Screen) -> Callable[[Request], Awaitable[Response]]:
        """The screen as a handler of requests, with everything that stands before it."""

        async def answer(request: Request) -> Response:
            visit = Visit(self, request, screen)
            try:
                response = await visit.admitted()
            except Exception as error:
                response = visit.refused(error)
            return visit.finished(response)

        return answer


class Visit:
    """One request to the console. `person` is who asks; of a page for strangers, nobody."""

    def __init__(self, console: Console, request: Request, screen: Screen) -> None:
        self.console = console
        self.services = console.services
        self.transport = Transport(request, console.settings.trusted_proxies)
        self.screen = screen
        self.language = _chosen(request, self.transport)
        self.request = _spoken(request, self.language)
        self.form = Form()
        self.opened: Person | None = None
        self._token = self.cookie(cookies.SESSION)
        self._stranger = self.cookie(cookies.FORM)
        self._cookies: list[tuple[str, str, timedelta | None]] = []

    # For the functions of screens.

    @property
    def person(self) -> Person:
        """Who asks. Only for screens with roles."""
        assert self.opened is not None, "this page is for strangers too"
        return self.opened

    @property
    def organisation(self) -> str:
        return self.person.organisation

    async def confirm(self) -> None:
        """Raises ApiError when the session has ended, or its user may do or see other things than at its beginning.

        Lists call it before each page.
        """
        opened = await self._opened()
        if opened is None or Person.of(opened, self.language) != self.opened:
            raise authentication_failed()

    @property
    def is_partial(self) -> bool:
        """Whether a script asks for a live part and not a person for a page."""
        return "hx-request" in self.request.headers

    def path(self, name: str) -> str:
        """What stands in the path, percent-decoded. Raises ApiError 404."""
        return identifier(self.request, name)

    def query(self, name: str, default: str = "") -> str:
        """A parameter of the query, without outer blanks."""
        return self.request.query_params.get(name, default).strip()

    def _(self, text: str, **values: Any) -> str:
        """A text in the person's language; values stand at `%(name)s`."""
        said = translations(self.language).ugettext(text)
        return said % values if values else said

    async def read(self, query: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        """What a query of (connection, *arguments) gives. Raises StoreUnavailable."""
        return await read(self.services.pool, query, *arguments)

    async def execute(self, stream: str, command: Command, *, beside: Beside | None = None) -> Recorded | None:
        """Send a command in the person's name. Raises Refused."""
        return await self.written(
            self.services.ledger.execute, stream, command, at=now(), by=self.person.by, beside=beside
        )

    async def written(self, work: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """What a call that writes gives, which runs in a thread. Raises StoreUnavailable when it takes too long."""
        return await in_time(asyncio.to_thread(work, *arguments, **named), within_s=WRITE_TIMEOUT_S)

    async def typed(self, content: str, subject: str) -> str:
        """Keep a typed reason about a stream; its id, which the event names, or "" for none."""
        if not content:
            return ""
        reason = TypedReason(
            reason=new_reason_id(), user_id=self.person.user_id, subject=subject, at=now(), content=content[:MAX_REASON]
        )

        def write() -> None:
            with self.services.ledger.connection() as connection:
                write_reason(connection, reason)

        await self.written(write)
        return reason.reason

    async def ask(
        self, kind: OwnerTaskKind, arguments: dict[str, str], reason: str = "", *, also: Beside | None = None
    ) -> str:
        """Ask for what needs the rights of the database's owner; the id of the task, which the relay carries out.

        A typed reason goes with the person whom the task is about, but for that of an erasure, which outlives them.
        `also` is written with the request. Somebody whom an OpenID provider knows asks without a session.
        """
        user_id = self.opened.user_id if self.opened else arguments["user_id"]
        task_id, at = f"t_{secrets.token_hex(8)}", now()
        stream = owner_task.stream_of(task_id)
        is_about_person = "external" in arguments and kind != "erase"
        subject = import_process.stream_of(arguments["supplier"], arguments["external"]) if is_about_person else stream
        typed = TypedReason(
            reason=new_reason_id(), user_id=user_id, subject=subject, at=at, content=reason[:MAX_REASON]
        )

        def beside(connection: Connection[Any], events: Sequence[Recorded]) -> None:
            if reason:
                write_reason(connection, typed)
            if also is not None:
                also(connection, events)

        command = owner_task.RequestOwnerTask(
            kind=kind,
            arguments=arguments,
            user=user_id,
            reason=typed.reason if reason else "",
            session=self.opened.session if self.opened else "",
            requested_at=at,
        )
        command = owner_task.with_mac(command, task_id, self.services.authority.mac)
        by = f"user:{user_id}"
        await self.written(self.services.ledger.execute, stream, command, at=at, by=by, beside=beside)
        return task_id

    async def done(self, task_id: str) -> None:
        """Wait until the relay has carried a task out. Raises ApiError 400 where it refuses, 503 where none does it."""
        deadline = time.monotonic() + TASK_TIMEOUT_S
        while (task := await self.read(owner_task_of, task_id)) is None or task.is_open:
            if time.monotonic() > deadline:
                raise ApiError(503, _NOT_YET)
            await asyncio.sleep(TASK_LOOK_S)
        if task.status == "FAILED":
            raise ApiError(400, Sentence(f"The relay refuses: {task.error}.", f"Das Relay lehnt ab: {task.error}."))

    @property
    def csrf_token(self) -> str:
        """What every form carries: bound to the session, or to the browser of a stranger."""
        if not (self._token if self.opened else self._stranger):
            self._stranger = new_token()
            self.set_cookie(cookies.FORM, self._stranger)
        key = self._token if self.opened else self._stranger
        return hmac.new(key.encode(), b"form", "sha256").hexdigest()

    def hidden(self, text: str) -> str:
        """The text for an address, which only this session reads; "" for none."""
        return hidden(text, self._token) if text else ""

    def revealed(self, text: str) -> str:
        """The text that was encrypted in this session; "" for any other."""
        return revealed(text, self._token)

    def require_all(self) -> None:
        """For what concerns every supplier. Raises ApiError 403 for those who see some."""
        if self.person.reach is not None:
            raise ApiError(403, _ALL_ONLY)

    def render(self, template: str, status: int = 200, **values: Any) -> Response:
        """A page in the person's language. What every template knows stands in `_around`."""
        return HTMLResponse(rendered(template, self.language, **self._around(), **values), status)

    def live(self, response: Response, part: str, *, is_live: bool) -> Response:
        """The answer to a script that follows a part of a page; once nothing changes there any more, it loads all."""
        if self.is_partial and not is_live and self.request.headers.get("hx-target") == part:
            response.headers["HX-Refresh"] = "true"
        return response

    def redirect(self, to: str, *, notice: str = "") -> Response:
        """On to another page, after a form; the notice is shown there once. It must not name a person."""
        if notice:
            self.set_cookie(cookies.NOTICE, quote(notice))
        return RedirectResponse(to, status_code=303)

    def cookie(self, name: str) -> str:
        return cookies.read_cookie(self.request, name, is_secure=self.transport.is_secure)

    def set_cookie(self, name: str, value: str, lasts: timedelta | None = None) -> None:
        """Sent with the answer, whichever that is."""
        self._cookies.append((name, value, lasts))

    def drop_cookie(self, name: str) -> None:
        self._cookies.append((name, "", None))

    # What stands around them.

    async def admitted(self) -> Response:
        """The screen's answer, for those who may have it. Raises what refuses others."""
        if self.screen.method == "POST" and self.transport.is_from_elsewhere:
            raise ApiError(403, _STALE)
        instead = await self._enter()
        if instead is None and self.screen.method == "POST":
            await self._take_form()
            instead = await self._enter()  # the form may have taken its time
        return instead or await self.screen.function(self)

    async def _opened(self) -> OpenSession | None:
        return await self.read(open_session, self.services.authority, self._token, now())

    async def _enter(self) -> Response | None:
        """Open the session; the answer for those who must sign in first. Raises what refuses others."""
        if self._token:
            opened = await self._opened()
            self.opened = Person.of(opened, self.language) if opened else None
        if self.opened is not None:
            self.request.scope[ORGANISATION] = self.opened.organisation
        if self.screen.roles is not None:
            if self.opened is None:
                return self._to_sign_in()
            if "{supplier}" in self.screen.path and not self.opened.may_touch(self.path("supplier")):
                raise not_found()
            if not self.opened.may(self.screen.roles):
                raise ApiError(403, _NOT_ALLOWED)
        return None

    def refused(self, error: Exception) -> Response:
        """What refuses the request, as a page; what nobody expected is logged, as everywhere in the api."""
        handler = answer_of(error) or HANDLERS[Exception]
        answer = handler(self.request, error)
        told = msgspec.json.decode(answer.body)
        nested = told.get("non_field_errors", told)
        return self.render(
            "error.html",
            answer.status_code,
            headline=self._(HEADLINES.get(answer.status_code, HEADLINES[500])),
            detail=nested.get("detail", ""),
            request_id=told.get("request_id", ""),
            problems=told.get("errors", []),
        )

    def finished(self, response: Response) -> Response:
        """The answer with the headers and cookies of the console."""
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        if self.transport.is_secure:
            response.headers.update(OVER_TLS)
        response.headers["Content-Language"] = self.language
        for name, value, lasts in self._cookies:
            if not value:
                cookies.drop_cookie(response, name, is_secure=self.transport.is_secure)
            else:
                cookies.set_cookie(response, name, value, is_secure=self.transport.is_secure, lasts=lasts)
        return response

    async def _take_form(self) -> None:
        """Read the form. Raises ApiError 403 for one that no page of ours has sent."""
        body = await read_body(
            self.request, CALLERS if self.opened else STRANGERS, address=self.transport.address, is_form=True
        )
        self.form = Form.of(body, self.request.headers.get("content-type", ""))
        key = self._token if self.opened else self._stranger
        if not key or not hmac.compare_digest(self.form.secret("csrf").encode(), self.csrf_token.encode()):
            raise ApiError(403, _STALE)

    def _to_sign_in(self) -> Response:
        """On to the page for signing in, and back here afterwards."""
        url = self.request.url
        here = url.path + (f"?{url.query}" if url.query else "") if self.screen.method == "GET" else f"{ROOT}/"
        to = f"{ROOT}/sign-in/" + (f"?next={quote(here, safe='')}" if here != f"{ROOT}/" else "")
        if self.is_partial:
            return Response(status_code=401, headers={"HX-Redirect": to})
        return RedirectResponse(to, status_code=303)

    def _around(self) -> dict[str, Any]:
        """What every template knows."""
        notice = unquote(self.cookie(cookies.NOTICE))
        if notice and not self.is_partial:
            self.drop_cookie(cookies.NOTICE)
        here = self.request.url.path
        place = next((home for part, home in _PARTS.items() if here.startswith(ROOT + part)), here)
        shown = [
            screen
            for screen in self.console.navigation
            if self.opened
            and self.opened.may(screen.roles or frozenset())
            and not (screen.is_whole and self.opened.reach is not None)
        ]
        current = max(
            (one for one in shown if place.startswith(ROOT + one.path) and (one.path != "/" or place == f"{ROOT}/")),
            key=lambda one: len(one.path),
            default=None,
        )
        return {
            "person": self.opened,
            "here": here + (f"?{self.request.url.query}" if self.request.url.query else ""),
            "navigation": [(ROOT + screen.path, self._(screen.nav), screen is current) for screen in shown],
            "notice": "" if self.is_partial else notice,
            "csrf": Markup('<input type="hidden" name="csrf" value="{}">').format(self.csrf_token),
            "is_partial": self.is_partial,
            "status_names": {status: self._(name) for status, name in STATUS_NAMES.items()},
            "user_states": {state: self._(name) for state, name in USER_STATES.items()},
            "role_names": {role: self._(name) for role, name in ROLE_NAMES.items()},
        }


def _chosen(request: Request, transport: Transport) -> Language:
    """The language that was chosen once, or else what the browser prefers."""
    chosen = cookies.read_cookie(request, cookies.LANGUAGE, is_secure=transport.is_secure)
    return next((language for language in LANGUAGES if language == chosen), language_of(request))


def _spoken(request: Request, language: Language) -> Request:
    """The same request, asking for this language, so that whatever answers it speaks that."""
    headers = [(name, value) for name, value in request.scope["headers"] if name != b"accept-language"]
    request.scope["headers"] = [*headers, (b"accept-language", language.encode())]
    request.scope.pop(FIELDS, None)
    return Request(request.scope, request.receive)
