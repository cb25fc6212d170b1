"""Bodies are read bare or wrapped, and have one canonical form."""

from schemas.submission import read_submission
from tests.support.make import an_account, changed, encoded


def test_a_field_that_a_stand_in_says_is_not_stated() -> None:
    shape_error = read_submission(encoded(changed(an_account(), 5, "import_supplier")))
    assert not shape_error.states("import_supplier")
    assert shape_error.states("external_account_number")
