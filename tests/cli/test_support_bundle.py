"""`support-bundle` holds useful facts, and no canary of a secret or a person."""

import json
import zipfile
from pathlib import Path

import pytest

from cli.checkup.finding import command, wrong
from cli.checkup.service import heal_command
from cli.service.settings import shown_settings
from cli.support_bundle import finding_for_support, line_for_support
from tests.support.make import an_account, encoded
from tests.support.running import RunningService, cli, processed, wait_for

CANARY = "Kanarienvogel"


def everything_in(file: Path) -> dict[str, str]:
    with zipfile.ZipFile(file) as bundle:
        assert bundle.testzip() is None
        return {name: bundle.read(name).decode() for name in bundle.namelist()}


@pytest.mark.promise("support-bundle-content")
def test_a_bundle_of_a_running_service_helps_and_tells_nothing_of_persons(
    service: RunningService, folder: Path
) -> None:
    importer = service.importer()
    account = an_account(importer.supplier) | {"notes": [{"body": CANARY}]}
    account["customers"][0] |= {"family_name": CANARY}
    assert importer.client.create(encoded(account)).status == 201
    wait_for(lambda: processed(importer) == 1, "it is processed")
    external = str(account["external_account_number"])
    log = folder / "service.log"
    lines: list[dict[str, object]] = [
        {"event": "import ended", "level": "info", "external_account_number": external, "status": "ERRORED"},
        {"event": "request", "route": "/livez/", "organisation": CANARY, "duration_ms": 1.5},
        {"event": f"value '{CANARY}' was odd", "reason": f"Key (name)=({CANARY}) exists"},
        {"event": "unexpected error", "exception": f'File "a.py", line 3, in f\nValueError: {CANARY}'},
    ]
    postgres = f'2026-11-22 05:00:00.000 UTC [12] ERROR:  relation "{CANARY}" does not exist'
    log.write_text("\n".join([*map(json.dumps, lines), f"a line of something else with {CANARY}", postgres]))
    file = folder / "bundle.zip"
    result = json.loads(service.cli("support-bundle", "-o", str(file), "--log", str(log), "--json").stdout)
    assert result["file"] == str(file)
    assert file.stat().st_mode & 0o777 == 0o600
    found = everything_in(file)
    assert set(result["contents"]) == found.keys()
    of_database = {"migrations.json", "overview.json", "database.json"}
    assert {"versions.json", "settings.json", "doctor.json", *of_database} <= found.keys()
    assert json.loads(found["versions.json"])["importledger"]
    assert "0001_baseline.sql" in json.loads(found["migrations.json"])
    assert {"lags", "imports", "head"} <= json.loads(found["overview.json"]).keys()
    assert {finding["check"] for finding in json.loads(found["doctor.json"])} >= {"settings", "sealing", "roles"}
    [name] = [name for name in found if name.endswith("service.log")]
    kept = found[name].splitlines()
    assert json.loads(kept[0]) == {"event": "import ended", "level": "info", "status": "ERRORED"}
    assert json.loads(kept[1]) == {"event": "request", "route": "/livez/", "duration_ms": 1.5}
    assert json.loads(kept[3])["exception"] == 'File "a.py", line 3, in f; ValueError'
    assert kept[-1] == "(1 line of another form is left out)"
    secrets = Path(service.environment["IMPORTLEDGER_DATA_DIR"]) / "secrets"
    urls = json.loads((secrets / "connections.json").read_text()).values()
    passwords = [url.split("://")[1].split("@")[0].rpartition(":")[2] for url in urls if "@" in url]
    for canary in (CANARY, external, importer.api_key, *passwords):
        assert not [name for name, text in found.items() if canary in text], canary


@pytest.mark.promise("support-bundle-content")
def test_of_secrets_it_is_told_that_they_are_set() -> None:
    result = shown_settings(
        {
            "IMPORTLEDGER_TOKEN_KEY": CANARY * 4,
            "IMPORTLEDGER_SEALING_KEY": CANARY,
            "IMPORTLEDGER_SMTP_URL": f"smtp://user:{CANARY}@mail",
            "IMPORTLEDGER_MAIL_FROM": f"{CANARY}@example.org",
            "OTEL_EXPORTER_OTLP_HEADERS": f"authorization={CANARY}",
            "DATABASE_URL": f"postgresql://service:{CANARY}@host:5433/ledger",
            "REDIS_URL": f"redis://:{CANARY}@host",
            "IMPORTLEDGER_LOG_LEVEL": "info",
            "HOME": CANARY,
        }
    )
    assert CANARY not in json.dumps(result)
    assert result["DATABASE_URL"] == "host:5433/ledger as service"
    assert result["IMPORTLEDGER_LOG_LEVEL"] == "info"
    assert result["IMPORTLEDGER_TOKEN_KEY"] == "(set)"
    assert "HOME" not in result


@pytest.mark.parametrize("line", ["", "text", "[1]", '"text"', "{"])
def test_a_line_of_another_form_is_left_out(line: str) -> None:
    assert line_for_support(line) is None


def test_no_account_is_named_by_a_stream_or_by_what_doctor_says_to_type() -> None:
    stream = f"import/NORDWIND/{CANARY} 7"
    line = json.dumps({"event": f"lost {stream}", "reason": f"delivery-note/NORDWIND/{CANARY}/9f", "level": "info"})
    assert line_for_support(line) == json.dumps(
        {"event": "lost import/…", "reason": "delivery-note/…", "level": "info"}
    )
    heal = f"mend the cause, then {heal_command('import_status', stream)}"
    assert CANARY in heal
    finding = wrong("projections", command("import_status has 1 parked stream."), command(heal))
    assert finding_for_support(finding)["todo"] == "mend the cause, then importledger projections heal …"


def test_without_a_database_there_is_a_bundle_all_the_same(folder: Path) -> None:
    file = folder / "bundle.zip"
    environment = {"DATABASE_URL": f"postgresql://u:{CANARY}@127.0.0.1:1/none", "IMPORTLEDGER_DATA_DIR": str(folder)}
    cli("support-bundle", "-o", str(file), environment=environment)
    found = everything_in(file)
    assert "away" in json.loads(found["database.json"])
    assert CANARY not in json.dumps(found)
