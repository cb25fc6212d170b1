"""The account number of a refused body is found in any spelling."""

import pytest

from api.intake.typed_names import MAX_NUMBER, typed_number


@pytest.mark.parametrize(
    ("body", "number"),
    [
        (b'{"external_account_number": "A-1"}', "A-1"),
        (b'{"external_account_number": 17, "customers": 5}', "17"),
        (b'{"external_account_number": " A-1 "}', "A-1"),
        (b'{"payload": {"external_account_number": "A-1"}, "task_params": []}', "A-1"),
        (b'{"external_account_number": "", "payload": {"external_account_number": "A-1"}}', "A-1"),
        (b'{"external_account_number": ["B"], "payload": {"external_account_number": "A-1"}}', "A-1"),
        (b'{"external_account_number": "%b"}' % (b"x" * 200), "x" * MAX_NUMBER),
        (b'{"external_account_number": true}', ""),
        (b'{"external_account_number": null}', ""),
        (b'{"external_account_number": "a\\u0000"}', ""),
        (b'{"external_account_number": "A-1"', ""),
        (b'{"payload": "A-1"}', ""),
        (b'{"payload": ' + b"[" * 100_000, ""),
        (b"[]", ""),
        (b"\xff", ""),
        (b"", ""),
        (None, ""),
    ],
)
def test_the_number_is_found_however_it_is_written(body: bytes | None, number: str) -> None:
    assert typed_number(body) == number
