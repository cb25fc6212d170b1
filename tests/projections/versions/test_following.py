"""A projection that follows the log knows its columns from its declaration, and its declaration by an edition."""

from eventstore.aggregates.import_process import ImportStaged
from projections.versions.following import Index

COLUMNS = "stream text NOT NULL, sum numeric(4, 2), number bigint NOT NULL, PRIMARY KEY (stream, sum)"


def test_columns_are_named_in_the_order_of_the_declaration() -> None:
    index = Index("i", events=(ImportStaged,), columns=COLUMNS, project=lambda seen: [])
    assert index.names == ("stream", "sum", "number")


def test_another_edition_or_index_is_another_definition() -> None:
    def declared(**more: str | tuple[str, ...]) -> str:
        return Index("i", events=(ImportStaged,), columns=COLUMNS, project=lambda seen: [], **more).definition  # type: ignore[arg-type]

    assert len({declared(), declared(edition="2"), declared(indexes=("(number)",))}) == 3
