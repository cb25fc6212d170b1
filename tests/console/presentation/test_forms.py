"""Forms of browsers are parsed, with and without files; anything else is refused."""

import pytest

from api.http.status_codes import ApiError
from console.presentation.forms import MAX_FIELDS, Form

MULTIPART = "multipart/form-data; boundary=----x7"


def part(name: str, content: bytes, more: str = "") -> bytes:
    head = f'------x7\r\nContent-Disposition: form-data; name="{name}"{more}\r\n'
    return head.encode() + b"\r\n" + content + b"\r\n"


@pytest.mark.asvs("V1.1.1")
def test_fields_and_files_are_read_as_they_were_sent() -> None:
    file = part("file", b"log\r\n\xff--x7\0", '; filename="monday.note"\r\nContent-Type: text/plain')
    body = part("csrf", b"abc") + file + part("chosen", "ü 1".encode()) + part("chosen", b" 2 ") + b"------x7--\r\n"
    form = Form.of(body, MULTIPART)
    assert (form.text("csrf"), form.all("chosen")) == ("abc", ["ü 1", "2"])
    assert form.secret("file") == "log\r\n\N{REPLACEMENT CHARACTER}--x7\N{REPLACEMENT CHARACTER}"
    assert Form.of(body, 'multipart/form-data; charset=utf-8; boundary="----x7"').text("csrf") == "abc"
    assert Form.of(b"a=1&a=+2&b=%C3%BC").all("a") == ["1", "2"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"a=1",
        part("a", b"1"),
        b"------x7\r\nX: y\r\n\r\n1\r\n------x7--\r\n",
        part("a", b"\xff") + b"------x7--",
        part("a", b"\0") + b"------x7--",
        b"------x7\r\n" * (MAX_FIELDS + 5) + b"------x7--",
    ],
)
def test_what_is_no_form_is_refused(body: bytes) -> None:
    with pytest.raises(ApiError):
        Form.of(body, MULTIPART)
