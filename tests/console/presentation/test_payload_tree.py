"""The tree of a payload: problems at their fields, masked persons, and pages."""

import tracemalloc
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from console.presentation.payload_tree import (
    MAX_VALUES,
    PERSON,
    PayloadNode,
    naming_person,
    payload_tree,
    person_in,
    values_at,
)
from schemas.base import Problem
from tests.support.make import an_account, encoded

IBAN = Problem("payment_instructions.0.bank_account.iban", "invalid_iban", "No IBAN.")
ABSENT = Problem("customers.0.nickname", "required", "Missing.")
WHOLE = Problem("ledgers.non_field_errors", "unequal", "Unequal.")


def node_at(nodes: list[PayloadNode], path: str) -> PayloadNode:
    """The node at a dotted path."""
    for node in nodes:
        if node.path == path:
            return node
        if path.startswith(f"{node.path}."):
            return node_at(node.children, path)
    raise AssertionError(path)


def everything(nodes: list[PayloadNode]) -> str:
    return " ".join(f"{node.value} {everything(node.children)}" for node in nodes)


def test_problems_stand_where_they_belong_and_the_way_to_them_is_open() -> None:
    tree = payload_tree(encoded(an_account()), (IBAN, ABSENT, WHOLE), (), is_clear=False)
    assert node_at(tree.nodes, IBAN.attr).problems == (IBAN,)
    assert node_at(tree.nodes, "customers.0.nickname").problems == (ABSENT,)
    assert node_at(tree.nodes, "ledgers").problems == (WHOLE,)
    assert node_at(tree.nodes, "payment_instructions").is_open
    assert not node_at(tree.nodes, "supply_addresses").is_open
    assert tree.elsewhere == ()


def test_only_errors_below_a_field_are_marked_as_errors() -> None:
    tree = payload_tree(encoded(an_account()), (IBAN,), (ABSENT,), is_clear=False)
    for path, number, has_errors in (("payment_instructions", 1, True), ("customers", 1, False), ("notes", 0, False)):
        node = node_at(tree.nodes, path)
        assert (node.number_below, node.has_errors_below) == (number, has_errors), path


def test_a_problem_without_a_place_is_not_lost() -> None:
    stray = Problem("nowhere.0.at", "invalid", "No.")
    whole = Problem("non_field_errors", "invalid", "No.")
    tree = payload_tree(encoded(an_account()), (stray,), (whole,), is_clear=False)
    shown = [problem for node in tree.nodes for problem in (*node.problems, *node.warnings)]
    assert {*tree.elsewhere, *shown} == {stray, whole}


def test_persons_are_masked_until_they_are_asked_for() -> None:
    account = an_account()
    secret = [
        account["customers"][0][name]
        for name in ("family_name", "email", "date_of_birth")
        if account["customers"][0].get(name)
    ]
    secret.append(account["payment_instructions"][0]["bank_account"]["iban"])
    for body in (account, {"payload": account}):
        masked = everything(payload_tree(encoded(body), (), (), is_clear=False).nodes)
        clear = everything(payload_tree(encoded(body), (), (), is_clear=True).nodes)
        assert [word for word in secret if word in masked] == []
        assert [word for word in secret if word not in clear] == []


@pytest.mark.parametrize("body", [b"", b"[1]", b"\xff", b'"x"'])
def test_what_is_no_object_has_no_tree(body: bytes) -> None:
    tree = payload_tree(body, (IBAN,), (), is_clear=True)
    assert (tree.nodes, tree.elsewhere) == ([], (IBAN,))


def places(nodes: list[PayloadNode]) -> list[str]:
    """The places of all values, in their order."""
    return [path for node in nodes for path in (places(node.children) if node.children else [node.path])]


def test_the_pages_of_a_huge_payload_are_all_of_it_in_order() -> None:
    huge: dict[str, Any] = {"notes": [{"body": "x", "at": 1}] * MAX_VALUES, "end": {"a": [], "b": {"c": 1}}}
    seen: list[str] = []
    after: int | None = 0
    while after is not None:
        tree = payload_tree(encoded(huge), (), (), is_clear=True, after=after)
        assert 0 < len(places(tree.nodes)) <= MAX_VALUES
        seen, after = [*seen, *places(tree.nodes)], tree.next_after
    notes = [f"notes.{n}.{name}" for n in range(MAX_VALUES) for name in ("body", "at")]
    assert seen == [*notes, "end.a", "end.b.c"]
    assert payload_tree(encoded(huge), (), (), is_clear=True, after=10**9).nodes == []


def test_problems_beyond_a_page_stand_on_the_first_one_and_at_their_place() -> None:
    huge = {"notes": [{"body": "x"}] * (MAX_VALUES + 1), "end": {"at": 1}}
    far, absent = Problem(f"notes.{MAX_VALUES}.body", "blank", "No."), Problem("end.to", "required", "Missing.")
    tree = payload_tree(encoded(huge), (far,), (absent,), is_clear=True)
    assert node_at(tree.nodes, far.attr).problems == (far,)
    assert node_at(tree.nodes, absent.attr).warnings == (absent,)
    assert tree.elsewhere == ()
    later = payload_tree(encoded(huge), (far,), (absent,), is_clear=True, after=tree.next_after or 0)
    assert node_at(later.nodes, far.attr).problems == (far,)
    assert later.elsewhere == ()


def peak_of(work: Callable[[], object]) -> int:
    """Return the most memory that this work holds at a time [bytes]."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_page_takes_no_memory_for_values_that_it_does_not_show() -> None:
    body = encoded({"notes": [{"body": "x", "at": n} for n in range(50_000)]})
    far = Problem("notes.49999.body", "blank", "No.")
    decoding = peak_of(lambda: msgspec.json.decode(body))
    assert peak_of(lambda: payload_tree(body, (far,), (), is_clear=True)) < decoding * 1.2


@pytest.mark.parametrize(
    ("text", "is_named"),
    [
        ("", False), ("duplicate, ticket 99", False), ("Frau MÜLLER hat angerufen", True), ("mueller", True),
        ("the number 0170 123 45 67", True), ("DE02-1203-0000-0000-2020-51", True), ("ELECTRICITY in 2022", False),
    ],
)  # fmt: skip
def test_a_text_names_a_person_if_it_has_a_masked_value(text: str, is_named: bool) -> None:
    account = {
        "customers": [{"family_name": "Müller", "mobile": "01701234567"}],
        "payment_instructions": [{"bank_account": {"iban": "DE02120300000000202051"}}],
        "supply_type": "ELECTRICITY",
    }
    harmless = "checked twice"
    assert naming_person([harmless, text], msgspec.json.encode(account)) == ({text} if is_named else set())
    assert naming_person([text], b"no JSON") == {text}


def test_a_person_is_named_by_headings_and_masked_until_it_is_asked_for() -> None:
    account = an_account()
    masked, clear = (dict(person_in(encoded({"payload": account}), is_clear=is_clear)) for is_clear in (False, True))
    assert masked.keys() == clear.keys() == PERSON.keys()
    assert (masked["Name"], clear["Name"]) == ("C••• Y•••", "Clara Yılmaz")
    assert clear["Address"] == "Schillerstraße 194 Frankfurt am Main 60311"
    assert [heading for heading in clear if clear[heading] == masked[heading]] == []
    assert person_in(b"[1]", is_clear=True) == []
    strange = encoded({"customers": [{"family_name": ["x"]}, 7], "billing_postcode": 5})
    assert person_in(strange, is_clear=True) == []


def test_the_value_at_the_place_of_a_problem_is_masked_like_the_tree() -> None:
    body, name = encoded(an_account()), Problem("customers.0.family_name", "invalid", "No.")
    problems = (IBAN, name, ABSENT, WHOLE)
    masked, clear = (values_at(body, problems, is_clear=is_clear) for is_clear in (False, True))
    assert set(masked) == set(clear) == {IBAN.attr, name.attr}
    assert (masked[name.attr], clear[name.attr]) == ("Y•••", "Yılmaz")
    assert values_at(body, problems, is_clear=False, shown={name.attr})[name.attr] == "Yılmaz"
