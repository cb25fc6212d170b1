"""Settings of the console; the entry points read them from the environment."""

import ipaddress
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from eventstore.aggregates.owner_task import OwnerTaskKind
from eventstore.aggregates.user import UserRole

if TYPE_CHECKING:
    from workers.actors.mail_server import MailServer

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class OpenIdGrant(msgspec.Struct, frozen=True, kw_only=True):
    """Role, organisation and suppliers for a value of the claim."""

    role: UserRole
    organisation: str
    suppliers: tuple[str, ...]


class OpenIdSettings(msgspec.Struct, frozen=True, kw_only=True):
    """An OpenID Connect provider, and the grants for values of a claim.

    The first grant whose value is in the claim applies.
    """

    issuer: str
    client_id: str
    client_secret: str
    claim: str
    grants: tuple[tuple[str, OpenIdGrant], ...]


class ConsoleSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the console.

    Forwarding headers are accepted from the networks `trusted_proxies`. `url` is the public address, "" if not set.
    """

    trusted_proxies: tuple[Network, ...] = ()
    url: str = ""
    openid: OpenIdSettings | None = None
    places: Mapping[str, tuple[str, ...]] = {}
    """URLs by organisation, below which its operators may set documents roots."""
    four_eyes: Collection[OwnerTaskKind | Literal["push"]] = ()
    """Kinds of tasks that a second person must approve; `push` is the go-live of a book."""
    mail_server: "MailServer | None" = None
    """Mail server for test e-mails; None if none is set for this process."""
    examine: Callable[[], Sequence[Any]] = tuple
    """Runs the checks of `doctor`, and returns their findings, from good to wrong. Blocking."""
    shown: tuple[tuple[str, str], ...] = ()
    """Names and values of all settings for the system page, without secrets."""
