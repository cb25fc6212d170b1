"""Decode rows in COPY's binary format."""

from collections.abc import Sequence


def rows_in(written: Sequence[bytes]) -> list[list[bytes | None]]:
    """The values of each row, as they are written; fails where a row has not as many as it says."""
    content, place = b"".join(written), 0
    rows: list[list[bytes | None]] = []
    while place < len(content):
        columns, place = int.from_bytes(content[place : place + 2]), place + 2
        row: list[bytes | None] = []
        for _ in range(columns):
            size = int.from_bytes(content[place : place + 4], signed=True)
            place += 4
            row.append(content[place : place + size] if size >= 0 else None)
            place += max(size, 0)
        rows.append(row)
    assert place == len(content)
    return rows
