"""What the console is told at its start; the entry points read it from the environment."""

import ipaddress
from collections.abc import Mapping
from pathlib import Path

import msgspec

from eventstore.aggregates.user import UserRole

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class OpenIdGrant(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody may do whose claim has a certain value."""

    role: UserRole
    organisation: str
    suppliers: tuple[str, ...]


class OpenIdSettings(msgspec.Struct, frozen=True, kw_only=True):
    """An OpenID Connect provider, and which claim says what: the first value that somebody has counts."""

    issuer: str
    client_id: str
    client_secret: str
    claim: str
    grants: tuple[tuple[str, OpenIdGrant], ...]


class ConsoleSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`trusted_proxies` are the addresses whose `X-Forwarded-Proto` and `X-Forwarded-For` are believed; `url` is where
    people reach the service, "" where that is not said.
    """

    trusted_proxies: tuple[Network, ...] = ()
    url: str = ""
    openid: OpenIdSettings | None = None
    places: Mapping[str, tuple[str, ...]] = {}
    """Places, as URLs by organisation, at which its operators may set documents roots."""
    data_dir: Path | None = None
    """Where the data of the service lies, if that is on this machine."""
    shown: tuple[tuple[str, str], ...] = ()
    """The settings in force as the system's page shows them, secrets hidden."""
