"""Networks of clients. Limits count by network, since one host may have many addresses."""

import ipaddress

from starlette.requests import Request


def peer_of(request: Request) -> str:
    """Return the address of the peer that sent the request: the client, or a proxy."""
    return request.client.host if request.client else ""


def host_of(address: str) -> str:
    """Return the IPv4 address, or the /64 of an IPv6 address. Text that is not an address is returned unchanged."""
    return _network_of(address, 32)


def network_of(address: str) -> str:
    """Return the /24 of an IPv4 address, or the /64 of an IPv6 address. Other text is returned unchanged."""
    return _network_of(address, 24)


def parsed_address(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the address; an IPv4-mapped IPv6 address as its IPv4 address; None if the text is not an address."""
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
