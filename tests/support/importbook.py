"""Running importbook as its users do."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.support.running import Importer, RunningService

COMMAND = [sys.executable, "-m", "importledger_client"]


def importbook(
    *arguments: str, at: Path | None = None, access: Mapping[str, str] | None = None, stdin: bytes | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a verb in a folder, without a terminal."""
    made = subprocess.run(
        [*COMMAND, *arguments], cwd=at, env=environment(access), input=stdin, capture_output=True, timeout=120
    )
    return subprocess.CompletedProcess(made.args, made.returncode, made.stdout.decode(), made.stderr.decode())


def environment(access: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's, with access to a service or without."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("IMPORTLEDGER_")}
    return kept | dict(access or {})


def access_to(service: RunningService, importer: Importer) -> dict[str, str]:
    """The environment in which importbook and the client find the service."""
    return {"IMPORTLEDGER_URL": service.base_url, "IMPORTLEDGER_KEY": importer.api_key}
