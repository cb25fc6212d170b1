"""The ceiling: a bare ASGI app that decodes untyped, hashes, compresses, encrypts and writes the same rows in batches.

No routing, tokens, validation or domain code: the rest is the minimal cost of durable intake.
"""

import asyncio
import hashlib
import os
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import psycopg
import zstandard
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from bench.peers.server import serve
from eventstore.log.group_commit import MAX_BATCH_EVENTS
from eventstore.log.recorder import SESSION, append_statement
from projections.views.import_status import IMPORT_STATUS

_STATEMENT = append_statement([IMPORT_STATUS])
_EVENT = b'{"payload_sha256":"%s","content_sha256":"%s","payload_bytes":%d,"rules_edition":"2026-11","warnings":[]}'
_decode = msgspec.json.Decoder().decode
_compress = zstandard.ZstdCompressor(level=1).compress

Item = tuple[str, str, bytes, int, bytes, asyncio.Future[None]]


class Ceiling:
    """The application, with a single task that writes batches."""

    def __init__(self, database_url: str) -> None:
        self._url = database_url
        self._queue: asyncio.Queue[Item] = asyncio.Queue()

    async def __call__(self, scope: dict[str, Any], receive: Callable[[], Awaitable[Any]], send: Any) -> None:
        if scope["type"] == "lifespan":
            await receive()
            writer = asyncio.create_task(self._write_batches())
            writer.add_done_callback(_stop_when_failed)
            await send({"type": "lifespan.startup.complete"})
            await receive()
            writer.cancel()
            await send({"type": "lifespan.shutdown.complete"})
            return
        chunks = []
        more = scope["method"] == "POST"
        while more:
            message = await receive()
            chunks.append(message["body"])
            more = message.get("more_body", False)
        if chunks:
            await self._store(b"".join(chunks))
        await send({"type": "http.response.start", "status": 201, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"{}"})

    async def _store(self, body: bytes) -> None:
        account = _decode(body)
        digest = hashlib.sha256(body).digest()
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        number, supplier = account["external_account_number"], account["import_supplier"]
        self._queue.put_nowait((supplier, number, digest, len(body), _compress(body), stored))
        await stored

    async def _write_batches(self) -> None:
        connection = await psycopg.AsyncConnection.connect(self._url, autocommit=True)
        await connection.execute(SESSION)
        while True:
            batch = [await self._queue.get()]
            while len(batch) < MAX_BATCH_EVENTS and not self._queue.empty():
                batch.append(self._queue.get_nowait())
            async with connection.cursor(binary=True) as cursor:
                await cursor.execute(_STATEMENT, _arrays(batch), prepare=True)
            for item in batch:
                item[5].set_result(None)


def _stop_when_failed(writer: "asyncio.Task[None]") -> None:
    """End the process if the writer has failed: otherwise all requests would wait for it."""
    if not writer.cancelled() and writer.exception() is not None:
        print(writer.exception(), file=sys.stderr)
        os._exit(1)


def _arrays(batch: list[Item]) -> dict[str, Any]:
    n, now = len(batch), datetime.now(UTC)
    suppliers, numbers, digests, sizes, contents, _ = zip(*batch, strict=True)
    streams = [f"import/{s}/{e}" for s, e in zip(suppliers, numbers, strict=True)]
    keys = [os.urandom(32) for _ in batch]
    times, ones, places, nulls = [now] * n, [1] * n, list(range(1, n + 1)), [None] * n
    view = {
        "supplier": list(suppliers),
        "external_account_number": list(numbers),
        "status": ["PENDING"] * n,
        "created_at": times,
        "created_position": places,
        "modified_at": times,
        "position": places,
        "version": ones,
    }
    return {
        "streams": streams,
        "versions": ones,
        "topics": ["import_staged.v1"] * n,
        "times": times,
        "suppliers": list(suppliers),
        "causes": ["bench"] * n,
        "command_ids": nulls,
        "code_version": "bench",
        "states": [_EVENT % (d.hex().encode(), d.hex().encode(), z) for d, z in zip(digests, sizes, strict=True)],
        "payload_streams": streams,
        "payload_digests": list(digests),
        "payload_times": times,
        "payload_sizes": list(sizes),
        "payload_contents": [
            b"\1" + key[:12] + AESGCM(key).encrypt(key[:12], content, stream.encode())
            for key, content, stream in zip(keys, contents, streams, strict=True)
        ],
        "payload_subjects": nulls,
        "key_streams": streams,
        "keys": keys,
        **{f"import_status_{column}": view.get(column, nulls) for column in IMPORT_STATUS.columns},
    }


if __name__ == "__main__":
    serve(Ceiling(os.environ["DATABASE_URL"]))
