"""What the console is told at its start; the entry points read it from the environment."""

import ipaddress

import msgspec

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class ConsoleSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`trusted_proxies` are the addresses whose `X-Forwarded-Proto` and `X-Forwarded-For` are believed."""

    trusted_proxies: tuple[Network, ...] = ()
