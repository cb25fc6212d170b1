"""The console's cookies.

Over TLS, the names begin with `__Host-`, so that no other host and no plain connection can set these cookies. Plain
HTTP is served only to the machine itself. Over plain HTTP, browsers do not store `__Host-` cookies, so the names have
no prefix.
"""

from datetime import timedelta

from starlette.requests import Request
from starlette.responses import Response

SESSION, FORM, LANGUAGE, SHORTCUTS, NOTICE, SECRET, TYPED, OPENID, OPENID_NEXT = (
    f"importledger-{name}"
    for name in ("session", "form", "language", "shortcuts", "notice", "secret", "typed", "openid", "openid-next")
)
"""Names of cookies, in this order: the open session; the form token before sign-in; the chosen language; `off` if
keyboard shortcuts are off; the notice about the last form; an encrypted secret that the next page shows once; an
encrypted form whose session has ended; a sign-in at an OpenID provider, and the page that follows the sign-in.
"""
ATTEMPT = timedelta(minutes=10)
YEAR = timedelta(days=365)


def read_cookie(request: Request, name: str, *, is_secure: bool) -> str:
    """Return the value of the cookie, or ""."""
    return request.cookies.get(_named(name, is_secure=is_secure), "")


def write_cookie(response: Response, name: str, value: str, *, is_secure: bool, lasts: timedelta | None = None) -> None:
    """Set a cookie that no script can read [default: until the browser is closed]. The value "" deletes the cookie."""
    response.set_cookie(
        _named(name, is_secure=is_secure),
        value,
        max_age=0 if not value else None if lasts is None else int(lasts.total_seconds()),
        path="/",
        secure=is_secure,
        httponly=True,
        samesite="lax",
    )


def _named(name: str, *, is_secure: bool) -> str:
    return f"__Host-{name}" if is_secure else name
