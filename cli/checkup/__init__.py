"""What `importledger doctor` looks at: one small question each, and what to type where the answer is bad.

A check gives findings and changes nothing. Nothing of a person is read, and no secret is told.
"""

from collections.abc import Callable, Iterator

from cli.checkup.database import clock, disk, durability, replication, rights, schema, vacuum
from cli.checkup.finding import Finding, Looked
from cli.checkup.service import pending, projections, roles, sealing
from cli.checkup.surroundings import backups, bell, documents, mail

CHECKS: tuple[Callable[[Looked], Iterator[Finding]], ...] = (
    schema,
    durability,
    rights,
    replication,
    clock,
    disk,
    vacuum,
    roles,
    projections,
    pending,
    sealing,
    bell,
    documents,
    mail,
    backups,
)
