"""How the command prints: every verb prints through `say`, so that no text that importers chose rules the terminal."""

from typing import Any

import click

from eventstore.shown import shown_lines


def say(message: Any = "", *, err: bool = False, nl: bool = True) -> None:
    """Print a line, or some; characters that a terminal would obey or hide come out as escapes, in JSON too."""
    text = message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message)
    click.echo(shown_lines(text), err=err, nl=nl)
