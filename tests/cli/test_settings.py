"""Settings come from the environment; a missing or wrong one is named."""

from pathlib import Path

import pytest

from cli.settings import SettingError, Settings
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
        }
    )
    assert (settings.data_dir, settings.worker_threads) == (Path("/data"), 3)
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
