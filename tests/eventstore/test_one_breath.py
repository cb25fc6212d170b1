"""An append and its COMMIT leave the process in one write, so nothing can stop it in between (decision 6)."""

import contextlib
import socket
import threading
from pathlib import Path

from embedded.postgres import PostgresUrls
from eventstore.aggregates.import_process import stream_of
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from projections import INLINE
from tests.support.make import stage

APPENDS = 60


class Writes:
    """Socket before the server's that records the client's data, by single reads."""

    def __init__(self, folder: Path, server_socket: str) -> None:
        self.seen: list[bytes] = []
        self._server_socket = server_socket
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / ".s.PGSQL.5432"))
        self._listener.listen(8)
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._server_socket)
            threading.Thread(target=self._pump, args=(client, server, self.seen), daemon=True).start()
            threading.Thread(target=self._pump, args=(server, client, None), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, seen: list[bytes] | None) -> None:
        with contextlib.suppress(OSError):  # the side that ends first closes the other's socket
            while data := source.recv(1 << 20):
                if seen is not None:
                    seen.append(data)
                sink.sendall(data)
        sink.close()


def test_the_commit_leaves_in_the_same_write_as_its_append(database: PostgresUrls, folder: Path) -> None:
    server_folder = database.service.rsplit("host=", 1)[1]
    writes = Writes(folder, f"{server_folder}/.s.PGSQL.5432")
    url = database.service.replace(server_folder, str(folder))
    with contextlib.closing(writes), contextlib.closing(Ledger(url, views=INLINE)) as ledger:
        for number in range(APPENDS):
            stream = stream_of("NORDWIND", f"ONE-BREATH-{number}-")
            ledger.execute_many({stream: stage(), f"{stream}b": stage()}, at=now(), by=f"writer-{number}-")
    appends = [data for data in writes.seen if b"writer-" in data]
    assert len(appends) == APPENDS
    assert all(b"COMMIT" in data[data.index(b"writer-") :] for data in appends)
