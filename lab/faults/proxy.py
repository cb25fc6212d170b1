"""A socket before Postgres's that cuts connections at the worst moment: after the commit, before the answer."""

import contextlib
import os
import select
import socket
import threading
from pathlib import Path
from random import Random

MIN_APPEND_BYTES = 2_000
"""Smallest Bind message that counts as an append with a payload [bytes]."""
PROBABILITY = 0.3
"""Share of the later appends whose connection is cut."""
_BIND = b"B"
_COMMITTED = b"SELECT 1\0Z\0\0\0\5I"
"""End of the server's answer to an append: the statement is complete, and no transaction is open."""


class SocketProxy:
    """Listens on a socket in `folder` and forwards to the server's socket, as `_pump` of a subclass does it."""

    def __init__(self, folder: Path, server_socket: str) -> None:
        self.path = folder / ".s.PGSQL.5432"
        self._server_socket = server_socket
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(os.fspath(self.path))
        self._listener.listen(64)
        self._is_open = True
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._is_open = False
        self._listener.close()
        self.path.unlink(missing_ok=True)

    def _accept(self) -> None:
        while self._is_open:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._forward, args=(client,), daemon=True).start()

    def _forward(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as server, contextlib.suppress(OSError):
            server.connect(self._server_socket)
            self._pump(client, server)

    def _pump(self, client: socket.socket, server: socket.socket) -> None:
        """Forward in both directions until one side ends."""
        raise NotImplementedError


class CuttingProxy(SocketProxy):
    """Cuts connections at the first append, and at later ones with PROBABILITY; `cuts` is their number."""

    def __init__(self, folder: Path, server_socket: str, random: Random) -> None:
        self.cuts = 0
        self._random = random
        super().__init__(folder, server_socket)

    def _pump(self, client: socket.socket, server: socket.socket) -> None:
        is_doomed = False
        while self._is_open:
            for ready in select.select([client, server], [], [], 1.0)[0]:
                data = ready.recv(65_536)
                if not data:
                    return
                if ready is client:
                    is_append = data.startswith(_BIND) and len(data) > MIN_APPEND_BYTES
                    is_unlucky = not self.cuts or self._random.random() < PROBABILITY
                    is_doomed = is_doomed or (is_append and is_unlucky)
                    server.sendall(data)
                elif is_doomed and data.endswith(_COMMITTED):  # the client does not learn it
                    self.cuts += 1
                    return
                else:
                    client.sendall(data)
