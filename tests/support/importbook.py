"""Run importbook as its users do, in this process; `COMMAND` is for tests of the process itself."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from importledger_client.commands.main import run
from importledger_client.commands.verbs import importbook as verbs
from tests.support.running import Importer
from tests.support.verbs import forget_help, run_here

COMMAND = [sys.executable, "-m", "importledger_client"]
Verb = Callable[..., subprocess.CompletedProcess[str]]


def importbook(
    *arguments: str, at: Path | None = None, access: Mapping[str, str] | None = None, stdin: bytes | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a verb in a folder, without a terminal."""
    verb = partial(run, arguments)
    forget_help(verbs)
    return run_here(["importbook", *arguments], verb, environment=environment(access), stdin=stdin or b"", folder=at)


def environment(access: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's, with access to a service or without."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("IMPORTLEDGER_")}
    return inherited | dict(access or {})


def access_to(importer: Importer) -> dict[str, str]:
    """The environment in which importbook and the client find the service."""
    return {"IMPORTLEDGER_URL": importer.service.base_url, "IMPORTLEDGER_KEY": importer.api_key}
