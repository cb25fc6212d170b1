"""Listening sockets, which are opened before any process is started, so that an error is reported at once."""

import errno
import os
import socket
from collections.abc import Sequence
from typing import Any

from api.http.limits import BACKLOG
from cli.service.settings import SettingError, Settings

OPTIONS = ("--host", "--port")
METRICS = ("IMPORTLEDGER_METRICS_HOST", "IMPORTLEDGER_METRICS_PORT")
"""Names of the options or settings of host and port, for error sentences."""


def base_url_of(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def own_url(host: str, port: int, fds: Sequence[int] = ()) -> str:
    """Return the address at which this machine reaches its own socket: a loopback address if the socket accepts it."""
    if fds:
        with socket.socket(fileno=os.dup(fds[0])) as listening:
            host, port = listening.getsockname()[:2]
    return base_url_of({"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host), port)  # noqa: S104 - not for listening


def refuse_taken(host: str, port: int, named: tuple[str, str] = OPTIONS) -> None:
    """Raise SettingError if no socket can listen on the host and port."""
    for listening in listening_on(host, port, named):
        listening.close()


def listening_on(host: str, port: int, named: tuple[str, str] = OPTIONS) -> list[socket.socket]:
    """Open a listening socket for each address of the host. Raises SettingError if a port is taken or none opens."""
    problem = f"The service could not listen on {base_url_of(host, port)}:"
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise SettingError(f"{problem} there is no host {host!r}. Choose another {named[0]}.") from None
    sockets: list[socket.socket] = []
    absent: OSError | None = None
    for family, kind, protocol, _, address in dict.fromkeys(addresses):
        try:
            sockets.append(_listening(family, kind, protocol, address))
        except OSError as error:
            if error.errno in _NO_SUCH_ADDRESS:
                absent = error
                continue
            for opened in sockets:
                opened.close()
            raise SettingError(f"{problem} {_reason(error, host, port, named)}") from None
    if absent is not None and not sockets:
        raise SettingError(f"{problem} {_reason(absent, host, port, named)}")
    return sockets


def metrics_sockets(settings: Settings) -> list[socket.socket]:
    """Open a socket for each address of the metrics port, if a metrics port is set. Raises SettingError."""
    if settings.metrics_port is None:
        return []
    return listening_on(settings.metrics_host, settings.metrics_port, METRICS)


_NO_SUCH_ADDRESS = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
"""Errors for addresses of a family (IPv4, IPv6) that this machine does not have."""


def _listening(family: int, kind: int, protocol: int, address: Any) -> socket.socket:
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind(address)
        listening.listen(BACKLOG)
    except OSError:
        listening.close()
        raise
    return listening


def _reason(error: OSError, host: str, port: int, named: tuple[str, str]) -> str:
    its_host, its_port = named
    match error.errno:
        case errno.EADDRINUSE:
            return f"port {port} is taken. Choose another {its_port}."
        case errno.EACCES:
            return f"port {port} needs more rights. Choose a {its_port} above 1023."
        case errno.EADDRNOTAVAIL:
            return f"{host} is not an address of this machine. Choose another {its_host}."
    return f"{error.strerror}."
