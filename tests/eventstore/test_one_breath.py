"""An append and its COMMIT leave the process in one write, so nothing can stop it in between (decision 6)."""

import contextlib
import select
import socket
from pathlib import Path

from embedded.postgres import PostgresUrls
from eventstore.aggregates.import_process import stream_of
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from lab.faults.proxy import SocketProxy
from projections import INLINE
from tests.support.make import stage

APPENDS = 60


class Writes(SocketProxy):
    """Records the client's data, by single reads."""

    def __init__(self, folder: Path, server_socket: str) -> None:
        self.seen: list[bytes] = []
        super().__init__(folder, server_socket)

    def _pump(self, client: socket.socket, server: socket.socket) -> None:
        while True:
            for ready in select.select([client, server], [], [])[0]:
                if not (data := ready.recv(1 << 20)):
                    return
                if ready is client:
                    self.seen.append(data)
                (server if ready is client else client).sendall(data)


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
