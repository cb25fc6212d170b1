"""How verbs report: a sentence, or the same as JSON; one form of times (ISO 8601 with Z) and of absence (`-`)."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from cli.say import say
from redaction.shown import shown


class NewFile(click.Path):
    """A file that a verb writes. Refuses one that exists, since its content would be lost."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, dir_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = Path(str(super().convert(value, param, ctx)))
        if path.is_symlink() or path.exists():
            self.fail(f"{path} must be a new file. It exists, and its content would be lost.", param, ctx)
        return path


json_option = click.option("--json", "as_json", is_flag=True, help="As one JSON object.")


def tell(sentence: str, told: dict[str, Any], *, as_json: bool) -> None:
    """What a verb has done: in words, or as one JSON object."""
    say(msgspec.json.encode(told) if as_json else sentence)


def text_of(value: Any) -> str:
    """A value as text within a line; line breaks in it are escaped."""
    match value:
        case None | "":
            return "-"
        case bool():
            return "yes" if value else "no"
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case list() | tuple():
            return ",".join(map(text_of, value)) or "-"
    return shown(value)
