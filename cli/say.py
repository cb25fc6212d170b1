"""How the command prints: text that importers chose cannot control the terminal, whichever verb prints it."""

from typing import Any

import click
import click.exceptions

from redaction.shown import shown_lines

_echo = click.echo


def say(message: Any = None, file: Any = None, nl: bool = True, err: bool = False, color: bool | None = None) -> None:
    """As `click.echo`; characters that a terminal would obey or hide come out as escapes, which JSON reads back."""
    text = message.decode("utf-8", "replace") if isinstance(message, bytes) else "" if message is None else str(message)
    _echo(shown_lines(text), file=file, nl=nl, err=err, color=color)


def guard_terminal() -> None:
    """From now on every verb, and every refusal of one, prints through `say`."""
    for module in (click, click.exceptions):
        setattr(module, "echo", say)  # noqa: B010 - a module's function is replaced on purpose
