"""Where a verb finds the log's database: where it is told, or at the service that runs on the data folder."""

from pathlib import Path

from cli.service.reach import Unreachable, reach
from cli.service.settings import SettingError, Settings
from embedded.folder import DataFolder


def database_url() -> str:
    """DATABASE_URL, or DATABASE_ADMIN_URL alone, or the service that runs on the data folder; it has answered.

    Raises SettingError, Unreachable.
    """
    settings = Settings.from_environment()
    if settings.database_url is not None:
        return reach(settings.database_url, "DATABASE_URL")
    if settings.database_admin_url is not None:
        return reach(settings.database_admin_url, "DATABASE_ADMIN_URL")
    return _of_service(settings.data_dir, "database_url")


def admin_url() -> str:
    """How to reach the same database as its administrator; it has answered. Raises SettingError, Unreachable."""
    settings = Settings.from_environment()
    if settings.database_admin_url is not None:
        return reach(settings.database_admin_url, "DATABASE_ADMIN_URL")
    if settings.database_url is not None:
        return reach(settings.database_url, "DATABASE_URL")
    return _of_service(settings.data_dir, "admin_url")


def _of_service(data_dir: Path, name: str) -> str:
    """The URL that the service on the data folder has left there. Raises SettingError, Unreachable."""
    connections = DataFolder(data_dir).read_connections()
    if connections is None:
        raise SettingError(
            f"No service has run on {data_dir}. Start it with `importledger up`, or set "
            "IMPORTLEDGER_DATA_DIR or DATABASE_URL."
        )
    try:
        return reach(connections[name], "DATABASE_URL")
    except Unreachable as error:
        raise Unreachable(
            f"The service on {data_dir} is not running. Start it with `importledger up`, or set "
            "IMPORTLEDGER_DATA_DIR or DATABASE_URL."
        ) from error
