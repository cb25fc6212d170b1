"""A difference names the columns that differ, and a comparison counts all of them."""

from projections.versions.compare import Comparison, Difference


def test_only_what_differs_is_named() -> None:
    before, after = {"status": "PENDING", "supplier": "S"}, {"status": "ERRORED", "supplier": "S"}
    assert Difference("t", {"supplier": "S"}, before, after).columns == ["status"]
    assert Difference("t", {"supplier": "S"}, None, after).columns == []
    assert Difference("t", {"supplier": "S"}, before, None).columns == []


def test_all_kinds_count() -> None:
    assert Comparison(changed=1, added=2, removed=3).count == 6
    assert Comparison(parked=1).count == 0
