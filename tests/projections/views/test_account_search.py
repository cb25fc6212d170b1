"""Accounts are found by names, numbers and other terms."""

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg import Connection
from psycopg.rows import tuple_row

from embedded.postgres import PostgresUrls
from eventstore.aggregates.import_process import CompleteImport, stream_of
from eventstore.events import Recorded
from eventstore.log.ledger import Ledger
from projections import FOLLOWING, INLINE
from projections.versions.reading import Seen
from projections.views.account_search import (
    ACCOUNT_SEARCH,
    FEW,
    PART_BITS,
    SELECT_FOUND,
    folded,
    project,
    search_parameters,
)
from tests.support import staging
from tests.support.databases import Admin, new_database
from tests.support.make import NOON, an_account, encoded, stage, staged, start
from tests.support.rows import find_accounts
from workers.followers.projector import Projector


def person(external: str, given: str, family: str, iban: str = "DE89370400440532013000") -> dict[str, Any]:
    account = an_account("S", 1) | {"external_account_number": external}
    account["customers"][0] |= {"given_name": given, "family_name": family, "email": f"{external}@example.com"}
    account["payment_instructions"][0]["bank_account"]["iban"] = iban
    return account


@pytest.fixture(scope="module", params=["one part of the log", "a part each"])
def found(postgres: PostgresUrls, request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """A search among seven accounts, which returns external numbers and the next page."""
    with new_database(postgres) as database, closing(Ledger(database.service, views=INLINE)) as ledger:
        yield search_in(ledger, database, is_divided=request.param == "a part each")


def search_in(ledger: Ledger, database: PostgresUrls, *, is_divided: bool) -> Callable[..., Any]:
    """Write the accounts, in a part of the log each if it is divided."""
    people = [
        person("1", "Anna Maria", "Groß"),
        person("2", "Hans", "Müller", "DE02120300000000202051"),
        person("3", "Müller", "Hans"),
        person("4", "Hannes", "Müllerschön"),
        person("5", "Işıl", "Yılmaz"),
        person("6", "Jürgen", "O’Brien-Goethe"),
        person("7", "Joerg", "Soerensen", "DE89370400440532013AE0"),
    ]
    people[2]["billing_postcode"] = " "  # an empty term after folding must find nobody
    people[4]["supply_addresses"][0]["supply_points"][0]["melos"][0]["meters"][0]["meter_number"] = "\u0301"
    for account in people:
        staging.stage(ledger, account)
        if is_divided:
            with psycopg.connect(database.admin, autocommit=True) as connection:
                connection.execute(_ONE_PART_ON, {"part": 1 << PART_BITS})
    projector = Projector(ledger, FOLLOWING)
    with ledger.connection() as connection:
        while projector.advance(connection, ACCOUNT_SEARCH):
            pass
        marked = connection.execute("SELECT FROM account_search WHERE terms[1] LIKE ' %%'").rowcount
        assert marked == (len(people) - 1 if is_divided else 0)

    def search(text: str, **more: Any) -> tuple[str, str]:
        with ledger.connection() as connection:
            page = find_accounts(connection, text, more.pop("suppliers", None), **more)
        return "".join(one.external_account_number for one in page.accounts), page.next_after

    return search


_ONE_PART_ON = """
INSERT INTO events
SELECT (jsonb_populate_record(e, jsonb_build_object('position', position + %(part)s, 'stream', stream || '-later'))).*
FROM events AS e
ORDER BY position DESC
LIMIT 1
"""


FOUND = [
    ("Hans Müller", "23"),
    ("müller hans", "23"),
    ("MUELLER, Hans", "23"),
    ("müller han", "234"),
    ("groß anna", "1"),
    ("Anna Maria Gross", "1"),
    ("Anna-Maria Gross", "1"),
    ("O'Brien Göthe", "6"),
    ("Obrien–Göthe", "6"),
    ("maria gro", "1"),
    ("muellersch", "4"),
    ("DE02 1203 0000 0000 2020 51", "2"),
    ("de02120300000000202051", "2"),
    ("2@example.com", "2"),
    ("2@example.com,", "2"),
    ("Müller 2@example.com", "2"),
    ("3@example.com de89370400440532013000", "3"),
    ("Groß 2@example.com", ""),
    ("1 2@example.com", ""),
    ("4@example.com 2@example.com", ""),
    (" 2@example.com", "2"),
    ("1 2", ""),
    ("üllersch", "4"),
    ("lma", "5"),
    ("Juergen", "6"),
    ("jurgen o'brien-göthe", "6"),
    ("O`BRIEN juerg", "6"),
    ("obrien", "6"),
    ("Jörg Sörensen", "7"),
    ("jorg sorens", "7"),
    ("de89370400440532013ae0", "7"),
    ("de89370400440532013a0", ""),
    ("müller hannes muellerschoen", "4"),
    ("lm az", ""),
    ("yilmaz", "5"),
    ("ISIL YILMAZ", "5"),
    ("Yılmaz", "5"),
    ("hans gross", ""),
    ("nothing", ""),
    ("nobody@example.com", ""),
    ("nobody 7@example.com", ""),
    (" ", ""),
    ("\u0301", ""),
    ("ha", ""),
    ("%", ""),
]
"""Searches among the seven accounts, and the accounts that each finds."""


@pytest.mark.promise("search-full-names-either")
def test_people_are_found_by_names_in_any_order_and_by_iban(found: Callable[..., Any]) -> None:
    for text, expected in FOUND:
        assert found(text) == (expected, ""), text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Yılmaz", "yilmaz"),
        ("YILMAZ", "Yılmaz"),
        ("İbrahim Işık", "ibrahim isik"),
        ("Groß", "GROSS"),
        ("Müller", "Mueller"),
        ("MU\N{COMBINING DIAERESIS}LLER", "müller"),
        ("Köß", "koess"),
        ("Jürgen", "Jurgen"),
        ("Haeuser", "Hauser"),
        ("Noël", "Noel"),
        ("O’Brien", "O'Brien"),
        ("O´Brien", "obrien"),
        ("D'Ennis", "D`ennis"),
        ("Sørensen", "SORENSEN"),
        ("Æsa Œuvre", "aesa oeuvre"),
        ("Łukasz Đorđe", "lukasz dorde"),
        ("José Nuñez-Ångström", "jose nunez-angstroem"),
        ("  Anna \t Maria ", "anna maria"),
        ("ﬁnn", "finn"),
    ],
)
def test_what_people_type_is_compared_without_letters_that_they_may_not_have(one: str, other: str) -> None:
    assert folded(one) == folded(other)
    assert folded(folded(one)) == folded(one)


@pytest.mark.parametrize(
    ("one", "other"),
    [("AE-100", "A-100"), ("joerg@example.com", "jorg@example.com"), ("DE02AE12", "DE02A12"), ("D'1", "D1")],
)
def test_numbers_and_addresses_are_compared_letter_by_letter(one: str, other: str) -> None:
    assert folded(one) != folded(other)


SPELLINGS = {
    "ä": ["ä", "ae", "a", "Ä", "a\N{COMBINING DIAERESIS}"],
    "ö": ["ö", "oe", "o", "OE", "o\N{COMBINING DIAERESIS}"],
    "ü": ["ü", "ue", "u", "Ue", "U\N{COMBINING DIAERESIS}"],
    "ß": ["ß", "ss", "ẞ", "SS"],
    "é": ["é", "e", "É"],
    "ø": ["ø", "o", "oe"],
    "’": ["’", "'", "`", "´", "‘", ""],
    "-": ["-", "\N{HYPHEN}", "\N{NON-BREAKING HYPHEN}", "–", "\N{SOFT HYPHEN}-"],
    "n": ["n", "N", "n\N{SOFT HYPHEN}", "\N{ZERO WIDTH SPACE}n"],
}


@st.composite
def names_spelt_twice(draw: st.DrawFn) -> tuple[str, str]:
    letters = draw(st.lists(st.sampled_from([*SPELLINGS, *"abeorstuz"]), min_size=2, max_size=12))
    one, other = ("".join(draw(st.sampled_from(SPELLINGS.get(letter, [letter]))) for letter in letters) for _ in "12")
    return one, other


@given(names_spelt_twice(), names_spelt_twice())
def test_any_spelling_of_a_name_finds_it(given_names: tuple[str, str], family_names: tuple[str, str]) -> None:
    recorded = Recorded("import/S/1", 1, staged(), NOON, "S", "t", None, 1, "1")
    [row] = project(Seen(recorded, body=encoded(person("1", given_names[0], family_names[0]))))
    names, terms = row[3], {*row[4]}
    sought = search_parameters(f"{family_names[1]} {given_names[1]}", None, "", 10)
    assert {*sought["words"]} <= terms
    assert {*sought["parts"]} <= terms
    assert all(fragment.strip("%") in names for fragment in sought["fragments"])


@given(names_spelt_twice(), names_spelt_twice(), st.permutations(["-", "–", " "]))
def test_a_double_name_is_found_with_hyphen_or_blank(
    first: tuple[str, str], second: tuple[str, str], signs: list[str]
) -> None:
    recorded = Recorded("import/S/1", 1, staged(), NOON, "S", "t", None, 1, "1")
    [row] = project(Seen(recorded, body=encoded(person("1", "", f"{first[0]}{signs[0]}{second[0]}"))))
    sought = search_parameters(f"{first[1]}{signs[1]}{second[1]}", None, "", 10)
    assert {*sought["parts"]} <= {*row[4]}
    assert all(fragment.strip("%") in row[3] for fragment in sought["fragments"])


@given(st.text(alphabet=st.characters(max_codepoint=127), min_size=1))
def test_plain_letters_are_folded_at_once_as_they_are_the_long_way(text: str) -> None:
    assert folded(text) == folded(text + "\N{COMBINING ACUTE ACCENT}")


def test_a_search_says_that_there_are_more_and_goes_on(found: Callable[..., Any]) -> None:
    externals, after = found("müller", limit=1)
    seen = externals
    while after:
        externals, after = found("müller", limit=1, after=after)
        seen += externals
    assert seen == "234"
    assert found("müller", suppliers=["T"]) == ("", "")
    for nonsense in ("x", "ÄÖ", "AAAA"):
        with pytest.raises(ValueError, match="not the start of a page"):
            found("müller", after=nonsense)


@pytest.fixture(scope="module")
def many(shared_database: PostgresUrls) -> Iterator[Connection[Any]]:
    """A connection to a database with thirty thousand accounts."""
    with psycopg.connect(shared_database.admin, autocommit=True) as connection:
        connection.execute(_MANY)
        connection.execute("ANALYZE account_search, import_status")
    with closing(Ledger(shared_database.service, views=INLINE)) as ledger, ledger.connection() as connection:
        yield connection


@pytest.mark.parametrize(
    ("text", "expected"), [("only15000", 1), ("nobody", 0), ("every tenth", 11), ("xyz", 1), ("nna", 11)]
)
def test_a_search_does_not_go_through_all_accounts(many: Connection[Any], text: str, expected: int) -> None:
    with many.cursor(row_factory=tuple_row) as cursor:
        parameters = search_parameters(text, None, "", 10)
        assert len(cursor.execute(SELECT_FOUND, parameters).fetchall()) == expected
        [(plan,)] = cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {SELECT_FOUND}", parameters).fetchall()
    assert _most_left_out(plan[0]["Plan"]) < FEW
    assert _most_read(plan[0]["Plan"]) <= FEW + 1


def test_all_that_have_a_usual_part_of_a_name_are_found_page_by_page(many: Connection[Any]) -> None:
    seen: list[str] = []
    after = None
    while after != "":
        page = find_accounts(many, "nna", ["S"], after=after or "", limit=7_000)
        seen += [one.external_account_number for one in page.accounts]
        after = page.next_after
    assert seen == sorted(map(str, {*range(1, 30_001)} - {77}))


def test_searches_are_planned_once_for_all_texts(many: Connection[Any]) -> None:
    many.execute("DEALLOCATE ALL")
    for number in range(20):
        text = ("only{}", "mail{} anna", "every tenth {}")[number % 3].format(number)
        many.execute(SELECT_FOUND, search_parameters(text, ["S"], "", 10), prepare=True).fetchall()
    query = "SELECT custom_plans, generic_plans FROM pg_prepared_statements WHERE statement LIKE '%%account_search%%'"
    assert [*many.execute(query).fetchone().values()] == [5, 15]  # type: ignore[union-attr]


_MANY = """
INSERT INTO account_search (stream, supplier, external_account_number, names, terms)
SELECT 'import/S/' || n, 'S', n::text, CASE n WHEN 77 THEN 'wxyz' ELSE 'anna' END,
       ARRAY['only' || n, 'mail' || n, 'meter' || n, 'bank' || n, 'every', 'anna']
       || CASE WHEN n % 10 = 0 THEN ARRAY['tenth'] ELSE '{}' END
       || CASE n WHEN 77 THEN ARRAY['~wxy', '~xyz'] ELSE ARRAY['~ann', '~nna'] END
FROM generate_series(1, 30000) AS n;
INSERT INTO import_status (supplier, external_account_number, status, created_at, created_position, modified_at,
                           position, version, attempt)
SELECT 'S', n::text, 'PENDING', now(), n, now(), n, 1, 0 FROM generate_series(1, 30000) AS n;
"""


def _most_left_out(plan: dict[str, Any]) -> int:
    """Return the most rows that a node of the plan filtered out."""
    most: int = max([plan.get("Rows Removed by Filter", 0), *map(_most_left_out, plan.get("Plans", ()))])
    return most


def _most_read(plan: dict[str, Any]) -> int:
    """Return the most rows that a node of the plan read from a table."""
    read = plan["Actual Rows"] if "Relation Name" in plan else 0
    most: int = max([read, *map(_most_read, plan.get("Plans", ()))])
    return most


@pytest.mark.promise("search-full-names-either")
def test_an_account_is_found_by_its_number(ledger: Ledger, admin: Admin) -> None:
    for command in (stage(), start(), CompleteImport(start=2, account_number="A-7K2M9QXD")):
        ledger.execute(stream_of("S", "77"), command, at=NOON, by="t")
    admin.execute(
        "INSERT INTO platform.service_account"
        " (account_number, created_at, external_account_number, import_supplier)"
        " VALUES ('A-7K2M9QXD', %s, '77', 'S')",
        (NOON + timedelta(seconds=1),),
    )
    for text in ("A-7K2M9QXD", " a-7k2m9qxd "):
        page = find_accounts(admin, text, None)
        assert [one.external_account_number for one in page.accounts] == ["77"]
    assert find_accounts(admin, "A-7K2M9QXD", ["T"]).accounts == []


def test_an_erased_account_has_no_row_in_the_search() -> None:
    recorded = Recorded("import/S/1", 1, staged(), NOON, "S", "t", None, 1, "1")
    assert list(project(Seen(recorded))) == []
    [row] = project(Seen(recorded, body=encoded(person("1", "Anna", "Groß"))))
    assert {"anna", folded("Groß"), "de89370400440532013000"} <= set(row[-1])
    [row] = project(Seen(recorded, body=encoded(person("1", "\u0301", " ") | {"billing_postcode": " \u0301 "})))
    assert "" not in row[-1]


@given(st.integers(1, 1 << 20), st.sampled_from(["DE02120300000000202051", "de89370400440532013000"]))
def test_what_is_one_accounts_own_is_marked_with_its_part_of_the_log_and_nothing_else(part: int, iban: str) -> None:
    body = encoded(person("Hans 7", "Anna", "Groß", iban))
    first, later = (
        set(
            next(project(Seen(Recorded("import/S/1", 1, staged(), NOON, "S", "t", None, position, "1"), body=body)))[-1]
        )
        for position in (1, part << PART_BITS)
    )
    assert not any(term.startswith(" ") for term in first)
    marked = {term for term in later if term.startswith(" ")}
    assert {f" {part} {iban.lower()}", f" {part} hans 7@example.com"} <= marked
    assert {"anna", "~ann"} <= later
    assert {term.removeprefix(f" {part} ") for term in later} == first
