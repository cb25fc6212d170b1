"""Refused attempts that are written by themselves."""

from typing import Any
from uuid import uuid4

from psycopg import Connection

from projections.unlogged.refused_attempts import Attempt, write_attempts


def write(connection: Connection[Any], *attempts: Attempt) -> None:
    """Store them, each under a new id."""
    write_attempts(connection, {uuid4(): attempt for attempt in attempts})
