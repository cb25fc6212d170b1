"""First answers to requests with an Idempotency-Key, so that a repeated request gets the same answer.

An answer is stored in the transaction of its events, under the command id that the events carry. The command id is a
digest, because importers choose Idempotency-Keys, and the log stores no text of importers. The first event also has the
answer's digest, so that checkpoints cover the answer.
"""

import hashlib
from typing import Any

import msgspec
from psycopg import AsyncConnection

from eventstore.events import with_member


class Answer(msgspec.Struct, frozen=True):
    """Answer to a request: `command_id` names the request, `request_sha256` is the digest of its body."""

    command_id: str
    request_sha256: bytes
    status: int
    body: bytes

    @property
    def sha256(self) -> str:
        """Digest of all fields. `eventstore.proof.verification` computes the same digest in SQL."""
        text = f"{self.command_id}\n{self.request_sha256.hex()}\n{self.status}\n".encode() + self.body
        return hashlib.sha256(text).hexdigest()


def with_answer_digest(state: bytes, answer: Answer) -> bytes:
    """Return an event's state with the answer's digest as one more member."""
    return with_member(state, b"answer_sha256", b'"' + answer.sha256.encode() + b'"')


_SELECT = """
SELECT command_id, request_sha256, status, body
FROM remembered_answers
WHERE command_id = %s
"""


def command_id_of(name: str) -> str:
    """Return the command id of a request: a digest of organisation, method, path, run and Idempotency-Key."""
    return hashlib.sha256(name.encode()).hexdigest()


async def remembered_answer(connection: AsyncConnection[Any], name: str) -> Answer | None:
    """Return the first answer to the request with a command id; None if the request has changed nothing yet."""
    row = await (await connection.execute(_SELECT, (command_id_of(name),), prepare=True)).fetchone()
    return Answer(*row) if row else None
