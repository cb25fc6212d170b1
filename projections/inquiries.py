"""Inquiries to the database that do no I/O themselves: generators that yield statements and are sent their rows.

So the same inquiry is made on a connection of the event loop and on one that blocks.
"""

from collections.abc import Generator, Mapping
from typing import Any, TypeVar

from psycopg import AsyncConnection, Connection
from psycopg.rows import tuple_row

AnswerRows = list[tuple[Any, ...]]
_Statement = tuple[bytes, Mapping[str, Any]]
"""SQL, and its parameters by name."""
T = TypeVar("T")
Inquiry = Generator[_Statement, AnswerRows, T]


def answer(connection: Connection[Any], inquiry: Inquiry[T]) -> T:
    """What the inquiry comes to."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        try:
            statement = next(inquiry)
            while True:
                statement = inquiry.send(cursor.execute(*statement).fetchall())
        except StopIteration as end:
            result: T = end.value
            return result


async def answer_async(connection: AsyncConnection[Any], inquiry: Inquiry[T]) -> T:
    """What the inquiry comes to, on a connection of the event loop."""
    async with connection.cursor(row_factory=tuple_row) as cursor:
        try:
            statement = next(inquiry)
            while True:
                await cursor.execute(*statement)
                statement = inquiry.send(await cursor.fetchall())
        except StopIteration as end:
            result: T = end.value
            return result
