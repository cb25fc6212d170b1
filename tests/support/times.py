"""Set the clock of a log: later events are recorded with the times that a test chooses."""

from datetime import datetime

import psycopg

from embedded.postgres import PostgresUrls


def set_log_time(database: PostgresUrls, at: datetime) -> None:
    """Let the log record events at this time, or at that of its newest event where that is later."""
    with psycopg.connect(database.admin, autocommit=True) as connection:
        connection.execute(
            "CREATE OR REPLACE FUNCTION log_time() RETURNS timestamptz LANGUAGE sql VOLATILE AS"
            f" $$SELECT '{at.isoformat()}'::timestamptz$$"
        )
