"""The first header field of a name is used, and later changes of the headers are visible."""

import pytest
from starlette.requests import Request

from api.http.fields import field
from console.access.visit import in_language


def request_with(*headers: tuple[bytes, bytes]) -> Request:
    return Request({"type": "http", "headers": list(headers)})


@pytest.mark.parametrize(("name", "value"), [(b"prefer", "first"), (b"empty", ""), (b"absent", None), (b"word", "ü")])
def test_the_first_field_of_a_name_counts(name: bytes, value: str | None) -> None:
    request = request_with((b"prefer", b"first"), (b"empty", b""), (b"prefer", b"second"), (b"word", b"\xfc"))
    for _ in range(2):
        assert field(request, name) == value


def test_a_language_that_was_chosen_is_seen_after_the_first_look() -> None:
    request = request_with((b"accept-language", b"en"), (b"prefer", b"x"))
    assert field(request, b"accept-language") == "en"
    spoken = in_language(request, "de")
    assert (field(spoken, b"accept-language"), field(spoken, b"prefer")) == ("de", "x")
