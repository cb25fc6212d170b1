"""Generate the table of settings and the help of verbs in docs/reference: `python -m cli.generated`."""

import re
from collections.abc import Iterator
from pathlib import Path

import click

from cli.main import importledger
from cli.service.settings import settings_table
from cli.verbs import GROUPS
from telemetry.log import begin_process

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
WIDTH = 100
"""Characters of a line of help."""


def with_settings(page: str) -> str:
    """Return the page with its table of settings replaced by the current one."""
    return re.sub(r"(?m)^\| variable \| default \|.*\n(?:\|.*\n)+", lambda _: settings_table(), page)


def with_verbs(page: str) -> str:
    """Return the page with the current help of every verb in place of all sections."""
    sections = []
    root = importledger.make_context("importledger", [], resilient_parsing=True, terminal_width=WIDTH)
    for title, verbs in GROUPS.items():
        sections.append(f"## {title}\n")
        for name in verbs:
            command = importledger.get_command(root, name)
            assert command is not None
            sections += help_sections(command, click.Context(command, root, name, terminal_width=WIDTH))
    return page.partition("## ")[0] + "\n".join(sections)


def help_sections(command: click.Command, context: click.Context) -> Iterator[str]:
    """Yield the help of a verb and of its subcommands, each as a section of Markdown."""
    text = "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
    yield f"### {context.command_path}\n\n```text\n{text}\n```\n"
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            yield from help_sections(below, click.Context(below, context, name, terminal_width=WIDTH))


def main() -> None:
    """Write both pages."""
    for name, current in (("settings.md", with_settings), ("verbs.md", with_verbs)):
        page = REFERENCE / name
        page.write_text(current(page.read_text()))


if __name__ == "__main__":
    begin_process("warning")
    main()
