"""Use the console as a browser without script does: cookies, forms, redirects."""

import asyncio
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from html import unescape
from typing import Any, cast

import httpx
import msgspec
from psycopg import Connection

from api.app import create_app
from console.routes import console_routes
from embedded.postgres import PostgresUrls
from eventstore.aggregates import supplier
from eventstore.aggregates.user import CreateUser, SignIn, UserRole, stream_of
from eventstore.clock import now
from eventstore.events import Recorded
from eventstore.log.authority import AuthorityKey
from eventstore.log.ledger import Ledger
from projections import INLINE
from projections.auxiliary.sessions import begin_session, new_token, token_sha256, write_link
from projections.auxiliary.user_details import UserDetails, write_user_details
from tests.support.databases import owner_of
from tests.support.running import REQUEST_KEY
from tests.support.staging import stage
from tests.support.threads import running
from workers.followers.owner_tasks import OwnerTasks

BASE = "http://127.0.0.1:8000"
COOKIE = "importledger-session"
AUTHORITY = AuthorityKey(REQUEST_KEY)
"""The key of the apis that tests start."""
_CSRF = re.compile(r'name="csrf" value="([0-9a-f]{64})"')


def new_user(
    ledger: Ledger,
    *,
    role: UserRole = "support",
    suppliers: Sequence[str] = ("*",),
    organisation: str = "Nordwind Energie",
    email: str = "",
    name: str = "",
) -> str:
    """The id of a fresh user."""
    user_id = f"u_{secrets.token_hex(6)}"
    details = UserDetails(
        user_id=user_id, email=email or f"{user_id}@example.org", organisation=organisation, name=name
    )
    with closing(owner_of(ledger)) as owner:
        owner.execute(
            stream_of(user_id),
            CreateUser(organisation=organisation, role=role, suppliers=tuple(suppliers)),
            at=now(),
            by="operator:test",
            write_rows=lambda connection, events: write_user_details(connection, details, now()),
        )
    return user_id


def new_session(ledger: Ledger, user_id: str) -> str:
    """The token of a fresh session of the user, for the cookie."""
    session, token = f"s_{secrets.token_hex(8)}", new_token()

    def write_rows(connection: Connection[Any], events: Sequence[Recorded]) -> None:
        begin_session(connection, AUTHORITY, token, session, user_id, now())

    command = SignIn(session=session, method="link")
    ledger.execute(stream_of(user_id), command, at=now(), by=f"user:{user_id}", write_rows=write_rows)
    return token


def new_link(ledger: Ledger, user_id: str) -> str:
    """A fresh link's token."""
    token = new_token()
    with closing(owner_of(ledger)) as owner, owner.connection() as connection:
        write_link(connection, token_sha256(token), user_id, now())
    return token


def signed_in(ledger: Ledger, *, role: UserRole = "support", suppliers: Sequence[str] = ("*",)) -> dict[str, str]:
    """The cookies of a fresh user who has signed in."""
    return {COOKIE: new_session(ledger, new_user(ledger, role=role, suppliers=suppliers))}


@contextmanager
def carrying_out(database: PostgresUrls) -> Iterator[None]:
    """The part of the relay that carries out what users ask of the database's owner."""
    with closing(Ledger(database.service, views=INLINE)) as ledger:
        tasks = OwnerTasks(ledger, database.admin, AUTHORITY, lambda arguments, progress: {})
        with running(tasks.start):
            yield


class Browser:
    """A browser without script. It blocks until an answer is there."""

    def __init__(self, runner: asyncio.Runner, client: httpx.AsyncClient) -> None:
        self.runner = runner
        self.client = client
        self.cookies = client.cookies

    def request(self, method: str, path: str, **more: Any) -> httpx.Response:
        return self.runner.run(self.client.request(method, path, **more))

    def get(self, path: str, **more: Any) -> httpx.Response:
        return self.request("GET", path, **more)

    def post(self, path: str, **more: Any) -> httpx.Response:
        return self.request("POST", path, **more)


class App(msgspec.Struct, frozen=True):
    """The application with the console, in this process, and the event loop that it runs in."""

    runner: asyncio.Runner
    transport: httpx.ASGITransport


@contextmanager
def console_app(
    database: PostgresUrls, *, client: str = "127.0.0.1", loop_of: App | None = None, **settings: Any
) -> Iterator[App]:
    """The application with the console, until the end of the block; in the event loop of `loop_of`, if given."""
    app = create_app(
        database.service,
        b"k" * 32,
        request_key=REQUEST_KEY,
        more_routes=lambda services: console_routes(services, **settings),
    )
    with asyncio.Runner() as own:
        runner = loop_of.runner if loop_of else own
        lifespan = app.router.lifespan_context(app)
        runner.run(lifespan.__aenter__())
        try:
            yield App(runner, httpx.ASGITransport(app, client=(client, 1234)))
        finally:
            runner.run(lifespan.__aexit__(None, None, None))


@contextmanager
def visitor(
    app: App, cookies: dict[str, str] | None = None, *, base: str = BASE, language: str = "en", **headers: str
) -> Iterator[Browser]:
    """A browser with these cookies."""
    jar = httpx.Cookies()
    for name, value in (cookies or {}).items():
        jar.set(name, value, domain=httpx.URL(base).host)  # of the site, as those that it sets
    sent = {"Accept-Language": language} | headers
    client = httpx.AsyncClient(transport=app.transport, base_url=base, cookies=jar, headers=sent)
    try:
        yield Browser(app.runner, client)
    finally:
        app.runner.run(client.aclose())


Visit = Callable[..., Browser]
"""Opens a browser for a user: `visit("operator", suppliers=["NW"], language="de")`, or `visit(user_id=…)`."""


@contextmanager
def visits(app: App, ledger: Ledger) -> Iterator[Visit]:
    """A function that opens browsers until the end of the block. Without `user_id`, each is that of a fresh user."""
    with ExitStack() as stack:

        def visit(
            role: str = "support", *, suppliers: Sequence[str] = ("*",), user_id: str = "", language: str = "en"
        ) -> Browser:
            user = user_id or new_user(ledger, role=cast(UserRole, role), suppliers=suppliers)
            return stack.enter_context(visitor(app, {COOKIE: new_session(ledger, user)}, language=language))

        yield visit


def csrf_in(page: str) -> str:
    """Return the CSRF token of a page's forms."""
    match = _CSRF.search(page)
    assert match is not None, page
    return match[1]


def seen_in(page: str, action: str) -> str:
    """Return the state that a form of this address has shown."""
    form = page.partition(f'action="{action}"')[2].partition("</form>")[0]
    return unescape(form.partition('name="seen" value="')[2].partition('"')[0])


def send(browser: Browser, path: str, fields: dict[str, Any] | None = None, *, at: str = "") -> httpx.Response:
    """Send a form as it stands on a page: at this address, or at the form's own."""
    page = browser.get(at or path)
    return browser.post(path, data={"csrf": csrf_in(page.text), **(fields or {})})


def words_of(page: str) -> str:
    """Return the text of a page, without its markup."""
    body = page.partition("<main")[2] or page
    text = body.partition(">")[2].replace("<wbr>", "")
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", text)).split())


def create_supplier(ledger: Ledger, code: str) -> None:
    ledger.execute(supplier.stream_of(code), supplier.CreateSupplier(), at=now(), by="operator:test")


def stage_account(ledger: Ledger, code: str, external: str, *, run: str = "", **fields: Any) -> None:
    """An import of this account, as it was sent."""
    stage(ledger, {"import_supplier": code, "external_account_number": external, **fields}, run=run)
