"""Redaction of secrets and addresses in logs, and escaping of control characters."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redaction.text import MAX_CLEANED, cleaned, cleaned_line, cleaned_value, escaped, escaped_lines

KEY = "ilk_ab12cd34_" + "Q" * 43
TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJ4In0.c2lnbmF0dXJl"

SECRETS = [
    (KEY, "[key]"),
    (f"Authorization: Token {KEY}", "Authorization: [secret]"),
    ("{'authorization': 'Basic dXNlcjpwYXNz'}", "{'authorization': '[secret]'}"),
    ("[(b'authorization', b'Bearer abc.def')]", "[(b'authorization', b'[secret]')]"),
    (TOKEN, "[token]"),
    ("sent with bearer dGhpcyBpcyBhIHRva2Vu", "sent with bearer [secret]"),
    ("postgresql://importledger:hunter2@db/x", "postgresql://importledger:[secret]@db/x"),
    ("redis://:p/w@d@redis:6379/0", "redis://:[secret]@redis:6379/0"),
    ("host=db password=hunter2 user=x", "host=db password=[secret] user=x"),
    ('{"refreshToken": "abc", "apiKey": "def"}', '{"refreshToken": "[secret]", "apiKey": "[secret]"}'),
    ("to anna.müller+x@stadtwerke.example: no", "to [e-mail]: no"),
    ("root@localhost", "[e-mail]"),
    ("IBAN DE89370400440532013000.", "IBAN [iban]."),
    ("DE89 3704 0044 0532 0130 00", "[iban]"),
    ("de89370400440532013000", "[iban]"),
    ("DE00370400440532013000", "[iban]"),
]


@pytest.mark.promise("log-holds-local-variables")
@pytest.mark.asvs("V16.2.5")
@pytest.mark.parametrize(("text", "expected"), SECRETS)
def test_secrets_and_addresses_are_taken_out(text: str, expected: str) -> None:
    assert cleaned(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "import/NORDWIND/NW-0004711",
        "ab12cdef34567890",
        "A-7K3M9QXZ",
        "position 4711 of 9000, a token that has ended",
        "https://example.org:8443/path?x=1",
        "2026-11-21T23:00:00Z",
    ],
)
def test_ids_stay(text: str) -> None:
    assert cleaned(text) == text


@pytest.mark.promise("control-bidi-zero-width")
@pytest.mark.asvs("V1.3.3")
@pytest.mark.parametrize("character", "\x1b\x00\x7f\x9b\u202e\u2066\u200b\ufeff\u2028\n")
def test_characters_that_deceive_are_escaped(character: str) -> None:
    assert escaped(f"NW{character}1") == f"NW\\u{ord(character):04x}1"
    assert escaped("\U000e0041") == r"\udb40\udc41"


@pytest.mark.promise("control-bidi-zero-width")
def test_letters_of_all_languages_stay() -> None:
    assert escaped("Zoë Müller-Ñandú 東京 Łódź") == "Zoë Müller-Ñandú 東京 Łódź"


@pytest.mark.asvs("V1.2.3", "V1.3.3", "V16.4.1")
def test_escaped_json_says_the_same() -> None:
    value = {"external": "NW\n\u202e\u200b\x1b[2J\U000e0041"}
    assert json.loads(escaped_lines(json.dumps(value, ensure_ascii=False))) == value
    assert escaped_lines("one\n\ttwo\x1b") == "one\n\ttwo\\u001b"


def test_values_are_cleaned_wherever_they_are() -> None:
    line = {"a": [{"b": ("x@y.de",)}], "ilk_ab12cd34_x": 1, "c": b"x@y.de", "d": ValueError("x@y.de"), "e": None}
    assert cleaned_value(line) == {
        "a": [{"b": ["[e-mail]"]}],
        "[key]": 1,
        "c": "[e-mail]",
        "d": "ValueError: [e-mail]",
        "e": None,
    }


@pytest.mark.asvs("V16.4.1")
def test_a_line_of_json_stays_json() -> None:
    assert json.loads(cleaned_line(json.dumps({"a": "\nx@y.de", "b": "m\u00fcller@y.de"}))) == {
        "a": "\n[e-mail]",
        "b": "[e-mail]",
    }


@pytest.mark.parametrize("text", ["a" * 10**6, "://" * 10**5, "DE89 " * 10**5, "a@" * 10**5, "token=" * 10**5])
def test_hostile_text_is_cleaned(text: str) -> None:
    """It would take minutes with patterns of unbounded length."""
    assert len(cleaned(text)) <= 10 * MAX_CLEANED


@given(st.from_regex(r"[A-Za-z0-9-]{0,13}", fullmatch=True))
def test_short_codes_are_as_clean_alone_as_in_a_sentence(code: str) -> None:
    assert cleaned(f"{code} ") == f"{cleaned(code)} "
