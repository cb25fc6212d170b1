"""Arrays in our binary form have the same values in Postgres, and psycopg still writes its own lists."""

from datetime import UTC

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eventstore.log.arrays import ARRAY_OF, arrays_of
from tests.support.databases import Admin

_texts = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=20)
VALUES = {
    "text": _texts,
    "bytea": st.binary(max_size=20),
    "integer": st.integers(-(2**31), 2**31 - 1),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "boolean": st.booleans(),
    "timestamptz": st.datetimes(timezones=st.just(UTC)),
}


@pytest.mark.parametrize("kind", VALUES)
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_an_array_arrives_as_what_it_was(shared_admin: Admin, kind: str, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.none() | VALUES[kind], max_size=5))
    query = f"SELECT pg_typeof(%(ours)b)::text, %(ours)b, coalesce(%(ours)b, '{{}}') = %(theirs)b::{kind}[]".encode()
    row = shared_admin.execute(query, {"ours": ARRAY_OF[kind](values), "theirs": values}, binary=True).fetchone()
    assert row == ("timestamp with time zone[]" if kind == "timestamptz" else f"{kind}[]", values, True)


def test_rows_become_an_array_for_each_column(shared_admin: Admin) -> None:
    columns = {"names": "text", "sizes": "bigint"}
    for rows in ([("a", 1), (None, 2)], []):
        arrays = arrays_of(columns, rows)
        read = shared_admin.execute("SELECT * FROM unnest(%(names)b, %(sizes)b)", arrays).fetchall()
        assert read == rows
