"""Settings are read from the environment; a missing or wrong one is named."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.service.settings import SECRETS, SETTINGS, SettingError, Settings, unknown_setting
from tests.support.running import cli, free_port

ROOT = Path(__file__).parents[3]
NAMES = [setting.name for setting in SETTINGS]


OIDC = {
    "IMPORTLEDGER_OIDC_ISSUER": "https://id.example",
    "IMPORTLEDGER_OIDC_CLIENT_ID": "ledger",
    "IMPORTLEDGER_OIDC_CLIENT_SECRET": "s" * 20,
    "IMPORTLEDGER_OIDC_ROLES": "staff=operator:Platform:*;team=importer:Nordwind:NW",
}
NOWHERE = "/nowhere/at/all.pem"
WRONG: dict[str, list[str]] = {
    "DATABASE_URL": [
        "mysql://h/d",
        "h/d",
        *(f"postgresql://h/d?{part}={NOWHERE}" for part in ("sslrootcert", "sslkey")),
    ],
    "DATABASE_ADMIN_URL": ["h/d", "postgresql://h:port/d", "postgresql://h/d"],
    "REDIS_URL": [
        "http://h",
        "redis://h/abc",
        "redis://h:1/0/1",
        "redis://h?db=abc",
        "redis://h:port",
        f"rediss://h?ssl_ca_certs={NOWHERE}",
    ],
    "IMPORTLEDGER_TOKEN_KEY": ["short"],
    "IMPORTLEDGER_REQUEST_KEY": ["short"],
    "IMPORTLEDGER_SEALING_KEY": ["short", "A" * 44],
    "IMPORTLEDGER_SMTP_URL": ["http://h", "smtp://", "smtp://h:port", "smtps://h"],
    "IMPORTLEDGER_OIDC_CLIENT_SECRET": ["alone"],
    "IMPORTLEDGER_CHECKPOINTS_URL": ["http://h", "s3://", "file://folder"],
    "IMPORTLEDGER_CONSOLE_URL": ["ledger.example", "ftp://h"],
    "IMPORTLEDGER_DATA_DIR": [__file__],
    "IMPORTLEDGER_DOCUMENTS_PLACES": [
        *("Nordwind", "=s3://b", "N=/srv", "N=s3://b/../c", "N=file://h/a", "N=ftp://h/a", "N=s3://b;N=s3://c"),
    ],
    "IMPORTLEDGER_DURABILITY": ["global"],
    "IMPORTLEDGER_FOUR_EYES": ["reverts", "revert,", "revert;erase", "all"],
    "IMPORTLEDGER_HEALTH_PORT": ["0", "65536", "tcp://10.0.0.1:80"],
    "IMPORTLEDGER_LOG_FORMAT": ["xml"],
    "IMPORTLEDGER_LOG_LEVEL": ["loud"],
    "IMPORTLEDGER_MAIL_FROM": ["nobody", "a@b\r\nTo: c@d"],
    "IMPORTLEDGER_METRICS_HOST": ["http://h", "a b", "127.0.0.1:9000"],
    "IMPORTLEDGER_METRICS_PORT": ["none", "-1"],
    "IMPORTLEDGER_NICENESS": ["20", "-1"],
    "IMPORTLEDGER_OIDC_CLAIM": ["alone"],
    "IMPORTLEDGER_OIDC_CLIENT_ID": ["alone"],
    "IMPORTLEDGER_OIDC_ISSUER": ["id.example", "http://id.example"],
    "IMPORTLEDGER_OIDC_ROLES": ["alone", "staff=operator", "staff=operator:Platform:"],
    "IMPORTLEDGER_SANDBOX": ["1"],
    "IMPORTLEDGER_SEAL_EVERY_S": ["0", "nan", "inf", "soon"],
    "IMPORTLEDGER_SMTP_PLAINTEXT": ["on", "maybe"],
    "IMPORTLEDGER_TRUSTED_PROXIES": ["proxy.example", "10.0.0.5/8"],
    "OTEL_EXPORTER_OTLP_ENDPOINT": ["localhost:4318", "collector", "http://", "grpc://h:4317", "http://h:port"],
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": ["collector"],
    "OTEL_EXPORTER_OTLP_CERTIFICATE": [NOWHERE],
    "OTEL_TRACES_EXPORTER": ["jaeger"],
    "PROMETHEUS_MULTIPROC_DIR": [NOWHERE, __file__],
}
"""Wrong values of every setting."""


@pytest.mark.asvs("V13.1.1")
def test_every_setting_has_wrong_values() -> None:
    assert {*NAMES} - {"IMPORTLEDGER_OIDC_CLIENT_SECRET"} <= WRONG.keys()


@pytest.mark.promise("name-value-setting-wrong")
@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_a_setting_that_is_wrong_is_refused_at_the_start_and_named(name: str, value: str) -> None:
    with pytest.raises(SettingError, match=name) as refused:
        Settings.from_environment({name: value}).refuse_incomplete()
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize(
    "name", ["DATABASE_URL", "REDIS_URL", "IMPORTLEDGER_METRICS_HOST", "OTEL_EXPORTER_OTLP_ENDPOINT"]
)
def test_a_role_with_a_wrong_setting_ends_and_names_it(name: str) -> None:
    refused = cli("worker", environment={name: WRONG[name][0]}, check=False)
    assert refused.returncode == 1
    assert name in refused.stderr


def test_without_variables_settings_have_their_defaults() -> None:
    settings = Settings.from_environment({})
    assert {setting.field: getattr(settings, setting.field) for setting in SETTINGS} == {
        setting.field: setting.default for setting in SETTINGS
    } | {"data_dir": settings.data_dir}
    assert settings.data_dir.is_absolute()
    given = {"IMPORTLEDGER_DATA_DIR": "/data", "REDIS_URL": "rediss://h:1", "IMPORTLEDGER_NICENESS": "0"}
    settings = Settings.from_environment(given)
    assert (settings.data_dir, settings.redis_url, settings.niceness) == (Path("/data"), "rediss://h:1", 0)


@pytest.mark.promise("name-value-setting-wrong")
def test_an_empty_value_is_refused_where_the_default_could_hide_a_forgotten_one() -> None:
    refused = set()
    for name in NAMES:
        try:
            empty = Settings.from_environment({name: ""})
        except SettingError as error:
            refused.add(str(error).partition(" ")[0])
        else:
            assert empty == Settings.from_environment({}), name
    assert refused == {
        *("IMPORTLEDGER_DURABILITY", "IMPORTLEDGER_TOKEN_KEY", "IMPORTLEDGER_REQUEST_KEY", "IMPORTLEDGER_SEAL_EVERY_S"),
        *("IMPORTLEDGER_SMTP_PLAINTEXT", "IMPORTLEDGER_SANDBOX", "IMPORTLEDGER_NICENESS", "IMPORTLEDGER_LOG_LEVEL"),
        "IMPORTLEDGER_LOG_FORMAT",
    }
    listed = (
        (ROOT / "docs" / "reference" / "settings.md").read_text().partition("An empty value")[2].partition("\n\n")[0]
    )
    assert set(re.findall(r"`(\w+)`", listed)) == refused


@pytest.mark.promise("name-value-setting-wrong")
@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("IMPORTLEDGER_DATADIR", "IMPORTLEDGER_DATA_DIR"),
        ("IMPORTLEDGER_DATA_DIRECTORY", "IMPORTLEDGER_DATA_DIR"),
        ("IMPORTLEDGER_METRIC_PORT", "IMPORTLEDGER_METRICS_PORT"),
        ("IMPORTLEGDER_DATA_DIR", "IMPORTLEDGER_DATA_DIR"),
        ("IMPORT_LEDGER_SEALING_KEY", "IMPORTLEDGER_SEALING_KEY"),
        ("importledger_log_level", "IMPORTLEDGER_LOG_LEVEL"),
        ("IMPORTLEDGER_TOKENKEY_FILE", "IMPORTLEDGER_TOKEN_KEY_FILE"),
        ("IMPORTLEDGER_LOG_LEVEL_FILE", "IMPORTLEDGER_LOG_LEVEL"),
        ("IMPORTLEDGER_WHATEVER", ""),
    ],
)
def test_a_name_with_a_slip_is_refused_and_a_near_one_is_suggested(name: str, near: str) -> None:
    with pytest.raises(SettingError, match=f"^{name} must not be set") as refused:
        Settings.from_environment({name: "9000"})
    assert str(refused.value).partition("Did you mean ")[2].rstrip("?") == near


@given(st.sampled_from([name for name in NAMES if name.startswith("IMPORTLEDGER_")]), st.data())
def test_one_character_left_out_doubled_or_swapped_is_found(name: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(name) - 2))
    slips = [
        name[:place] + name[place + 1 :],
        name[:place] + name[place] + name[place:],
        name[:place] + name[place + 1] + name[place] + name[place + 2 :],
    ]
    slip = data.draw(st.sampled_from(slips))
    if slip in NAMES:
        return
    refusal = unknown_setting({slip: "x"})
    assert refusal is not None
    assert refusal.startswith(f"{slip} must not be set")
    assert "Did you mean IMPORTLEDGER_" in refusal


def test_names_of_others_are_left_alone() -> None:
    names = ["PATH", "DATABASE_URI", "REDIS_HOST", "IMPORTANT", "LEDGER_DIR", "IMPORTER_URL", "IMPORTLEDGER_URL"]
    links = {
        "IMPORTLEDGER_SERVICE_HOST": "10.0.0.1",
        "IMPORTLEDGER_API_SERVICE_PORT": "8000",
        "IMPORTLEDGER_API_SERVICE_PORT_HTTP": "8000",
        "IMPORTLEDGER_API_PORT": "tcp://10.0.0.1:8000",
        "IMPORTLEDGER_API_PORT_8000_TCP": "tcp://10.0.0.1:8000",
        "IMPORTLEDGER_API_PORT_8000_TCP_ADDR": "10.0.0.1",
    }
    assert unknown_setting(dict.fromkeys(names, "x") | links) is None


def test_an_otlp_endpoint_and_files_that_are_there_are_taken(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.touch()
    settings = Settings.from_environment(
        {
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318",
            "OTEL_EXPORTER_OTLP_CERTIFICATE": str(file),
            "DATABASE_URL": f"postgresql://h/d?sslmode=verify-full&sslrootcert={file}",
            "DATABASE_ADMIN_URL": "postgresql://h/d?sslrootcert=system",
            "REDIS_URL": f"rediss://h/3?ssl_ca_certs={file}",
            "PROMETHEUS_MULTIPROC_DIR": str(tmp_path),
        }
        | OIDC
    )
    assert settings.traces == "otlp"


@pytest.mark.parametrize(
    ("role", "missing"), [("api", "DATABASE_URL"), ("worker", "DATABASE_URL"), ("relay", "REDIS_URL")]
)
def test_a_missing_value_stops_the_start_and_is_named(role: str, missing: str, folder: Path) -> None:
    arguments = ("--port", str(free_port())) if role == "api" else ()
    environment = {"IMPORTLEDGER_DATA_DIR": str(folder), "DATABASE_URL": "", "REDIS_URL": ""}
    refused = cli(role, *arguments, environment=environment, check=False)
    assert refused.returncode == 1
    assert f"{missing} is not set" in refused.stderr


def test_without_a_service_the_operators_verbs_say_so(folder: Path) -> None:
    environment = {"IMPORTLEDGER_DATA_DIR": str(folder), "DATABASE_URL": ""}
    refused = cli("supplier", "list", environment=environment, check=False)
    assert refused.returncode == 1
    assert "No service has run on" in refused.stderr


def test_a_file_of_a_secret_that_cannot_be_used_is_named_without_what_is_in_it(tmp_path: Path) -> None:
    file = tmp_path / "token_key"
    with pytest.raises(SettingError, match=r"IMPORTLEDGER_TOKEN_KEY_FILE: .*token_key cannot be read: No such file"):
        Settings.from_environment({"IMPORTLEDGER_TOKEN_KEY_FILE": str(file)})
    file.write_text("\n")
    with pytest.raises(SettingError, match=r"token_key is empty"):
        Settings.from_environment({"IMPORTLEDGER_TOKEN_KEY_FILE": str(file)})
    file.write_text("short")
    with pytest.raises(SettingError, match=r"at least 32 characters") as refused:
        Settings.from_environment({"IMPORTLEDGER_TOKEN_KEY_FILE": str(file)})
    assert "'short'" not in str(refused.value)
    settings = Settings.from_environment({"IMPORTLEDGER_TOKEN_KEY_FILE": "/none", "IMPORTLEDGER_TOKEN_KEY": "k" * 40})
    assert settings.token_key == "k" * 40, "the variable itself counts"


@pytest.mark.asvs("V13.3.1")
def test_every_secret_may_stand_in_a_file(tmp_path: Path) -> None:
    values = {
        "DATABASE_URL": "postgresql://u:p@h/d",
        "DATABASE_ADMIN_URL": "postgresql://o:p@h/d",
        "REDIS_URL": "rediss://h:1",
        "IMPORTLEDGER_TOKEN_KEY": "k" * 40,
        "IMPORTLEDGER_REQUEST_KEY": "r" * 40,
        "IMPORTLEDGER_SEALING_KEY": "A" * 43,
        "IMPORTLEDGER_SMTP_URL": "smtps://u:p@mail.example",
        "IMPORTLEDGER_OIDC_CLIENT_SECRET": "s" * 20,
    }
    more = {name: value for name, value in OIDC.items() if name not in SECRETS}
    named = {}
    for name in SECRETS:
        (tmp_path / name).write_text(f"{values[name]}\n")
        named[f"{name}_FILE"] = str(tmp_path / name)
    assert Settings.from_environment(more | named) == Settings.from_environment(more | values)


def test_actions_of_a_second_person_are_named_and_a_wrong_one_is_answered_with_all() -> None:
    assert Settings.from_environment({}).four_eyes == frozenset()
    chosen = Settings.from_environment({"IMPORTLEDGER_FOUR_EYES": "erase, switch"}).four_eyes
    assert chosen == {"erase", "projection_switch"}
    # A supplier that is set to complete is released: without a second person for both there would be none for either.
    assert Settings.from_environment({"IMPORTLEDGER_FOUR_EYES": "release"}).four_eyes == {"release", "complete"}
    assert Settings.from_environment({"IMPORTLEDGER_FOUR_EYES": "complete"}).four_eyes == {"complete"}
    with pytest.raises(
        SettingError, match="revert, release, erase, complete, switch, retry, cancel, push, and not 'undo'"
    ):
        Settings.from_environment({"IMPORTLEDGER_FOUR_EYES": "erase,undo"})
