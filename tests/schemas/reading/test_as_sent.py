"""The fast reader returns the same as the exact one, and reads no body of which it would lose a part."""

import hashlib
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import NODEFAULT, UNSET
from msgspec.structs import fields

from schemas.account import Account
from schemas.reading.as_sent import as_sent, canonical_json
from schemas.submission import SENT_ACCOUNT, read_submission, sent_submission, stored_account
from system.steps import finish_steps
from tests.support.make import an_account, changed, changed_where_there, encoded, places, value_at

decode = msgspec.json.Decoder(Account).decode
EMPTY: tuple[Any, ...] = ("", None, [], {}, False, 0, "0.10", 1.5, "null", ":null", "x", "\\", "ü", "2026-01-01")


def read_at_once(body: bytes) -> tuple[Account, bytes] | None:
    return finish_steps(SENT_ACCOUNT.decode_in_steps(body, with_digest=False))


PLACES = places(an_account())[1:]
NAMES = [place for place in PLACES if isinstance(place[-1], str)]


def in_codes(text: str) -> str:
    """A JSON text in which every letter, the quotes among them, is sent as its code."""
    return '"' + "".join(f"\\u{ord(letter):04x}" for letter in text) + '"'


def written(value: Any, repeated: tuple[str | int, ...] | None, other: Any) -> str:
    """The value as JSON, in which the name at a path is given once more before, with another value."""
    if isinstance(value, list):
        return f"[{', '.join(written(child, below(repeated, at), other) for at, child in enumerate(value))}]"
    if not isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    pairs = []
    for name, child in value.items():
        if repeated == (name,):
            pairs.append(f"{json.dumps(name)} : {json.dumps(other, ensure_ascii=False)}")
        pairs.append(f"{json.dumps(name)}:{written(child, below(repeated, name), other)}")
    return "{" + ",".join(pairs) + "}"


def below(path: tuple[str | int, ...] | None, step: str | int) -> tuple[str | int, ...] | None:
    return path[1:] if path and path[0] == step and len(path) > 1 else None


@given(st.lists(st.tuples(st.sampled_from(PLACES), st.sampled_from((..., *EMPTY))), max_size=3))
def test_reading_at_once_says_what_the_exact_way_says(changes: list[tuple[tuple[str | int, ...], Any]]) -> None:
    body = encoded(changed_where_there(an_account(), changes))
    sent, exact = sent_submission(body), read_submission(body)
    assert sent.shape_errors == exact.shape_errors
    if not exact.shape_errors:
        assert decode(sent.canonical_json()) == exact.account
        assert sent.canonical_json() == canonical_json(SENT_ACCOUNT.shape.examine(body)[0])
        assert sent_submission(sent.canonical_json()).canonical_json() == sent.canonical_json()


def test_the_digest_is_that_of_the_canonical_form_whoever_was_read_before() -> None:
    large = encoded(changed(an_account(), "x" * 30_000, "notes", 0, "body"))
    for body in (large, encoded(an_account()), sent_submission(large).canonical_json(), encoded(an_account()) + b" "):
        submission = sent_submission(body, with_digest=True)
        assert submission.digest == hashlib.sha256(submission.canonical_json()).digest()
        assert submission.content_sha256() == sent_submission(body).content_sha256() == submission.digest
        assert sent_submission(body).digest == b""


@given(st.sampled_from(NAMES), st.sampled_from(EMPTY))
def test_a_body_that_repeats_a_name_is_not_read_at_once(path: tuple[str | int, ...], other: Any) -> None:
    body = written(an_account(), path, other).encode()
    assert read_at_once(written(an_account(), None, other).encode()) is not None
    assert read_at_once(body) is None
    assert [problem.code for problem in sent_submission(body).shape_errors] == ["repeated_field"]


@given(st.sampled_from(NAMES), st.text('"\\ \nx', min_size=1))
def test_a_name_that_is_repeated_in_codes_is_found_whatever_quotes_are_sent_in_codes(
    path: tuple[str | int, ...], text: str
) -> None:
    """Quotes that are sent as codes are quotes more in the canonical form, and must not make up for those of a name."""
    once = written(changed(an_account(), "NOTE", "notes", 0, "body"), None, None).replace('"NOTE"', in_codes(text))
    name = json.dumps(str(path[-1]))
    for other in (name, in_codes(str(path[-1]))):
        body = written(changed(an_account(), "NOTE", "notes", 0, "body"), path, 1)
        body = body.replace(f"{name} : 1", f"{other} : 1").replace('"NOTE"', in_codes(text))
        assert read_at_once(body.encode()) is None
        assert "repeated_field" in [problem.code for problem in sent_submission(body.encode()).shape_errors]
    assert (read_at_once(once.encode()) is None) == ('"' in text)


def test_a_null_character_is_not_read_at_once() -> None:
    body = encoded(changed(an_account(), "NOTE", "notes", 0, "body")).replace(b"NOTE", rb"a\u0000b")
    assert read_at_once(body) is None
    assert [problem.code for problem in sent_submission(body).shape_errors] == ["null_characters_not_allowed"]


def test_letters_in_codes_are_read_at_once() -> None:
    """As the best known clients send all that is not ASCII."""
    account = changed(an_account(), 'Grün "\\ \n', "notes", 0, "body")
    body = json.dumps(account).encode()
    assert b"\\u00fc" in body
    assert read_at_once(body) == read_at_once(encoded(account))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("unknown_occupier",), False),
        (("customers", 0, "title"), ""),
        (("customers", 0, "landline"), None),
        (("references",), []),
        (("supply_addresses", 0, "supply_points", 0, "supply_end_date"), None),
    ],
)
def test_what_is_empty_is_told_from_what_is_absent(path: tuple[str | int, ...], value: Any) -> None:
    sent, absent = (encoded(changed(an_account(), given, *path)) for given in (value, ...))
    read = [sent_submission(body, with_digest=True) for body in (sent, absent)]
    assert all(submission.digest for submission in read), "both are read at once"
    assert read[0].digest != read[1].digest


def test_an_absent_text_or_array_is_empty() -> None:
    assert issubclass(as_sent(Account), Account)
    for field, sent in zip(fields(Account), fields(as_sent(Account)), strict=True):
        assert sent.default == (field.default if field.default in ("", (), NODEFAULT) else UNSET)


def test_the_canonical_form_is_the_one_that_is_kept_in_the_log() -> None:
    """Changing it makes every repeated submission look new."""
    account = {"import_supplier": "N", "external_account_number": "1", "metadata": [{"value": {"b": 1.50, "a": None}}]}
    account["metadata"][0]["key"] = "k"  # type: ignore[index]
    account["payment_schedules"] = [{"start_date": "2026-01-01", "means": "DD", "amount": "50.0"}]
    expected = (
        b'{"external_account_number":"1","import_supplier":"N",'
        b'"payment_schedules":[{"amount":50.0,"means":"DD","start_date":"2026-01-01"}],'
        b'"metadata":[{"key":"k","value":{"a":null,"b":1.5}}]}'
    )
    assert sent_submission(encoded(account)).canonical_json() == expected


def test_numbers_keep_their_scale() -> None:
    """1.50 after 1.5 is a change."""
    account = encoded(changed(an_account(), "HERE", "metadata", 0, "value"))
    forms = [sent_submission(account.replace(b'"HERE"', number)).canonical_json() for number in (b"1.5", b"1.50")]
    assert b":1.50" in forms[1]
    assert forms[0] != forms[1]


def test_a_wrapped_account_is_the_bare_one() -> None:
    account = an_account()
    window = "2026-11-22T00:00:00Z"
    for task in ({}, {"is_dry_run": True}, {"schedule_window_start": window, "schedule_window_end": None}):
        body = encoded({"payload": account, "task_params": task})
        sent = sent_submission(body)
        assert sent.task == read_submission(body).task
        assert sent.canonical_json() == sent_submission(encoded(account)).canonical_json()


INTEGERS = [path for path in places(an_account()) if path and type(value_at(an_account(), path)) is int]
SPELLINGS = ("{}.0", "{}.000", "{}e0", "{}0E-1")


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_an_integer_that_is_written_with_a_fraction_is_the_same_content(spelling: str) -> None:
    """JSON Schema 2020-12: a number without a fractional part is an integer, however it is written."""
    integers = {path: value_at(an_account(), path) for path in INTEGERS if path[:1] != ("metadata",)}
    assert {"digits", "day_of_month"} <= {path[-1] for path in integers}
    body = encoded(an_account())
    for path, value in integers.items():
        marked = encoded(changed(an_account(), "@", *path)).replace(b'"@"', spelling.format(value).encode())
        assert marked != body
        read = sent_submission(marked)
        assert (read.shape_errors, read.content_sha256()) == ((), sent_submission(body).content_sha256()), path
        assert read_submission(marked).account == read_submission(body).account
        assert canonical_json(stored_account(marked)) == canonical_json(read_submission(body).account)
