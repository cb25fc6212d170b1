"""The scripts of docs/how-to/use-python.md, unchanged, against a service."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from importledger_client.book import book
from tests.support.importbook import environment
from tests.support.running import Importer

GUIDE = (Path(__file__).parent.parent.parent / "docs" / "how-to" / "use-python.md").read_text()
SCRIPTS = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
EXPECTED = ("PROCESSED A-", "[]", "PROCESSED", "BALANCED")
"""Text in the last line of the output of each script, in their order."""


def test_the_scripts_do_what_they_say(importer: Importer, access: Mapping[str, str], tmp_path: Path) -> None:
    (tmp_path / "book.ndjson").write_bytes(b"\n".join(entry.body for entry in book(importer.supplier, 20)))
    paths = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    assert len(SCRIPTS) == len(EXPECTED)
    for script, expected in zip(SCRIPTS, EXPECTED, strict=True):
        ran = subprocess.run(
            [sys.executable, "-W", "ignore::ResourceWarning", "-c", script.replace("NORDWIND", importer.supplier)],
            cwd=tmp_path,
            env=environment(access) | {"PATH": paths},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert ran.returncode == 0, ran.stderr
        assert expected in ran.stdout.splitlines()[-1], ran.stdout
