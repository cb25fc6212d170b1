"""Where a service listens: asked before anything is started, so that a taken port or a wrong host is one sentence."""

import errno
import socket

from cli.settings import SettingError


def base_url_of(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def refuse_taken(host: str, port: int) -> None:
    """Raises SettingError where nothing can listen on the host and port."""
    said = f"The service could not listen on {base_url_of(host, port)}:"
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError):
        raise SettingError(f"{said} there is no host {host!r}. Choose another --host.") from None
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
            probe.listen(1)
        except OSError as error:
            raise SettingError(f"{said} {_reason(error, host, port)}") from None


def _reason(error: OSError, host: str, port: int) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return f"port {port} is taken. Choose another --port."
        case errno.EACCES:
            return f"port {port} needs more rights. Choose a --port above 1023."
        case errno.EADDRNOTAVAIL:
            return f"{host} is no address of this machine. Choose another --host."
    return f"{error.strerror}."
