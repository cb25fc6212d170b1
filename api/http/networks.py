"""Networks that requests come from: limits count by them, since one host may have many addresses."""

import ipaddress

from starlette.requests import Request


def peer_of(request: Request) -> str:
    """The address from which the request came: of the client, or of a proxy."""
    return request.client.host if request.client else ""


def host_of(address: str) -> str:
    """The address as limits of one host count it: an IPv6 host has all of its /64, a mapped address is its IPv4."""
    return _network_of(address, 32)


def network_of(address: str) -> str:
    """The /24 or /64 of the address."""
    return _network_of(address, 24)


def parsed_address(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address, a mapped one as its IPv4 address; None for text that is none."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return None
    return (parsed.ipv4_mapped if parsed.version == 6 else None) or parsed


def _network_of(address: str, ipv4_bits: int) -> str:
    parsed = parsed_address(address)
    if parsed is None:
        return address
    bits = ipv4_bits if parsed.version == 4 else 64
    return str(ipaddress.ip_network((parsed, bits), strict=False)).removesuffix("/32")
