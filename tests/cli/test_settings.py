"""Settings come from the environment; a missing or wrong one is named."""

from pathlib import Path

import pytest

from cli.settings import SECRETS, SettingError, Settings
from tests.support.running import cli


def test_everything_has_an_embedded_default() -> None:
    settings = Settings.from_environment({})
    assert (settings.database_url, settings.redis_url, settings.token_key) == (None, None, None)
    assert settings.data_dir.is_absolute()


def test_values_are_read() -> None:
    settings = Settings.from_environment(
        {
            "IMPORTLEDGER_DATA_DIR": "/data",
            "DATABASE_URL": "postgresql://u:p@h/d",
            "REDIS_URL": "rediss://h:1",
            "IMPORTLEDGER_WORKER_THREADS": "3",
            "IMPORTLEDGER_NICENESS": "0",
        }
    )
    assert (settings.data_dir, settings.worker_threads, settings.niceness) == (Path("/data"), 3, 0)
    assert settings.redis_url == "rediss://h:1"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DATABASE_URL", "mysql://h/d"),
        ("DATABASE_ADMIN_URL", "h/d"),
        ("REDIS_URL", "http://h"),
        ("IMPORTLEDGER_TOKEN_KEY", "short"),
        ("IMPORTLEDGER_WORKER_THREADS", "many"),
        ("IMPORTLEDGER_WORKER_THREADS", "0"),
        ("IMPORTLEDGER_NICENESS", "20"),
        ("IMPORTLEDGER_LOG_LEVEL", "loud"),
        ("IMPORTLEDGER_SEAL_EVERY_S", "0"),
        ("IMPORTLEDGER_CHECKPOINTS_URL", "http://h"),
    ],
)
def test_a_wrong_value_stops_the_start_and_is_named(name: str, value: str) -> None:
    with pytest.raises(SettingError, match=name):
        Settings.from_environment({name: value})
    refused = cli("worker", environment={name: value}, check=False)
    assert refused.returncode == 1
    assert name in refused.stderr


@pytest.mark.parametrize(
    ("role", "missing"), [("api", "DATABASE_URL"), ("worker", "DATABASE_URL"), ("relay", "REDIS_URL")]
)
def test_a_missing_value_stops_the_start_and_is_named(role: str, missing: str, folder: Path) -> None:
    refused = cli(
        role, environment={"IMPORTLEDGER_DATA_DIR": str(folder), "DATABASE_URL": "", "REDIS_URL": ""}, check=False
    )
    assert refused.returncode == 1
    assert f"{missing} is not set" in refused.stderr


def test_without_a_service_the_operators_verbs_say_so(folder: Path) -> None:
    environment = {"IMPORTLEDGER_DATA_DIR": str(folder), "DATABASE_URL": ""}
    refused = cli("supplier", "list", environment=environment, check=False)
    assert refused.returncode == 1
    assert "No service has run on" in refused.stderr


def test_a_secret_may_stand_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "sealing_key"
    file.write_text("A" * 43 + "\n")
    assert Settings.from_environment({"IMPORTLEDGER_SEALING_KEY_FILE": str(file)}).sealing_key == "A" * 43
    file.write_text("postgresql://u:p@h/d\n")
    url = Settings.from_environment({"DATABASE_URL_FILE": str(file)}).database_url
    assert url is not None
    assert url.startswith("postgresql://u:p@h/d")


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


def test_every_secret_may_stand_in_a_file(tmp_path: Path) -> None:
    values = {
        "DATABASE_URL": "postgresql://u:p@h/d",
        "DATABASE_ADMIN_URL": "postgresql://o:p@h/d",
        "REDIS_URL": "rediss://h:1",
        "IMPORTLEDGER_TOKEN_KEY": "k" * 40,
        "IMPORTLEDGER_SEALING_KEY": "A" * 43,
        "IMPORTLEDGER_SMTP_URL": "smtps://u:p@mail.example",
        "IMPORTLEDGER_OIDC_CLIENT_SECRET": "s" * 20,
    }
    more = {
        "IMPORTLEDGER_OIDC_ISSUER": "https://id.example",
        "IMPORTLEDGER_OIDC_CLIENT_ID": "ledger",
        "IMPORTLEDGER_OIDC_ROLES": "staff=operator",
    }
    named = {}
    for name in SECRETS:
        (tmp_path / name).write_text(f"{values[name]}\n")
        named[f"{name}_FILE"] = str(tmp_path / name)
    assert Settings.from_environment(more | named) == Settings.from_environment(more | values)
