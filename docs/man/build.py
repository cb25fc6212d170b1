"""Writes the manual pages and the completions of the command `importledger`, as they lie on a system: `… FOLDER`.

The pages are made by click-man from the same texts as `--help`, the completions by click, as for
`_IMPORTLEDGER_COMPLETE=bash_source importledger`. They come from the code, so no build of them is kept in the
repository.
"""

import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import click
from click.shell_completion import get_completion_class
from click_man.core import write_man_pages

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from cli.main import importledger  # noqa: E402 - a build need not have the package installed
from cli.verbs import EXAMPLES  # noqa: E402

PLACES = {
    "bash": "share/bash-completion/completions/importledger",
    "zsh": "share/zsh/site-functions/_importledger",
    "fish": "share/fish/vendor_completions.d/importledger.fish",
}
MANUALS = "share/man/man1"


def build(target: Path, version: str) -> list[Path]:
    """Write all below the folder, whose names are those of a system's; returns the files."""
    manuals = target / MANUALS
    manuals.mkdir(parents=True, exist_ok=True)
    tell_whole(importledger)
    day = datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())), UTC).date().isoformat()
    write_man_pages("importledger", importledger, version=version, target_dir=str(manuals), date=day)
    for verb, example in EXAMPLES.items():
        page = manuals / f"{' '.join(['importledger', verb]).strip().replace(' ', '-')}.1"
        with page.open("a") as file:
            file.write(f".SH EXAMPLES\n.nf\n{roff(example)}\n.fi\n")
    for shell, place in PLACES.items():
        file_of_shell = target / place
        file_of_shell.parent.mkdir(parents=True, exist_ok=True)
        file_of_shell.write_text(script(shell))
    return sorted(path for path in target.rglob("*") if path.is_file())


def script(shell: str) -> str:
    """Return the completion script. It runs the command itself, so that both always agree."""
    kind = get_completion_class(shell)
    assert kind is not None
    maker = kind(importledger, {}, "importledger", "_IMPORTLEDGER_COMPLETE")
    return maker.source_template % maker.source_vars()


def tell_whole(command: click.Command) -> None:
    """Read all verbs, which click-man does not ask for, and name each by a whole sentence (it would cut them)."""
    command.short_help = " ".join((command.help or "").split("\n\n")[0].split()).rstrip(".")
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            tell_whole(below)


def roff(text: str) -> str:
    """Text that the formatter prints as it is."""
    return text.replace("\\", "\\e").replace("-", "\\-")


if __name__ == "__main__":
    import tomllib

    from telemetry.log import begin_process

    begin_process("warning")
    written = build(Path(sys.argv[1]), tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])
    print(f"{len(written)} files in {sys.argv[1]}")
