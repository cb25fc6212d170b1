"""Sign-in at an OpenID Connect provider, if one is configured."""

from typing import TYPE_CHECKING, Any

import structlog
from starlette.responses import RedirectResponse, Response

from api.http.errors import not_found
from api.http.status_codes import ApiError
from console.access import cookies, entry, requests
from console.access.visit import ROOT, Visit, page
from console.presentation.texts import N_
from eventstore.clock import now
from projections.auxiliary.user_details import UserDetails, details_by_email, details_by_openid, set_openid
from workers.operations import MAX_NAME, UserNotPossible, insert_details, new_user_id, user_of

if TYPE_CHECKING:
    from console.access.openid import OpenIdIdentity, OpenIdProvider

_FAILED = N_("Sign-in with your organisation's account failed. Try again, or ask an operator.")
_NO_ROLE = N_("Your account has no role in this console. Ask an operator for a role.")
_NOT_YET = N_(
    "The relay, a process of the service, has not carried out the operation yet. The relay must be running and needs "
    "the setting DATABASE_ADMIN_URL. Check again later."
)

logger = structlog.get_logger()


@page("/openid/", roles=None)
async def to_provider(visit: Visit) -> Response:
    """Redirect the browser to the provider."""
    provider = _provider(visit)
    try:
        address, attempt = await provider.address(_redirect_uri(visit))
    except provider.failures as error:
        raise _failed(visit, error) from error
    visit.set_cookie(cookies.OPENID, attempt, cookies.ATTEMPT)
    visit.set_cookie(cookies.OPENID_NEXT, visit.query("next").encode().hex() or "2f", cookies.ATTEMPT)
    return RedirectResponse(address, status_code=303)


@page("/openid/answer/", roles=None)
async def from_provider(visit: Visit) -> Response:
    """Sign in a user whom the provider has sent back with a code."""
    provider = _provider(visit)
    attempt, next_page = visit.cookie(cookies.OPENID), visit.cookie(cookies.OPENID_NEXT)
    visit.set_cookie(cookies.OPENID, "")
    visit.set_cookie(cookies.OPENID_NEXT, "")
    try:
        identity = await provider.identity(visit.query("code"), visit.query("state"), attempt, _redirect_uri(visit))
    except provider.failures as error:
        raise _failed(visit, error) from error
    await entry.begin(visit, await _user_of(visit, identity), "openid")
    try:
        return visit.redirect(bytes.fromhex(next_page).decode())
    except ValueError:
        return visit.redirect(f"{ROOT}/")


async def _user_of(visit: Visit, identity: "OpenIdIdentity") -> str:
    """Return the id of the user. Creates a missing user, and sets the role that the provider grants.

    Raises ApiError 403.
    """
    grant = identity.grant
    if grant is None:
        raise visit.refusal(403, _NO_ROLE)
    authority = visit.services.authority
    details = await visit.read(details_by_openid, authority, identity.openid)
    if details is None:
        same_address = await visit.read(details_by_email, authority, identity.email)
        details = next((user for user in same_address if user.organisation == grant.organisation), None)
        if (details is not None and details.openid is not None) or (same_address and not identity.is_email_verified):
            raise visit.refusal(
                403, _FAILED
            )  # a user of the console has the address, and nothing proves that this is the same person
        if details is not None:
            await visit.written(_bind, visit, details.user_id, identity.openid)
    created = None
    if details is None:
        details = created = UserDetails(
            user_id=new_user_id(),
            email=identity.email,
            organisation=grant.organisation,
            name=identity.name[:MAX_NAME],
            openid=identity.openid,
        ).with_mac(authority)
    user = await visit.written(user_of, visit.services.ledger, details.user_id)
    if user.status not in ("active", "unknown"):
        raise visit.refusal(403, _NO_ROLE)
    if (user.role, user.suppliers) == (grant.role, grant.suppliers):
        return details.user_id
    arguments = {"organisation": grant.organisation, "role": grant.role, "suppliers": ",".join(grant.suppliers)}
    write_details: Any = None if created is None else lambda connection, events: insert_details(connection, created)
    try:
        task = await requests.request_task(
            visit, "user_openid", arguments | {"user_id": details.user_id}, write_details=write_details
        )
    except UserNotPossible:
        raise visit.refusal(403, _FAILED) from None
    if not await requests.finished(visit, task):
        raise visit.refusal(503, _NOT_YET)
    return details.user_id


def _bind(visit: Visit, user_id: str, openid: str) -> None:
    with visit.services.ledger.connection() as connection:
        set_openid(connection, visit.services.authority, user_id, openid, now())


def _provider(visit: Visit) -> "OpenIdProvider":
    """Return the provider. Raises ApiError 404 if none is configured, 403 over a connection that others can read."""
    if visit.console.openid is None:
        raise not_found()
    if not visit.transport.is_safe_to_sign_in:
        raise visit.refusal(403, _FAILED)
    return visit.console.openid


def _redirect_uri(visit: Visit) -> str:
    return f"{visit.console.settings.url or visit.transport.origin}{ROOT}/openid/answer/"


def _failed(visit: Visit, error: Exception) -> ApiError:
    logger.warning("sign-in by OpenID failed", reason=str(error))
    return visit.refusal(403, _FAILED)
