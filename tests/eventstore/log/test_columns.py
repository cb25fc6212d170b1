"""The named columns of the log are those of its table."""

import psycopg

from embedded.postgres import PostgresUrls
from eventstore.log.columns import SELECT_EVENTS, SELECT_HEAD, columns_of


def test_columns_are_named_plainly_or_of_an_alias() -> None:
    plain = columns_of().split(", ")
    assert plain[0] == "position"
    assert [f"e.{name}" for name in plain] == columns_of("e.").split(", ")


def test_an_empty_log_ends_at_zero_and_has_all_these_columns(postgres: PostgresUrls) -> None:
    with psycopg.connect(postgres.service) as connection:
        events = connection.execute(SELECT_EVENTS)
        assert events.description is not None
        assert [column.name for column in events.description] == columns_of().split(", ")
        assert connection.execute(SELECT_HEAD).fetchone() == (0,)
