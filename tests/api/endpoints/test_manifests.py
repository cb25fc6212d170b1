"""Manifests are read as untrusted bytes; differences are listed up to the limit of an answer."""

from typing import Any

import pytest

from api.endpoints.reconciling import source_manifest, unbalanced
from api.http.errors import NotValid
from api.http.limits import MAX_ANSWER_BYTES, MAX_MANIFEST_BYTES, MAX_MANIFEST_PLACES
from api.http.responses import encoded
from api.http.status_codes import ApiError
from projections.platform.totals import Totals
from schemas.reading.problems import MAX_PROBLEMS, LeftOut
from schemas.reading.shape import NotJson

TOTALS: dict[str, Any] = {"import_supplier": "S", "run": "r", "unknown_fields": "refuse", **Totals().record()}


@pytest.mark.promise("manifest-certificate-bounded-so")
def test_a_manifest_that_is_too_large_too_deep_or_no_object_is_refused() -> None:
    with pytest.raises(ApiError) as refused:
        source_manifest(b" " * (MAX_MANIFEST_BYTES + 1))
    assert refused.value.status == 413
    with pytest.raises(NotJson):
        source_manifest(b'{"source":' + b"[" * 900 + b"]" * 900 + b"}")
    with pytest.raises(ApiError) as refused:
        source_manifest(b'{"source":' * 100_000)
    assert refused.value.code == "parse_error"
    with pytest.raises(NotValid):
        source_manifest(b"[]")
    many: dict[str, Any] = {
        "by_ledger": {str(number): {} for number in range(MAX_MANIFEST_PLACES)},
        "undocumented": {"x": 1},
    }
    with pytest.raises(ApiError) as refused:
        source_manifest(encoded(many))
    assert refused.value.status == 413


def test_what_balances_differs_nowhere() -> None:
    assert unbalanced(TOTALS, TOTALS) == []


@pytest.mark.promise("manifest-certificate-bounded-so")
def test_differences_are_listed_as_far_as_an_answer_goes_and_the_others_counted() -> None:
    listed = unbalanced(TOTALS | {"by_ledger": {str(number): {"ledgers": 1} for number in range(2_000)}}, TOTALS)
    assert len(listed) == MAX_PROBLEMS
    assert isinstance(listed[-1], LeftOut)
    assert listed[-1].left_out == 2_000 - (MAX_PROBLEMS - 1)


def test_long_names_and_values_are_cut() -> None:
    manifest = TOTALS | {"accounts": "x" * 1_000_000, "import_supplier": "T"}
    manifest |= {"undocumented": {"p" * 900_000: 1, "customers.shoe_size": 1}}
    listed = unbalanced(manifest, TOTALS)
    assert [problem.attr for problem in listed[:2]] == ["import_supplier", "accounts"]
    assert "undocumented.customers.shoe_size" in [problem.attr for problem in listed]
    assert len(encoded(listed)) < MAX_ANSWER_BYTES // 100
