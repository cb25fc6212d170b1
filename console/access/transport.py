"""How a request has come: over TLS or not, from where, from a page of ours or not."""

from urllib.parse import urlsplit

from starlette.requests import Request

from api.http.networks import parsed_address, peer_of
from console.settings import Network

FORWARDING = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip", "via")
"""Headers that proxies add."""


class Transport:
    """One request, as far as it can be believed. The only place that reads forwarding headers.

    They count where the address of the proxy that sends them is trusted (IMPORTLEDGER_TRUSTED_PROXIES), and nowhere
    else. A request that an unknown proxy forwards is not safe to sign in on: it may have come from anywhere.
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
        """Name and port that the client has asked for."""
        return self._headers.get("host", "").lower()

    @property
    def is_secure(self) -> bool:
        """Whether it came over TLS."""
        return self.scheme == "https"

    @property
    def is_safe_to_sign_in(self) -> bool:
        """Return True over TLS; without it, only where nothing leaves the machine."""
        is_local = _is_loopback(self.address) and _is_loopback(_name_of(self.host))
        return self.is_secure or (is_local and not self.is_of_unknown_proxy)

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.host}"

    @property
    def is_from_elsewhere(self) -> bool:
        """Whether a browser says that another site's page has sent it."""
        if self._headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return True
        origin = self._headers.get("origin")
        return origin is not None and urlsplit(origin).netloc.lower() != self.host

    def _client(self, trusted: tuple[Network, ...]) -> str:
        """The last address that a proxy of ours has seen and that is none of ours."""
        told = [one.strip() for line in self._headers.getlist("x-forwarded-for") for one in line.split(",")]
        return next((one for one in reversed(told) if one and not _is_in(one, trusted)), "")


def _name_of(host: str) -> str:
    """A host without its port."""
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]


def _is_loopback(host: str) -> bool:
    parsed = parsed_address(host)
    if parsed is None:
        return host == "localhost" or host.endswith(".localhost")
    return parsed.is_loopback


def _is_in(address: str, networks: tuple[Network, ...]) -> bool:
    parsed = parsed_address(address)
    return parsed is not None and any(parsed in network for network in networks)
