"""What signing in by an OpenID Connect provider speaks of, whether or not one is set up."""

import msgspec

from console.settings import OpenIdGrant
from projections.unlogged.sessions import new_token


class OpenIdFailed(Exception):
    """The provider cannot be asked, or what it says does not hold; the message is for the log."""


class OpenIdIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """Who has signed in there: their address, or what else the provider calls them."""

    openid: str
    email: str
    is_email_verified: bool
    name: str
    grant: OpenIdGrant | None
    """What they may do here; None for somebody to whom no role is mapped."""


class OpenIdAttempt(msgspec.Struct, frozen=True):
    """A sign-in that is under way at the provider; the browser keeps it in a cookie."""

    state: str
    nonce: str
    verifier: str

    @classmethod
    def new(cls) -> "OpenIdAttempt":
        return cls(new_token(), new_token(), new_token() + new_token())
