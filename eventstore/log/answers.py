"""First answers to requests that came with a key of their own, so that the same request gets the same answer again.

An answer is stored in the transaction of the events that it speaks of, under the command id that they carry: a digest,
since importers choose the keys, and the log keeps nothing that importers chose. The first of these events carries the
answer's digest as well, so that the seal over the log covers the answer.
"""

import hashlib
from typing import Any

import msgspec
from psycopg import AsyncConnection

from eventstore.events import with_member


class Answer(msgspec.Struct, frozen=True):
    """The answer to a request: `command_id` names the request, `request_sha256` is the digest of its body."""

    command_id: str
    request_sha256: bytes
    status: int
    body: bytes

    @property
    def sha256(self) -> str:
        """The digest of all of it; `eventstore.proof.answer_verification` computes the same in SQL."""
        said = f"{self.command_id}\n{self.request_sha256.hex()}\n{self.status}\n".encode() + self.body
        return hashlib.sha256(said).hexdigest()


def watched(state: bytes, answer: Answer) -> bytes:
    """An event's state with the answer's digest as one more member."""
    return with_member(state, b"answer_sha256", b'"' + answer.sha256.encode() + b'"')


_SELECT = """
SELECT command_id, request_sha256, status, body
FROM remembered_answers
WHERE command_id = %s
"""


def command_id_of(name: str) -> str:
    """The id of a request, by its whole name: organisation, method, path and key."""
    return hashlib.sha256(name.encode()).hexdigest()


async def remembered_answer(connection: AsyncConnection[Any], name: str) -> Answer | None:
    """The first answer to the request with this name; None when it has changed nothing yet."""
    row = await (await connection.execute(_SELECT, (command_id_of(name),), prepare=True)).fetchone()
    return Answer(*row) if row else None
