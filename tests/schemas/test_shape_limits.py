"""Every kind of field: values just inside and outside its limits, with their sentences and stand-ins."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta

from market.rule import RuleBook
from schemas.base import DecimalText, LocalMoment, Moment, Problem, Wire
from schemas.reading import shape_errors
from schemas.reading.field_names import named
from schemas.reading.problems import MAX_PROBLEMS, MAX_STEP, LeftOut
from schemas.reading.shape import (
    MAX_HINTS,
    NotJson,
    Shape,
    _fields,
    derived_checks,
    fits_decimal,
    is_in_calendar,
    is_real_moment,
    untyped,
)
from schemas.reading.shape_errors import MAX_DEPTH
from schemas.reading.work import STORED_BOUNDS, Bounds, TooMuchWork
from schemas.sentence import Sentence
from tests.support.make import NOON, encoded

LARGE_BYTES = 300_000
"""The largest body that is read without asking how much it holds."""


class Inner(Wire, frozen=True):
    one: int


class Sample(Wire, frozen=True):
    """A field of each kind."""

    free: str = ""
    text: Annotated[str, Meta(max_length=3)] = ""
    named: Annotated[str, Meta(min_length=1, max_length=3)] = "n"
    trimmed: Annotated[str, Meta(min_length=1, pattern=r"^\S+\Z")] = "t"
    choice: Literal["A", "B"] = "A"
    number: Literal[1, 2] = 1
    count: Annotated[int, Meta(ge=1, le=3)] = 1
    large: int = 0
    amount: DecimalText = "0"
    exact: Decimal = Decimal(0)
    day: date = date(2000, 1, 1)
    moment: Moment = datetime(2000, 1, 1, tzinfo=UTC)
    local: LocalMoment = datetime(2000, 1, 1)  # noqa: DTZ001 - without zone is the point
    flag: bool = False
    anything: Any = None
    names: dict[str, Any] = msgspec.field(default_factory=dict)
    inner: Inner = Inner(one=1)
    items: Annotated[tuple[Inner, ...], Meta(max_length=2)] = ()
    end: Annotated[str, Meta(max_length=3)] | None = None
    called: Annotated[str, Meta(min_length=1)] | None = None


FITS: list[tuple[str, Any]] = [
    ("free", "x" * 5_000),
    ("text", ""),
    ("text", "äöü"),
    ("named", "abc"),
    ("trimmed", "a"),
    ("choice", "B"),
    ("number", 2),
    ("count", 1),
    ("count", 3),
    ("count", Decimal("3.0")),
    ("count", Decimal("1e0")),
    ("count", Decimal("10e-1")),
    ("large", 2**63 - 1),
    ("large", Decimal(f"{2**63 - 1}.000")),
    ("large", -(2**63)),
    ("amount", "1" * 18 + "." + "1" * 10),
    ("amount", -5),
    ("amount", 10**18 - 1),
    ("amount", Decimal("1e2")),
    ("amount", "0e999"),
    ("exact", "1.50"),
    ("day", "2024-02-29"),
    ("moment", "2026-07-01T12:00"),
    ("moment", "2026-10-25T02:30:00"),
    ("local", "2026-07-01T12:00:00"),
    ("flag", True),
    ("anything", {"a": ["b", 1, None]}),
    ("names", {"a": "b"}),
    ("inner", {"one": 0}),
    ("items", [{"one": 1}, {"one": 2}]),
    ("end", None),
    ("end", "abc"),
]
SHAPE_ERRORS: list[tuple[str, Any, str, str, Sentence]] = [
    ("text", "abcd", "text", "max_length", shape_errors.too_long(3)),
    ("text", 5, "text", "invalid", shape_errors.expected(shape_errors.STRING, 5)),
    ("text", None, "text", "null", shape_errors.NULL),
    ("text", "\0", "text", "null_characters_not_allowed", shape_errors.NO_NULL_CHARACTERS),
    ("named", " ", "named", "blank", shape_errors.BLANK),
    ("named", "", "named", "blank", shape_errors.BLANK),
    ("trimmed", "a b", "trimmed", "invalid", shape_errors.OUTER_BLANKS),
    ("choice", "C", "choice", "invalid_choice", shape_errors.no_choice(("A", "B"))),
    ("number", 3, "number", "invalid_choice", shape_errors.no_choice((1, 2))),
    ("number", True, "number", "invalid_choice", shape_errors.no_choice((1, 2))),
    ("count", 0, "count", "min_value", shape_errors.too_small(1)),
    ("count", 4, "count", "max_value", shape_errors.too_large(3)),
    ("count", "1", "count", "invalid", shape_errors.expected(shape_errors.INTEGER, "1")),
    ("count", True, "count", "invalid", shape_errors.expected(shape_errors.INTEGER, True)),
    ("count", Decimal("1.5"), "count", "invalid", shape_errors.expected(shape_errors.INTEGER, Decimal(1))),
    ("count", Decimal("1e-999999"), "count", "invalid", shape_errors.expected(shape_errors.INTEGER, Decimal(1))),
    ("count", Decimal("4.0"), "count", "max_value", shape_errors.too_large(3)),
    ("count", Decimal("0.0"), "count", "min_value", shape_errors.too_small(1)),
    ("count", Decimal("1e999999"), "count", "max_value", shape_errors.too_large(3)),
    ("large", Decimal("1e19"), "large", "max_value", shape_errors.OUT_OF_RANGE),
    ("number", Decimal("3.0"), "number", "invalid_choice", shape_errors.no_choice((1, 2))),
    ("large", 2**63, "large", "max_value", shape_errors.OUT_OF_RANGE),
    ("large", -(2**63) - 1, "large", "max_value", shape_errors.OUT_OF_RANGE),
    ("amount", "1" * 19, "amount", "max_digits", shape_errors.TOO_MANY_DIGITS),
    ("amount", "0." + "1" * 11, "amount", "max_digits", shape_errors.TOO_MANY_DIGITS),
    ("amount", 10**18, "amount", "max_digits", shape_errors.TOO_MANY_DIGITS),
    ("amount", "1e-11", "amount", "max_digits", shape_errors.TOO_MANY_DIGITS),
    ("amount", "1e999", "amount", "max_digits", shape_errors.TOO_MANY_DIGITS),
    ("amount", "0e-999", "amount", "max_digits", shape_errors.TOO_MANY_DIGITS),
    ("amount", "1" * 100_000, "amount", "max_digits", shape_errors.TOO_MANY_DIGITS),
    ("amount", "1e99", "amount", "max_digits", shape_errors.TOO_MANY_DIGITS),
    ("amount", "x", "amount", "invalid", shape_errors.NO_NUMBER),
    ("amount", [], "amount", "invalid", shape_errors.expected(shape_errors.DECIMAL, [])),
    ("amount", False, "amount", "invalid", shape_errors.expected(shape_errors.DECIMAL, False)),
    ("text", "a\0b", "text", "null_characters_not_allowed", shape_errors.NO_NULL_CHARACTERS),
    ("text", False, "text", "invalid", shape_errors.expected(shape_errors.STRING, False)),
    ("exact", [], "exact", "invalid", shape_errors.expected(shape_errors.DECIMAL, [])),
    ("exact", "1" * 19, "exact", "max_digits", shape_errors.TOO_MANY_DIGITS),
    ("exact", "x", "exact", "invalid", shape_errors.NO_NUMBER),
    ("day", "2023-02-29", "day", "invalid", shape_errors.not_valid(shape_errors.DATE)),
    ("day", 5, "day", "invalid", shape_errors.expected(shape_errors.DATE, 5)),
    ("moment", "2023-02-29", "moment", "invalid", shape_errors.not_valid(shape_errors.DATETIME)),
    ("moment", 5, "moment", "invalid", shape_errors.expected(shape_errors.DATETIME, 5)),
    ("moment", "2026-03-29T02:00:00", "moment", "invalid", shape_errors.NO_SUCH_TIME),
    ("local", "2026-03-29T02:59:59", "local", "invalid", shape_errors.NO_SUCH_TIME),
    ("flag", 1, "flag", "invalid", shape_errors.expected(shape_errors.BOOLEAN, 1)),
    ("anything", ["\0"], "anything.0", "null_characters_not_allowed", shape_errors.NO_NULL_CHARACTERS),
    ("anything", [1, {"a": "\0"}], "anything.1.a", "null_characters_not_allowed", shape_errors.NO_NULL_CHARACTERS),
    ("names", [], "names", "invalid", shape_errors.expected(shape_errors.OBJECT, [])),
    ("names", {"a\0": 1}, "names", "null_characters_not_allowed", shape_errors.NO_NULL_CHARACTERS),
    ("names", {"a": "\0"}, "names.a", "null_characters_not_allowed", shape_errors.NO_NULL_CHARACTERS),
    ("inner", [], "inner", "invalid", shape_errors.expected(shape_errors.OBJECT, [])),
    ("inner", {}, "inner.one", "required", shape_errors.REQUIRED),
    ("items", {}, "items", "not_a_list", shape_errors.expected(shape_errors.ARRAY, {})),
    ("items", [{"one": 1}] * 3, "items", "max_length", shape_errors.too_many_items(2)),
    ("items", [{"one": 1}, {"one": "x"}], "items.1.one", "invalid", shape_errors.expected(shape_errors.INTEGER, "x")),
    ("end", "abcd", "end", "max_length", shape_errors.too_long(3)),
    ("tect", 1, "tect", "unknown_field", shape_errors.undocumented("text")),
    ("zzzzzz", 1, "zzzzzz", "unknown_field", shape_errors.UNDOCUMENTED),
]


@pytest.mark.parametrize(("field", "value"), FITS)
def test_what_just_fits_is_taken(field: str, value: Any) -> None:
    fitted, problems = Shape(Sample).fit({field: value})
    assert (type(fitted), problems) == (Sample, [])


SEEN_AT_ONCE: list[tuple[str, Any]] = [
    ("free", "x" * 5_000),
    ("text", ""),
    ("text", "äöü"),
    ("named", "abc"),
    ("choice", "B"),
    ("amount", "1" * 18 + "." + "1" * 10),
    ("moment", "2026-07-01T12:00:00Z"),
    ("flag", True),
    ("flag", False),
    ("end", None),
    ("end", "abc"),
]


@pytest.mark.parametrize(("field", "value"), SEEN_AT_ONCE)
def test_what_is_sent_most_often_fits_at_the_first_look(field: str, value: Any) -> None:
    """The walk says the same of it, and takes longer."""
    _, fits = _fields(Sample)[field]
    assert fits(value) is True
    assert Shape(Sample).fit({field: value})[1] == []


@pytest.mark.parametrize(("field", "value"), [row[:2] for row in SHAPE_ERRORS if hasattr(Sample, row[0])])
def test_no_first_look_takes_what_does_not_fit(field: str, value: Any) -> None:
    _, fits = _fields(Sample)[field]
    assert fits(value) is False


@pytest.mark.parametrize(("field", "value", "attr", "code", "detail"), SHAPE_ERRORS)
def test_what_just_does_not_fit_is_told_with_its_limit(
    field: str, value: Any, attr: str, code: str, detail: Sentence
) -> None:
    says = named(detail, Sample, attr.split("."))
    assert Shape(Sample).fit({field: value})[1] == [Problem(attr, code, says)]


class Needed(Wire, frozen=True):
    """Nothing of it may be left out."""

    text: str
    amount: DecimalText
    choice: Literal["B", "A"]
    count: Annotated[int, Meta(ge=7)]
    large: int
    day: date
    moment: Moment
    flag: bool
    exact: Decimal
    names: dict[str, Any]
    inner: Inner
    items: tuple[Inner, ...]
    end: str | None


def test_something_harmless_stands_in_for_what_is_missing() -> None:
    stand_in, problems = Shape(Needed).fit({})
    assert [(problem.attr, problem.code) for problem in problems] == [
        (name, "required") for name in Needed.__struct_fields__
    ]
    assert stand_in == Needed(
        text="-",
        amount="0",
        choice="A",
        count=7,
        large=0,
        day=date(2000, 1, 1),
        moment=datetime(2000, 1, 1, tzinfo=UTC),
        flag=False,
        exact=Decimal(0),
        names={},
        inner=Inner(one=0),
        items=(),
        end=None,
    )


def test_hints_are_given_for_the_first_names_and_none_for_long_ones() -> None:
    strange = {f"tex{number}": 1 for number in range(MAX_HINTS + 1)}
    told = [problem.detail for problem in Shape(Sample).fit(strange)[1]]
    assert told == [shape_errors.undocumented("text")] * MAX_HINTS + [shape_errors.UNDOCUMENTED]
    for length, is_hinted in ((MAX_STEP, True), (MAX_STEP + 1, False)):
        name = "n" * length

        class Long(Wire, frozen=True, rename={"one": name[:-1] + "m"}):
            one: int = 1

        [problem] = Shape(Long).fit({name: 1})[1]
        assert ("Did you mean" in problem.detail) is is_hinted


def body_of(count: int, separator: bytes, item: bytes, brackets: bytes = b"[]") -> bytes:
    return brackets[:1] + separator.join([item] * count) + brackets[1:]


def padded(body: bytes, size: int = LARGE_BYTES + 1) -> bytes:
    return body + b" " * (size - len(body))


@pytest.mark.parametrize(
    ("body", "bounds", "detail"),
    [
        (body_of(4, b",", b"[]"), Bounds(containers=4), shape_errors.too_many_containers(4)),
        (body_of(4, b",", b"{}"), Bounds(containers=4), shape_errors.too_many_containers(4)),
        (body_of(4, b",", b"1"), Bounds(values=2), shape_errors.too_many_values(2)),
        (b'{"a":1,"b":1,"c":1}', Bounds(names=1), shape_errors.too_many_names(1)),
        (body_of(3, b",", b"1.5"), Bounds(decimals=2), shape_errors.too_many_decimals(2)),
    ],
)
def test_a_large_body_has_so_much_of_everything_at_most(body: bytes, bounds: Bounds, detail: str) -> None:
    with pytest.raises(TooMuchWork) as refused:
        untyped(padded(body), bounds)
    assert refused.value.detail == detail
    [name] = [name for name in Bounds.__struct_fields__ if getattr(bounds, name) != getattr(Bounds(), name)]
    one_more = msgspec.structs.replace(bounds, **{name: getattr(bounds, name) + 1})
    value = msgspec.json.decode(body)
    assert untyped(padded(body), one_more) == value
    assert untyped(padded(body, LARGE_BYTES), bounds) == value
    assert untyped(padded(body), STORED_BOUNDS) == value


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (b"", shape_errors.EMPTY_BODY),
        (b" ", shape_errors.EMPTY_BODY),
        (b'"\xff"', shape_errors.NO_UTF8),
        (b"[" * 5_000, shape_errors.DEEP_BODY),
        (b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1), shape_errors.DEEP_BODY),
        (b"{", shape_errors.CUT_BODY),
        (b'{"a": "\\ud800"}', shape_errors.CUT_BODY),
    ],
)
def test_what_is_no_json_is_told_by_its_own_sentence(body: bytes, detail: str) -> None:
    for read in (untyped, Shape(Sample).examine):
        for sent in (body, padded(body)):
            with pytest.raises(NotJson) as refused:
                read(sent)
            assert refused.value.detail == detail


def test_a_body_that_is_read_has_so_many_decimals_at_most() -> None:
    body, bounds = b'{"items":' + body_of(3, b",", b"1.5") + b"}", Bounds(decimals=2)

    class Numbers(Wire, frozen=True):
        items: tuple[Decimal, ...] = ()

    assert len(Shape(Numbers).examine(padded(body, LARGE_BYTES), bounds)[0].items) == 3
    with pytest.raises(TooMuchWork) as refused:
        Shape(Numbers).examine(padded(body), bounds)
    assert refused.value.detail == shape_errors.too_many_decimals(2)


@pytest.mark.parametrize("beginning", [b"[", b'["\xff",'])
def test_what_is_too_much_to_read_is_told_as_that(beginning: bytes) -> None:
    with pytest.raises(TooMuchWork) as refused:
        Shape(Sample).examine(padded(beginning + b"[],[],[]"), Bounds(containers=2))
    assert refused.value.detail == shape_errors.too_many_containers(2)


def test_what_is_too_much_to_read_and_too_deep_is_told_to_be_deep() -> None:
    with pytest.raises(NotJson) as refused:
        Shape(Sample).examine(b"[" * (LARGE_BYTES + 1), Bounds(containers=2))
    assert refused.value.detail == str(refused.value) == shape_errors.DEEP_BODY


@pytest.mark.parametrize("before", [b"", b'"text":5,'], ids=["without a shape error", "beside a shape error"])
def test_a_body_may_be_nested_as_deep_as_is_said(before: bytes) -> None:
    assert untyped(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)

    def body(levels: int) -> bytes:
        return b"{" + before + b'"anything":' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"

    assert Shape(Sample).examine(body(MAX_DEPTH))
    with pytest.raises(NotJson) as refused:
        Shape(Sample).examine(body(MAX_DEPTH + 1))
    assert refused.value.detail == shape_errors.DEEP_BODY
    assert Shape(Sample).stored(body(2 * MAX_DEPTH))
    with pytest.raises(NotJson):
        Shape(Sample).stored(body(2 * MAX_DEPTH + 1))


@pytest.mark.parametrize(
    ("value", "fits"),
    [
        (Decimal("9" * 18), True),
        (Decimal("1" + "0" * 18), False),
        (Decimal("-" + "9" * 18), True),
        (Decimal("-1" + "0" * 18), False),
        (Decimal("0." + "0" * 9 + "1"), True),
        (Decimal("0." + "0" * 10 + "1"), False),
        (Decimal("123456789012.5"), True),
        (Decimal("1.12345678901"), False),
        (Decimal("1e17"), True),
        (Decimal("1e18"), False),
        (Decimal("1e-10"), True),
        (Decimal("1e-11"), False),
        (Decimal("NaN"), True),
        (Decimal("Infinity"), True),
        (Decimal("NaN1234567890123"), True),
    ],
)
def test_a_decimal_has_18_digits_before_the_point_and_10_after_it(value: Decimal, fits: bool) -> None:
    assert fits_decimal(value) is fits


@pytest.mark.parametrize(
    ("text", "is_real"),
    [
        ("2026-03-29T01:59:59", True),
        ("2026-03-29T02:00:00", False),
        ("2026-03-29T02:59:59", False),
        ("2026-03-29T03:00:00", True),
        ("2026-03-29T02:30:00+00:00", True),
    ],
)
def test_a_local_time_that_the_clocks_leave_out_is_none(text: str, is_real: bool) -> None:
    assert is_real_moment(datetime.fromisoformat(text)) is is_real


@pytest.mark.promise("date-makes-rule-fail")
@pytest.mark.parametrize(
    ("inside", "outside"),
    [
        ("0001-01-01T01:00:00+01:00", "0001-01-01T00:59:59.999999+01:00"),
        ("9999-12-31T22:59:59.999999-01:00", "9999-12-31T23:00:00-01:00"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00+00:01"),
        ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59-00:01"),
        ("0001-01-01T00:53:28", "0001-01-01T00:53:27"),  # in Berlin's mean time, 53 minutes 28 seconds ahead
        ("9999-12-31T23:59:59", "9999-12-31T23:59:59-12:00"),
    ],
)
def test_a_moment_outside_the_years_1_to_9999_in_utc_is_refused_by_name(inside: str, outside: str) -> None:
    assert is_in_calendar(datetime.fromisoformat(inside))
    assert not is_in_calendar(datetime.fromisoformat(outside))
    for field in ("moment", "local"):
        for walked in ({}, {"text": 5}):  # a shape error elsewhere has the body walked
            read, problems = Shape(Sample).examine(encoded({field: inside} | walked))
            at_fault = {problem.attr for problem in problems}
            assert at_fault == set(walked)
            assert RuleBook.of(Sample, ()).breaches(read, NOON) == []
            read, problems = Shape(Sample).examine(encoded({field: outside} | walked))
            found = [*problems, *(b.problem for b in RuleBook.of(Sample, ()).breaches(read, NOON, problems))]
            [problem] = [problem for problem in found if problem.attr not in walked]
            assert problem == Problem(field, "invalid", named(shape_errors.OUTSIDE_CALENDAR, Sample, [field]))


def test_what_the_decoder_does_not_look_at_is_checked_afterwards() -> None:
    found = [(check.at, check.code, check.says) for check in derived_checks(Sample)]
    assert found == [
        ("named", "blank", shape_errors.BLANK),
        ("exact", "invalid", shape_errors.NO_NUMBER),
        ("exact", "max_digits", shape_errors.TOO_MANY_DIGITS_ON_READING),
        ("moment", "invalid", shape_errors.OUTSIDE_CALENDAR),
        ("local", "invalid", shape_errors.OUTSIDE_CALENDAR),
        ("local", "invalid", shape_errors.NO_SUCH_TIME),
        ("called", "blank", shape_errors.BLANK),
    ]
    for check in derived_checks(Sample):
        if check.code == "blank":
            assert check.holds("a")
            assert not check.holds(" ")

    class Outer(Wire, frozen=True):
        inner: Sample
        items: tuple[Sample, ...]

    places = [check.at for check in derived_checks(Outer)]
    assert places == [f"{outer}.{at}" for outer in ("inner", "items[]") for at, _, _ in found]


def test_what_is_left_out_is_counted() -> None:
    class Many(Wire, frozen=True):
        items: tuple[int, ...]

    *listed, rest = Shape(Many).fit({"items": ["x"] * (MAX_PROBLEMS + 7)})[1]
    assert len(listed) == MAX_PROBLEMS
    assert isinstance(rest, LeftOut)
    assert rest.left_out == 7
    *listed, rest = Shape(Many).fit({"items": [], **{f"name{n}": 1 for n in range(MAX_PROBLEMS + 7)}})[1]
    assert len(listed) == MAX_PROBLEMS
    assert isinstance(rest, LeftOut)
    assert rest.left_out == 7


def test_undocumented_names_of_all_objects_are_counted_together() -> None:
    names = {f"name{n}": 1 for n in range(MAX_PROBLEMS)}
    *listed, rest = Shape(Sample).fit({"inner": {"one": 1, **names}, **names, "zzz": 1})[1]
    assert len(listed) == MAX_PROBLEMS
    assert isinstance(rest, LeftOut)
    assert rest.left_out == MAX_PROBLEMS + 1
    inner = {f"name{n}": 1 for n in range(MAX_PROBLEMS + 2)}
    *_, rest = Shape(Sample).fit({"inner": {"one": 1, **inner}, **names})[1]
    assert isinstance(rest, LeftOut)
    assert rest.left_out == MAX_PROBLEMS + 2


def test_undocumented_names_have_room_of_their_own() -> None:
    class Many(Wire, frozen=True):
        items: tuple[int, ...]

    problems = Shape(Many).fit({"items": ["x"] * MAX_PROBLEMS, "zzzz": 1, "yyyy": 2})[1]
    assert [problem.attr for problem in problems[-2:]] == ["zzzz", "yyyy"]
    assert len(problems) == MAX_PROBLEMS + 2


def test_a_large_body_whose_names_are_wrong_is_told_so() -> None:
    stand_in, problems = Shape(Sample).examine(padded(b'{"zz":1,"text":"a","named":"b"}'), Bounds(names=1))
    assert stand_in == Sample()
    assert problems[0] == Problem("non_field_errors", "max_length", shape_errors.too_many_names(1))
    assert "zz" in [problem.attr for problem in problems]
    needed, _ = Shape(Needed).examine(padded(b'{"zz":1,"text":"a","flag":true}'), Bounds(names=1))
    assert (needed.text, needed.flag) == ("-", False)


def test_a_stored_body_is_read_as_it_is_examined() -> None:
    shape = Shape(Sample)
    assert shape.stored(b'{"text":"a"}') == Sample(text="a")
    assert shape.stored(b'{"text":5,"named":"x"}') == Sample(text="-", named="x")
    assert shape.examine(b'{"text":"a"}') == (Sample(text="a"), ())
    stand_in, problems = shape.examine(b'{"text":5,"count":2}')
    assert (stand_in, [problem.attr for problem in problems]) == (Sample(text="-", count=2), ["text"])


def test_a_repeated_name_and_a_null_character_are_shape_errors() -> None:
    _, repeated = Shape(Sample).examine(b'{"text":"a","text":"b"}')
    [problem] = repeated
    assert (problem.attr, problem.detail) == ("text", "Text must not be given twice in one object.")
    _, nul = Shape(Sample).examine(b'{"text":"\\u0000"}')
    assert [problem.code for problem in nul] == ["null_characters_not_allowed"]


def test_a_time_keeps_the_zone_that_its_field_has() -> None:
    sample = Shape(Sample).fit({"local": "2026-07-01T12:00:00", "moment": "2026-07-01T12:00:00"})[0]
    assert sample.local.isoformat() == "2026-07-01T12:00:00"
    assert sample.moment.isoformat() == "2026-07-01T12:00:00+02:00"
