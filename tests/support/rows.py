"""What a view's table holds."""

from typing import Any

import psycopg

from projections.versioning.view import View


def live_rows(connection: psycopg.Connection[Any], view: View) -> list[tuple[Any, ...]]:
    columns = ", ".join(view.columns)
    return sorted(connection.execute(f"SELECT {columns} FROM {view.name}".encode()).fetchall(), key=lambda row: row[:2])
