"""Bringing a database to what this code needs: its schema, and the tables of projections that follow the log."""

import psycopg

from eventstore.operations.migrate import migrate
from projections import PROJECTIONS
from projections.versioning.versions import install


def migrate_all(admin_url: str, *, service_role: str | None = None) -> list[str]:
    """Migrate, and set up projections that are new; the migrations that were applied. Two at once are safe."""
    applied = migrate(admin_url, service_role=service_role)
    with psycopg.connect(admin_url, autocommit=True) as connection:
        install(connection, PROJECTIONS, service_role)
    return applied
