"""Signing in by an OpenID Connect provider, where one is set up."""

import hmac
from typing import TYPE_CHECKING

import structlog
from starlette.responses import RedirectResponse, Response

from api.http.errors import not_found
from api.http.status_codes import ApiError
from console.access import cookies, entry
from console.access.openid import OpenIdAttempt, OpenIdFailed, OpenIdIdentity
from console.access.visit import ROOT, Visit, page
from console.screens.start import local_address
from eventstore.clock import now
from projections.unlogged.user_details import UserDetails, details_by_email, details_by_openid, set_openid
from schemas.sentence import Sentence
from workers.operations import MAX_NAME, UserNotPossible, keep_details, new_user_id, user_of

if TYPE_CHECKING:
    from console.access.openid_provider import OpenIdProvider

_FAILED = Sentence(
    "Signing in by your organisation's account did not work. Try again, or ask whoever runs the service.",
    "Die Anmeldung mit dem Konto Ihrer Organisation ging nicht. Bitte erneut versuchen oder den Betrieb fragen.",
)
_NO_ROLE = Sentence(
    "You are known, but nobody has given your account a role here.",
    "Sie sind bekannt, aber Ihr Konto hat hier keine Rolle.",
)

logger = structlog.get_logger()


@page("/openid/", roles=None)
async def to_provider(visit: Visit) -> Response:
    """On to the provider."""
    provider = _provider(visit)
    attempt = OpenIdAttempt.new()
    try:
        address = await provider.address(attempt, _redirect_uri(visit))
    except OpenIdFailed as error:
        raise _failed(error) from error
    visit.set_cookie(cookies.OPENID, ".".join((attempt.state, attempt.nonce, attempt.verifier)), cookies.ATTEMPT)
    visit.set_cookie(cookies.OPENID_NEXT, visit.query("next").encode().hex() or "2f", cookies.ATTEMPT)
    return RedirectResponse(address, status_code=303)


@page("/openid/answer/", roles=None)
async def from_provider(visit: Visit) -> Response:
    """Back from the provider, with a code that says who somebody is."""
    provider = _provider(visit)
    kept, next_page = visit.cookie(cookies.OPENID).split("."), visit.cookie(cookies.OPENID_NEXT)
    visit.drop_cookie(cookies.OPENID)
    visit.drop_cookie(cookies.OPENID_NEXT)
    if len(kept) != 3 or not hmac.compare_digest(kept[0].encode(), visit.query("state").encode()):
        raise ApiError(403, _FAILED)
    try:
        attempt = OpenIdAttempt(*kept)
        identity = await provider.identity(visit.query("code"), attempt, _redirect_uri(visit))
    except OpenIdFailed as error:
        raise _failed(error) from error
    user_id = await _user_of(visit, identity)
    await entry.begin(visit, user_id, "openid")
    try:
        return visit.redirect(local_address(bytes.fromhex(next_page).decode()))
    except ValueError:
        return visit.redirect(f"{ROOT}/")


async def _user_of(visit: Visit, identity: OpenIdIdentity) -> str:
    """The user who this is, with the role that the provider gives them now; a new one where there was none."""
    grant = identity.grant
    if grant is None:
        raise ApiError(403, _NO_ROLE)
    details = await visit.read(details_by_openid, visit.services.authority, identity.openid)
    if details is None:
        known = await visit.read(details_by_email, visit.services.authority, identity.email)
        details = next((one for one in known if one.organisation == grant.organisation), None)
        if (details is not None and details.openid is not None) or (known and not identity.is_email_verified):
            raise ApiError(403, _FAILED)  # the address is somebody's here, and nothing says that this is they
        if details is not None:
            await visit.written(_bind, visit, details.user_id, identity.openid)
    fresh = None
    if details is None:
        details = fresh = UserDetails(
            user_id=new_user_id(),
            email=identity.email,
            organisation=grant.organisation,
            name=identity.name[:MAX_NAME],
            openid=identity.openid,
        ).vouched_for(visit.services.authority)
    user = await visit.written(user_of, visit.services.ledger, details.user_id)
    if user.status not in ("active", "unknown"):
        raise ApiError(403, _NO_ROLE)
    if (user.role, user.suppliers) != (grant.role, grant.suppliers):
        said = {"organisation": grant.organisation, "role": grant.role, "suppliers": ",".join(grant.suppliers)}
        also = None if fresh is None else lambda connection, events: keep_details(connection, fresh)
        try:
            task = await visit.ask("user_openid", said | {"user_id": details.user_id}, also=also)
        except UserNotPossible:
            raise ApiError(403, _FAILED) from None
        await visit.done(task)
    return details.user_id


def _bind(visit: Visit, user_id: str, openid: str) -> None:
    with visit.services.ledger.connection() as connection:
        set_openid(connection, visit.services.authority, user_id, openid, now())


def _provider(visit: Visit) -> "OpenIdProvider":
    """Raises ApiError 404 where none is set up, 403 over a connection that others can read."""
    if visit.console.openid is None:
        raise not_found()
    if not visit.transport.is_safe_to_sign_in:
        raise ApiError(403, _FAILED)
    return visit.console.openid


def _redirect_uri(visit: Visit) -> str:
    base = visit.console.settings.url or visit.transport.origin
    return f"{base}{ROOT}/openid/answer/"


def _failed(error: OpenIdFailed) -> ApiError:
    logger.warning("signing in by OpenID failed", reason=str(error))
    return ApiError(403, _FAILED)


SCREENS = (to_provider, from_provider)
