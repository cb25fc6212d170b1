"""The connection of a request: TLS, client address, and whether another site has sent it."""

from urllib.parse import urlsplit

from starlette.requests import Request

from api.http.networks import parsed_address, peer_of
from console.settings import Network

FORWARDING = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip", "via")
"""Headers that proxies add."""


class Transport:
    """Reads the forwarding headers of a request; no other code does this.

    The headers are ignored unless a trusted proxy has sent them (IMPORTLEDGER_TRUSTED_PROXIES). Sign-in through an
    unknown proxy is refused, since the request may come from anywhere.
    """

    def __init__(self, request: Request, trusted: tuple[Network, ...] = ()) -> None:
        self._headers = request.headers
        peer = peer_of(request)
        is_trusted = _is_in(peer, trusted)
        self.scheme: str = request.scope.get("scheme", "http")
        self.address = peer
        self.is_of_unknown_proxy = not is_trusted and any(name in self._headers for name in FORWARDING)
        if is_trusted:
            self.scheme = self._headers.get("x-forwarded-proto", self.scheme).split(",")[0].strip().lower()
            self.address = self._client(trusted) or peer

    @property
    def host(self) -> str:
        """Name and port in the Host header."""
        return self._headers.get("host", "").lower()

    @property
    def is_secure(self) -> bool:
        """Return True for TLS."""
        return self.scheme == "https"

    @property
    def is_safe_to_sign_in(self) -> bool:
        """Return True for TLS, and for plain HTTP that does not leave this machine."""
        is_local = _is_loopback(self.address) and _is_loopback(_name_of(self.host))
        return self.is_secure or (is_local and not self.is_of_unknown_proxy)

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.host}"

    @property
    def is_from_elsewhere(self) -> bool:
        """Return True if the browser reports that a page of another site has sent the request."""
        if self._headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return True
        origin = self._headers.get("origin")
        return origin is not None and urlsplit(origin).netloc.lower() != self.host

    def _client(self, trusted: tuple[Network, ...]) -> str:
        """Return the last address in X-Forwarded-For that is not a trusted proxy, or ""."""
        addresses = [part.strip() for line in self._headers.getlist("x-forwarded-for") for part in line.split(",")]
        return next((address for address in reversed(addresses) if address and not _is_in(address, trusted)), "")


def _name_of(host: str) -> str:
    """Return a host without its port."""
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]


def _is_loopback(host: str) -> bool:
    parsed = parsed_address(host)
    if parsed is None:
        return host == "localhost" or host.endswith(".localhost")
    return parsed.is_loopback


def _is_in(address: str, networks: tuple[Network, ...]) -> bool:
    parsed = parsed_address(address)
    return parsed is not None and any(parsed in network for network in networks)
