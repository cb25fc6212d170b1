"""Documents that are missing are named by what the importer has sent."""

import pytest

from projections.queries.missing_documents import document_paths, says, says_in_english


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        (b'{"statements": [{"statement_path": "1.pdf"}, {}, {"statement_path": "2.pdf"}]}', ("1.pdf", "", "2.pdf")),
        (b'{"payload": {"statements": [{"statement_path": "1.pdf"}]}}', ("1.pdf",)),
        (b"{}", ()),
        (b"no JSON", ()),
        (b'{"statements": 1}', ()),
    ],
)
def test_paths_come_in_the_order_of_the_statements(body: bytes, paths: tuple[str, ...]) -> None:
    assert document_paths(body) == paths


def test_the_sentence_goes_on_from_the_error_s_own() -> None:
    told = says_in_english("The account is refused", ["1.pdf", "2.pdf"])
    assert told == "The account is refused. There is no document at 1.pdf, 2.pdf."
    assert str(says("x", ["1.pdf"])) == "x. There is no document at 1.pdf."
