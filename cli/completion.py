"""The verb `completion`, which prints the script for completion of verbs and options in a shell."""

import click
from click.shell_completion import get_completion_class

from cli.output import print_line

SHELLS = ("bash", "zsh", "fish")
_VARIABLE = "_IMPORTLEDGER_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash  importledger completion bash > ~/.local/share/bash-completion/completions/importledger
    zsh   importledger completion zsh > DIR/_importledger, where DIR is in $fpath
    fish  importledger completion fish > ~/.config/fish/completions/importledger.fish
    """
    print_line(script(shell))


def script(shell: str) -> str:
    """The completion script. It runs the command itself, so that both always agree."""
    kind = get_completion_class(shell)
    assert kind is not None
    maker = kind(click.Command("importledger"), {}, "importledger", _VARIABLE)
    return maker.source_template % maker.source_vars()
