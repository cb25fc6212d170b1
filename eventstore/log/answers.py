"""First answers to requests that came with a key of their own, so that the same request gets the same answer again.

An answer is stored in the transaction of the events that it speaks of, under the command id that they carry.
"""

from typing import Any

import msgspec
from psycopg import AsyncConnection


class Answer(msgspec.Struct, frozen=True):
    """The answer to a request: `command_id` names the request, `request_sha256` is the digest of its body."""

    command_id: str
    request_sha256: bytes
    status: int
    body: bytes


_SELECT = """
SELECT command_id, request_sha256, status, body
FROM remembered_answers
WHERE command_id = %s
"""


async def remembered_answer(connection: AsyncConnection[Any], command_id: str) -> Answer | None:
    """The first answer to the request with this id; None when it has changed nothing yet."""
    row = await (await connection.execute(_SELECT, (command_id,), prepare=True)).fetchone()
    return Answer(*row) if row else None
