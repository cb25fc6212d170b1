"""Bodies are read bare or wrapped, and have one canonical form."""

from schemas.reading.documented_paths import documented_path, path_pattern
from schemas.submission import read_submission
from tests.support.make import an_account, changed, encoded


def test_a_wrapped_account_is_the_bare_one() -> None:
    account = an_account()
    bare, wrapped = (read_submission(encoded(sent)) for sent in (account, {"payload": account}))
    assert bare.account == wrapped.account
    assert bare.canonical_json() == wrapped.canonical_json()


def test_a_field_that_a_stand_in_says_is_not_stated() -> None:
    shape_error = read_submission(encoded(changed(an_account(), 5, "import_supplier")))
    assert not shape_error.states("import_supplier")
    assert shape_error.states("external_account_number")


def test_a_place_names_no_undocumented_field_and_no_index() -> None:
    assert documented_path("customers.0.nonsense") == "customers.0.*"
    assert path_pattern("customers.0.nonsense") == "customers[].*"
