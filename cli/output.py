"""Output of verbs: sentences or JSON, times as ISO 8601 with Z, `-` for an absent value, and progress bars.

Text that importers chose cannot control the terminal.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import click.exceptions
import msgspec

from cli.language import _
from redaction.text import escaped, escaped_lines

_echo = click.echo


def print_line(
    message: Any = None, file: Any = None, nl: bool = True, err: bool = False, color: bool | None = None
) -> None:
    """Print a line like `click.echo`, with control characters as escapes, which JSON decodes again."""
    text = message.decode("utf-8", "replace") if isinstance(message, bytes) else "" if message is None else str(message)
    _echo(escaped_lines(text), file=file, nl=nl, err=err, color=color)


def guard_terminal() -> None:
    """Make every verb, and every error of click, print through `print_line`."""
    for module in (click, click.exceptions):
        setattr(module, "echo", print_line)  # noqa: B010 - a module's function is replaced on purpose


def print_result(sentence: str, result: Any, *, as_json: bool) -> None:
    """Print a result of a verb: the sentence, or one JSON object."""
    print_line(msgspec.json.encode(result) if as_json else sentence)


def text_of(value: Any) -> str:
    """Return a value as text within a line, with line breaks escaped."""
    match value:
        case None | "":
            return "-"
        case bool():
            return "yes" if value else "no"
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case list() | tuple():
            return ",".join(map(text_of, value)) or "-"
        case dict():
            return escaped(msgspec.json.encode(value).decode())
    return escaped(value)


class NewFile(click.Path):
    """A file that a verb writes. An existing file is refused, since its content would be lost."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, dir_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = Path(str(super().convert(value, param, ctx)))
        if path.is_symlink() or path.exists():
            sentence = _("{path} must be a new file. It exists, and its content would be lost.", path=path)
            self.fail(sentence, param, ctx)
        return path


class ShortText(click.ParamType[str]):
    """Text with a limit of characters, the same as in the console."""

    name = "text"

    def __init__(self, most: int) -> None:
        self._most = most

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if len(value) > self._most:
            numbers = {"most": self._most, "number": len(value)}
            sentence = _("A text must have at most {most} characters. This one has {number:,}.", **numbers)
            self.fail(sentence, param, ctx)
        return value


json_option = click.option("--json", "as_json", is_flag=True, help="Output as one JSON object.")
lines_option = click.option("--json", "as_json", is_flag=True, help="Output as one JSON object a line.")


@contextmanager
def progress_bar(unit: str, *, title: str = "", total: int | None = None) -> Iterator[Callable[..., None]]:
    """Show a progress bar in a terminal, and nothing elsewhere. Yield a function of (done, total, title)."""
    # imported here: the library is large, and every role imports verbs with a progress bar
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Rate(ProgressColumn):
        """Column of a progress bar with the units per second."""

        def render(self, task: Task) -> Text:
            return Text(f"{task.speed:,.0f}/s" if task.speed else "")

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn(f"{{task.completed:,.0f}} {_(unit)}"),
        Rate(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(title, total=total)

        def advance(done: int, of: int | None = None, title: str | None = None) -> None:
            progress.update(task, completed=done, total=of, description=title)

        yield advance
