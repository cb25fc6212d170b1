"""Writes what docs/reference/settings.md says of settings: `python -m cli.generated`."""

import re
from pathlib import Path

from cli.service.settings import settings_table
from telemetry.log import begin_process

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "settings.md"


def main() -> None:
    """Replace the table of settings in the page."""
    page = PAGE.read_text()
    PAGE.write_text(re.sub(r"(?m)^\| variable \| default \|.*\n(?:\|.*\n)+", lambda _: settings_table(), page))


if __name__ == "__main__":
    begin_process("warning")
    main()
