"""Output of verbs: settings by name and word, times and absence in one form, days as moments, escaped characters."""

import json
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from api.endpoints.supplier_settings import SUPPLIER_SETTINGS
from cli.main import importledger
from cli.output import text_of
from embedded.postgres import PostgresUrls
from eventstore.errors import LedgerError
from eventstore.log.ledger import Ledger
from projections.queries.history import AsOf
from tests.support.verbs import as_verb


@pytest.mark.promise("one-form-times-absence")
def test_times_and_absence_have_one_form() -> None:
    at = datetime(2026, 11, 21, 8, 30, tzinfo=UTC)
    assert [text_of(value) for value in (at, None, "", [], ["a", "b"], True, 3, "a\n\tb")] == [
        "2026-11-21T08:30:00Z", "-", "-", "-", "a,b", "yes", "3", "a\\u000a\\u0009b",
    ]  # fmt: skip


@pytest.mark.promise("2026-11-21-taken")
def test_a_day_is_its_end_in_german_market_time_and_its_beginning_where_a_span_begins() -> None:
    assert AsOf.of("2026-11-21").time == datetime(2026, 11, 21, 22, 59, 59, 999_999, tzinfo=UTC)
    assert AsOf.of("2026-11-21", is_end=False).time == datetime(2026, 11, 20, 23, tzinfo=UTC)
    assert AsOf.of("2026-07-01").time == datetime(2026, 7, 1, 21, 59, 59, 999_999, tzinfo=UTC)
    with pytest.raises(ValueError, match="a day such as"):
        AsOf.of("2026-02-30")


@pytest.mark.promise("supplier-show-prints-name", "documents-root-cannot-reached")
def test_settings_are_shown_by_the_names_and_words_that_set_takes(
    database: PostgresUrls, ledger: Ledger, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", database.service)
    monkeypatch.setenv("IMPORTLEDGER_DATA_DIR", str(folder))

    def typed(*arguments: str) -> str:
        result = CliRunner().invoke(importledger, ["supplier", *arguments])
        assert result.exit_code == 0, result.output
        return result.output

    def shown() -> dict[str, Any]:
        result: dict[str, Any] = json.loads(typed("show", "NORDWIND", "--json"))
        return result

    typed("create", "NORDWIND")
    fresh = shown()
    assert fresh.keys() == {"code", "status", "reason", "created_at", "modified_at", *SUPPLIER_SETTINGS}
    assert (fresh["dry-run-only"], fresh["documents-root"], fresh["reason"]) == ("no", None, None)
    assert "documents-root -\n" in typed("show", "NORDWIND")
    result = typed("set", "NORDWIND", f"documents-root=file://{folder}", "documents-check=warn", "dry-run-only=yes")
    assert result == "NORDWIND is set.\n"
    lines = typed("show", "NORDWIND").splitlines()
    changed = shown()
    assert lines == [f"{name} {text_of(value)}" for name, value in changed.items()]
    for name in SUPPLIER_SETTINGS:
        typed("set", "NORDWIND", f"{name}={changed[name]}")
        assert shown()[name] == changed[name]
    result = typed("set", "NORDWIND", "documents-root=file:///nowhere/at/all")
    assert "file:///nowhere/at/all cannot be reached" in result
    typed("set", "NORDWIND", *(f"{name}=" for name in SUPPLIER_SETTINGS))
    cleared = shown()
    assert {name: cleared[name] for name in SUPPLIER_SETTINGS} == {name: fresh[name] for name in SUPPLIER_SETTINGS}


HOSTILE = "NW\x1b[2J\u202e\u200b\x9b"
ESCAPED = r"NW\u001b[2J\u202e\u200b\u009b"


@pytest.mark.promise("control-bidi-zero-width")
@pytest.mark.asvs("V1.1.2")
def test_control_characters_in_importers_text_are_escaped_and_json_says_the_same() -> None:
    def print_text() -> None:
        click.echo(HOSTILE)
        click.echo(json.dumps({"external": HOSTILE}, ensure_ascii=False).encode())

    def refuse(error: Exception) -> None:
        raise error

    line, as_json = as_verb(print_text).stdout.splitlines()
    assert (line, ESCAPED in as_json, json.loads(as_json)) == (ESCAPED, True, {"external": HOSTILE})
    for error in (click.ClickException(HOSTILE), LedgerError(HOSTILE)):
        ended = as_verb(partial(refuse, error))
        assert (ended.returncode, ESCAPED in ended.stderr) == (1, True)
        assert not set(HOSTILE) & {"\x1b", "\u202e"} & set(ended.stderr)
