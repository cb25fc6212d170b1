"""The platform's tables follow from the account's shape."""

import psycopg

from embedded.postgres import PostgresUrls
from projections.platform.tables import MARKET_TABLES, TABLES, table_columns


def test_the_platforms_tables_are_what_the_accounts_shape_says(database: PostgresUrls) -> None:
    with psycopg.connect(database.service) as connection:
        for table in (*TABLES, *MARKET_TABLES):
            columns = connection.execute(
                "SELECT column_name, CASE data_type WHEN 'ARRAY' THEN 'text[]'"
                " WHEN 'timestamp with time zone' THEN 'timestamptz' ELSE data_type END"
                " FROM information_schema.columns WHERE table_schema = 'platform' AND table_name = %s"
                " ORDER BY ordinal_position",
                (table.name,),
            ).fetchall()
            assert columns == table_columns(table), table.name
