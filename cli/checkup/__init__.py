"""What `importledger doctor` looks at: one small question each, and what to type where the answer is bad.

A check gives findings and changes nothing. Nothing of a person is read, and no secret is told.
"""

from collections.abc import Callable, Iterator

from cli.checkup.database import (
    clock,
    disk,
    durability,
    replication,
    rights,
    room,
    schema,
    server_version,
    vacuum,
    wal,
)
from cli.checkup.finding import Around, Finding, Looked
from cli.checkup.service import lag, pending, projections, roles, sealing, troubles
from cli.checkup.surroundings import backups, bell, documents, mail

CHECKS: tuple[Callable[[Looked], Iterator[Finding]], ...] = (
    server_version,
    schema,
    durability,
    rights,
    replication,
    clock,
    disk,
    wal,
    vacuum,
    roles,
    troubles,
    lag,
    projections,
    pending,
    sealing,
    bell,
    documents,
    mail,
    backups,
)
WHILE_AWAY: tuple[Callable[[Around], Iterator[Finding]], ...] = (room, bell, backups)
"""What is looked at all the same where the database does not answer."""
