"""Checks where a service listens before anything is started: a taken port or a wrong host becomes one sentence."""

import errno
import socket
from typing import Any

from api.http.limits import BACKLOG
from cli.service.settings import SettingError, Settings

OPTIONS = ("--host", "--port")
METRICS = ("IMPORTLEDGER_METRICS_HOST", "IMPORTLEDGER_METRICS_PORT")
"""What says where a service listens: a sentence names the one to change."""


def base_url_of(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def refuse_taken(host: str, port: int, said_by: tuple[str, str] = OPTIONS) -> None:
    """Raises SettingError where nothing can listen on the host and port."""
    for one in listening_on(host, port, said_by):
        one.close()


def listening_on(host: str, port: int, said_by: tuple[str, str] = OPTIONS) -> list[socket.socket]:
    """A listening socket for each address that the host has here. Raises SettingError where there is none to have."""
    said = f"The service could not listen on {base_url_of(host, port)}:"
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise SettingError(f"{said} there is no host {host!r}. Choose another {said_by[0]}.") from None
    sockets: list[socket.socket] = []
    absent: OSError | None = None
    for family, kind, protocol, _, address in dict.fromkeys(addresses):
        try:
            sockets.append(_listening(family, kind, protocol, address))
        except OSError as error:
            if error.errno in _NO_SUCH_ADDRESS:
                absent = error
                continue
            for one in sockets:
                one.close()
            raise SettingError(f"{said} {_reason(error, host, port, said_by)}") from None
    if absent is not None and not sockets:
        raise SettingError(f"{said} {_reason(absent, host, port, said_by)}")
    return sockets


def metrics_sockets(settings: Settings) -> list[socket.socket]:
    """A socket for each address of the metrics' own port; none where it has none. Raises SettingError."""
    if settings.metrics_port is None:
        return []
    return listening_on(settings.metrics_host, settings.metrics_port, METRICS)


_NO_SUCH_ADDRESS = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
"""A host may have addresses of a family that this machine does not speak."""


def _listening(family: int, kind: int, protocol: int, address: Any) -> socket.socket:
    one = socket.socket(family, kind, protocol)
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        one.bind(address)
        one.listen(BACKLOG)
    except OSError:
        one.close()
        raise
    return one


def _reason(error: OSError, host: str, port: int, said_by: tuple[str, str]) -> str:
    its_host, its_port = said_by
    match error.errno:
        case errno.EADDRINUSE:
            return f"port {port} is taken. Choose another {its_port}."
        case errno.EACCES:
            return f"port {port} needs more rights. Choose a {its_port} above 1023."
        case errno.EADDRNOTAVAIL:
            return f"{host} is no address of this machine. Choose another {its_host}."
    return f"{error.strerror}."
