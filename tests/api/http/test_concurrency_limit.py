"""Places for long requests: no organisation takes all of them."""

from contextlib import ExitStack

import pytest

from api.http.concurrency_limit import ConcurrencyLimit
from api.http.status_codes import ApiError
from schemas.sentence import Sentence

FULL = Sentence("Full.", "Voll.")


@pytest.mark.promise("one-organisation-cannot-take")
@pytest.mark.asvs("V1.4.3", "V2.4.1")
@pytest.mark.api_top_10("API6")
def test_one_organisation_leaves_places_to_others_and_all_get_theirs_back() -> None:
    shares = ConcurrencyLimit(3, 2, FULL, retry_after_s=5)
    with ExitStack() as held:
        for organisation in ("A", "A"):
            held.enter_context(shares.slot(organisation))
        with pytest.raises(ApiError) as refused:
            shares.refuse_full("A")
        assert (refused.value.status, refused.value.headers) == (503, {"Retry-After": "5"})
        held.enter_context(shares.slot("B"))
        with pytest.raises(ApiError), shares.slot("C"):
            pass
    for organisation in ("A", "B", "C"):
        shares.refuse_full(organisation)
