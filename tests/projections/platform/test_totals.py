"""Differences between a source and the platform are listed by place; equal totals give none."""

import copy
from decimal import Decimal
from functools import reduce
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.platform.paths import MODULUS
from projections.platform.totals import BUCKETS, LedgerTotal, Totals, unequal_totals
from schemas.sentence import german_of
from tests.support.german import is_german

NOTHING = Totals().record()


def totals() -> dict[str, Any]:
    """Totals of a book of two accounts."""
    ledger = {"ledgers": 2, "balances": 1, "balance_sum": "-1.50", "transactions": 0, "transaction_sum": "0"}
    return copy.deepcopy(NOTHING) | {"accounts": 2, "by_ledger": {"L": ledger}, "buckets": buckets("1")}


def buckets(digest: str) -> list[str]:
    return [digest.zfill(16), *["0" * 16] * (len(BUCKETS) - 1)]


def unequal(manifest: dict[str, Any], *, drops_unknown: bool = False) -> dict[str, str]:
    told = unequal_totals(manifest, totals(), drops_unknown=drops_unknown)
    return {".".join(place): str(sentence) for place, sentence in told}


def test_a_source_that_says_the_same_balances() -> None:
    assert unequal(totals()) == {}
    assert unequal(totals(), drops_unknown=True) == {}


@pytest.mark.parametrize(
    ("change", "place", "sentence"),
    [
        (
            {"accounts": 3},
            "accounts",
            "Source and platform must have the same value: 3 in the source, 2 in the platform.",
        ),
        (
            {"sums": NOTHING["sums"] | {"balances": "1.00"}},
            "sums.balances",
            "Source and platform must have the same value: 1.00 in the source, 0 in the platform.",
        ),
        (
            {"by_ledger": {}},
            "by_ledger.L.ledgers",
            "Source and platform must have the same value: nothing in the source, 2 in the platform.",
        ),
        (
            {"by_ledger": []},
            "by_ledger.L.balance_sum",
            "Source and platform must have the same value: nothing in the source, -1.50 in the platform.",
        ),
        (
            {"buckets": []},
            "buckets",
            "Source and platform must have the same value: nothing in the source, 4096 in the platform.",
        ),
        (
            {"buckets": buckets("2")},
            "buckets.000",
            "Source and platform must have the same value: 0000000000000002 in the source, 0000000000000001 in the"
            " platform.",
        ),
        (
            {"columns_nowhere": ["Bemerkung"]},
            "columns_nowhere.0",
            "A column of the source is in no account, and its mapping does not ignore it.",
        ),
    ],
)
def test_what_differs_is_told_with_both_values(change: dict[str, Any], place: str, sentence: str) -> None:
    assert unequal(totals() | change)[place] == sentence
    for _, told in unequal_totals(totals() | change, totals(), drops_unknown=False):
        assert is_german(german_of(told))


def test_an_undocumented_field_is_unaccounted_for_unless_its_supplier_has_such_fields_dropped() -> None:
    manifest = totals() | {"undocumented": {"customers.shoe_size": 1}}
    assert list(unequal(manifest)) == ["undocumented.customers.shoe_size"]
    assert unequal(manifest, drops_unknown=True) == {}


COUNTS = st.integers(0, 10**9)
AMOUNTS = st.decimals(-(10**18), 10**18, places=10) | st.decimals(-1000, 1000, places=2)
PORTIONS = st.lists(
    st.builds(
        Totals,
        accounts=COUNTS,
        erased=COUNTS,
        counts=st.dictionaries(st.sampled_from(["customer", "reading"]), COUNTS),
        buckets=st.dictionaries(st.sampled_from(BUCKETS[:3]), st.integers(0, MODULUS - 1)),
        sums=st.dictionaries(st.sampled_from(["transfer_balances", "readings"]), AMOUNTS),
        ledgers=st.dictionaries(
            st.sampled_from("AB"), st.builds(LedgerTotal, COUNTS, COUNTS, AMOUNTS, COUNTS, AMOUNTS)
        ),
    ),
    max_size=6,
)


def together(portions: list[Totals]) -> Totals:
    return reduce(Totals.merge, portions, Totals())


@pytest.mark.promise("worker-adds-up-run")
@given(st.data())
def test_portions_add_up_to_the_same_however_they_are_cut_and_ordered(data: st.DataObject) -> None:
    portions = data.draw(PORTIONS)
    cut = data.draw(st.integers(0, len(portions)))
    parts = [together(portions[:cut]), together(portions[cut:])]
    sent = [msgspec.json.decode(msgspec.json.encode(part), type=Totals) for part in parts]
    whole = together(portions).record()
    assert together(sent).record() == whole
    assert together(sent[::-1]).record() == whole
    assert together(data.draw(st.permutations(portions))).record() == whole


def test_a_sum_is_never_rounded() -> None:
    """Python's decimals keep 28 digits by default."""
    most = Decimal("999999999999999999.0000000001")
    one = Totals(sums={"readings": most}, ledgers={"L": LedgerTotal(1, 1, most, 1, most)})
    record = one.merge(one).record()
    said = {
        record["sums"]["readings"],
        record["sums"]["balances"],
        record["sums"]["transactions"],
        *(record["by_ledger"]["L"][name] for name in ("balance_sum", "transaction_sum")),
    }
    assert said == {"1999999999999999998.0000000002"}
