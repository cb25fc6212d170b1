"""The console's cookies. Over TLS their names begin with `__Host-`: no other host and no plain connection can set them.

Over plain http, which is only served to the machine itself, browsers keep no such cookie: there the names stand alone.
"""

from datetime import timedelta

from starlette.requests import Request
from starlette.responses import Response

SESSION, FORM, LANGUAGE, NOTICE, OPENID, OPENID_NEXT = (
    f"importledger-{name}" for name in ("session", "form", "language", "notice", "openid", "openid-next")
)
"""The open session; what forms of strangers are bound to; the language that was chosen; what was just done; a sign-in
that an OpenID provider is asked about, and where it leads."""
ATTEMPT = timedelta(minutes=10)
YEAR = timedelta(days=365)


def read_cookie(request: Request, name: str, *, is_secure: bool) -> str:
    """What the cookie holds; "" where there is none."""
    return request.cookies.get(_named(name, is_secure=is_secure), "")


def set_cookie(response: Response, name: str, value: str, *, is_secure: bool, lasts: timedelta | None = None) -> None:
    """Give the browser a cookie that no script can read; until it is closed where nothing is said."""
    response.set_cookie(
        _named(name, is_secure=is_secure),
        value,
        max_age=None if lasts is None else int(lasts.total_seconds()),
        path="/",
        secure=is_secure,
        httponly=True,
        samesite="lax",
    )


def drop_cookie(response: Response, name: str, *, is_secure: bool) -> None:
    response.delete_cookie(_named(name, is_secure=is_secure), path="/", secure=is_secure, httponly=True, samesite="lax")


def _named(name: str, *, is_secure: bool) -> str:
    return f"__Host-{name}" if is_secure else name
