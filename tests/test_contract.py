"""Rows of docs/reference/contract.md and promises.md name the tests that verify them; every field accepts its type."""

import copy
import itertools
import re
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest

from api.operations import OPERATIONS
from eventstore.aggregates.import_process import (
    CancelImport,
    CompleteImport,
    FailImport,
    stream_of,
)
from eventstore.log.ledger import Ledger
from market.rule import RuleBook
from projections.views.import_status import _SELECT_STATUSES, _TRANSFER_STATES
from schemas.account import Account
from schemas.base import Wire
from schemas.delivery_note import DeliveryNoteImport
from schemas.energy_amount import EnergyAmountImport
from schemas.invoice import MarketParticipantInvoiceImport
from schemas.market_participant import MarketParticipant
from schemas.price_sheet import FeeImport
from schemas.reading.shape import Shape
from tests.support.make import NOON, an_account, encoded, stage, start
from tests.support.markers import marked_tests
from tests.support.promised import PAGES, filled, rows
from tests.support.running import RunningService, wait_for

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "reference" / "contract.md").read_text()
PROMISES = (ROOT / "docs" / "reference" / "promises.md").read_text()

RESOURCES: dict[str, tuple[type[Wire], str]] = {
    "Account": (Account, "validate_account"),
    "Market participant": (MarketParticipant, "import_market_participant"),
    "Fee price sheets": (FeeImport, "import_price_sheets"),
    "Delivery note": (DeliveryNoteImport, "create_delivery_note"),
    "Energy amount": (EnergyAmountImport, "create_energy_amount"),
    "Market participant invoice": (MarketParticipantInvoiceImport, "create_market_participant_invoice"),
}
SHAPES: dict[str, Shape[Any]] = {name: Shape(wire_type) for name, (wire_type, _) in RESOURCES.items()}
EXAMPLES = {operation.name: operation.example for operation in OPERATIONS if operation.body}
BOOKS = {name: RuleBook.of(wire_type, ()) for name, (wire_type, _) in RESOURCES.items()}
"""What is left to check after decoding, without the market's rules."""

SHAPE_ERRORS: dict[str, dict[str, list[Any]]] = {
    "string": {"invalid": [5, True, ["x"], {}]},
    "choice": {"invalid_choice": ["NO_SUCH_CHOICE", 5, True]},
    "boolean": {"invalid": ["true", 1]},
    "integer": {"invalid": ["5", 1.5, True]},
    "decimal": {"invalid": [True, "NaN", "1,5"], "max_digits": ["1e400", "9" * 40]},
    "date": {"invalid": ["2023-02-29", "01.02.2023", 20230101, False]},
    "datetime": {
        "invalid": [
            *("2023-02-29T00:00:00Z", "2023-01-01", 1672531200),
            *("0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00"),
        ]
    },
    "object": {"invalid": ["x", [], 5]},
    "array": {"not_a_list": [{}, "x", 5]},
    "any": {},
}
"""Values that are not of a type, by type and by the code that says so."""
RIGHT: dict[str, list[Any]] = {
    "boolean": [True, False],
    "decimal": ["1.50", 1.5, 7, "-0.0000000001"],
    "date": ["2024-02-29"],
    "datetime": [
        *("2024-02-29T12:00:00Z", "2024-02-29T12:00:00+01:00", "2024-02-29T12:00:00"),
        *("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "1456-02-05T23:16:32", "1893-03-31T23:59:59"),
    ],
    "any": [None, "x", 1.5, {"a": [1]}],
}
"""By type: values of it that fit any field, however it is bounded."""


def field_rows() -> list[tuple[str, str, str, str]]:
    """(resource, path, type, required or optional) of every field row."""
    rows: list[tuple[str, str, str, str]] = []
    resource = ""
    for line in PAGE[PAGE.index("## Fields") :].splitlines():
        if line.startswith("### "):
            resource = line[4:]
        elif match := re.match(r"\| `([^`]+)` \| ([a-z ]+) \| (required|optional) \|", line):
            rows.append((resource, match.group(1), match.group(2), match.group(3)))
    return rows


ROWS = field_rows()


def place_of(resource: str, path: str) -> tuple[Any, list[Any]]:
    """A body in which the field's place exists, and the place."""
    body = copy.deepcopy(EXAMPLES[RESOURCES[resource][1]])
    steps: list[Any] = []
    for name in path.split("."):
        steps += [name.removesuffix("[]"), 0] if name.endswith("[]") else [name]
    node = body
    for position, step in enumerate(steps[:-1]):
        if isinstance(step, int):
            index = next((i for i, item in enumerate(node) if _holds(item, steps[position + 1 :])), 0)
            steps[position] = index
            node = node[index]
        else:
            node = node[step]
    return body, steps


def _holds(node: Any, steps: list[Any]) -> bool:
    """Whether the steps but for the last lead somewhere, by any item of the arrays on the way."""
    if len(steps) <= 1:
        return isinstance(node, dict)
    if isinstance(steps[0], int):
        return any(_holds(item, steps[1:]) for item in node)
    return isinstance(node, dict) and bool(node.get(steps[0])) and _holds(node[steps[0]], steps[1:])


def codes_at(resource: str, body: Any, steps: list[Any], value: Any) -> list[str]:
    """The codes of shape errors at or below the place when it holds this value; the place is left out for `...`."""
    node = body
    for step in steps[:-1]:
        node = node[step]
    if value is ...:
        node.pop(steps[-1], None)
    else:
        node[steps[-1]] = value
    attr = ".".join(map(str, steps))
    read, shape_errors = SHAPES[resource].examine(encoded(body))
    problems = [*shape_errors, *(breach.problem for breach in BOOKS[resource].breaches(read, NOON, shape_errors))]
    return [p.code for p in problems if p.attr == attr or p.attr.startswith(f"{attr}.")]


@pytest.mark.promise("date-makes-rule-fail")
@pytest.mark.asvs("V1.4.2", "V1.5.2", "V2.1.1", "V2.2.1", "V15.3.5")
@pytest.mark.parametrize(("resource", "path", "kind", "presence"), ROWS, ids=[f"{r[0]}: {r[1]}" for r in ROWS])
def test_a_field_takes_its_type_and_nothing_else(resource: str, path: str, kind: str, presence: str) -> None:
    body, steps = place_of(resource, path)
    bare, is_nullable = kind.removesuffix(" or null"), kind.endswith(" or null")
    kind_of_value = bare.split(" ")[0]
    assert codes_at(resource, body, steps, None) == ([] if is_nullable else ["null"])
    assert codes_at(resource, body, steps, ...) == (["required"] if presence == "required" else [])
    for value in RIGHT.get(kind_of_value, []):
        assert codes_at(resource, body, steps, value) == [], value
    for code, values in SHAPE_ERRORS[kind_of_value].items():
        for value in values:
            assert codes_at(resource, body, steps, value) == [code], value


def test_every_field_has_its_row() -> None:
    assert len(ROWS) == len({(resource, path) for resource, path, _, _ in ROWS})
    for resource, (wire_type, _) in RESOURCES.items():
        told = {path.replace("[]", "") for of, path, _, _ in ROWS if of == resource}
        assert told == set(paths_of(msgspec.inspect.type_info(wire_type))), resource


def paths_of(node: msgspec.inspect.Type, at: str = "") -> list[str]:
    """Every field's path, without marks for arrays."""
    match node:
        case msgspec.inspect.UnionType(types=types):
            return [path for member in types for path in paths_of(member, at)]
        case msgspec.inspect.VarTupleType(item_type=item):
            return paths_of(item, at)
        case msgspec.inspect.StructType(fields=fields):
            found = []
            for field in fields:
                here = f"{at}.{field.encode_name}".lstrip(".")
                found += [here, *paths_of(field.type, here)]
            return found
        case _:
            return []


@pytest.mark.promise("every-row-page-test")
def test_the_pages_name_the_tests_that_hold_each_row() -> None:
    """`make docs` writes them."""
    tests = marked_tests("promise")
    for page in PAGES:
        assert filled(page.read_text(), tests) == page.read_text()
    names = [name for page in PAGES for name in rows(page.read_text())]
    assert len(names) == len({*names})
    assert {*names} == tests.keys()


STARTED = start()
FAILED = FailImport(start=2, code="account_failed_validation", detail="No.")
COMPLETED = CompleteImport(start=2, account_number="A-00000001")


@pytest.mark.promise(
    "v1-unknown",
    "v1-progress",
    "v1-completed",
    "v2-pending",
    "v2-progress",
    "v2-processed",
    "v2-dry-run-succeeded",
    "v2-cancelled",
    "v2-errored-latest-error",
    "v2-dry-run-errored",
)
@pytest.mark.parametrize(
    ("commands", "v2", "v1"),
    [
        ([stage()], "PENDING", "UNKNOWN"),
        ([stage(), STARTED], "IN_PROGRESS", "IN_PROGRESS"),
        ([stage(), STARTED, COMPLETED], "PROCESSED", "COMPLETED"),
        ([stage(), STARTED, FAILED], "ERRORED", "UNKNOWN"),
        ([stage(), CancelImport()], "CANCELLED", "UNKNOWN"),
        ([stage(is_dry_run=True), STARTED, COMPLETED], "DRY_RUN_SUCCEEDED", "UNKNOWN"),
        ([stage(is_dry_run=True), STARTED, FAILED], "DRY_RUN_ERRORED", "UNKNOWN"),
    ],
)
def test_every_state_of_a_process_is_shown_in_v1_and_v2(
    ledger: Ledger, database: Any, commands: list[Any], v2: str, v1: str
) -> None:
    for command in commands:
        ledger.execute(stream_of("S", "1"), command, at=NOON, by="t")
    with psycopg.connect(database.service) as connection:
        row = connection.execute(_SELECT_STATUSES.encode(), (["S"], ["1"])).fetchone()
    assert row is not None
    supplier, external, status, account_number, _, _, code, detail, domain, released_at = row
    assert (supplier, external) == ("S", "1")
    assert status == v2
    assert _TRANSFER_STATES.get(status, "UNKNOWN") == v1
    assert (account_number is not None) == (v2 == "PROCESSED")
    expected = ("account_failed_validation", "No.", "account_import") if "ERRORED" in v2 else (None, None, None)
    assert (code, detail, domain, released_at) == (*expected, None)


@pytest.mark.promise("supplier-complete")
def test_a_complete_supplier_takes_no_accounts(service: RunningService) -> None:
    importer = service.importer()
    service.cli("supplier", "status", importer.supplier, "complete")
    fresh = (encoded(an_account(importer.supplier, number)) for number in itertools.count(1))
    expected = ("import_supplier_migration_not_ongoing",)
    wait_for(lambda: importer.client.create(next(fresh)).codes == expected, "the supplier is closed")
    assert importer.client.validate(next(fresh)).status == 200
