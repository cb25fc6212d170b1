"""The command with its verbs, in the groups of its help. Each verb is in the file of its name."""

import copy
import inspect
import re
from typing import TypeVar

import click

from importledger_client.commands.errors import errors
from importledger_client.commands.fix import fix
from importledger_client.commands.generate import generate
from importledger_client.commands.manifest import manifest
from importledger_client.commands.mapping import map_
from importledger_client.commands.profile import profile
from importledger_client.commands.pull import pull
from importledger_client.commands.push import push
from importledger_client.commands.reconcile import reconcile
from importledger_client.commands.watch import watch
from importledger_client.language import _, translatable

C = TypeVar("C", bound=click.Command)

GROUPS = {
    translatable("Prepare a book"): (generate, profile, map_),
    translatable("Send it"): (push, watch, errors, fix),
    translatable("Prove that it is complete"): (manifest, reconcile),
    translatable("Take it out again"): (pull,),
}


class _Verbs(click.Group):
    """Verbs under the headings of `GROUPS`, in the order of an import."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, verbs in GROUPS.items():
            with formatter.section(_(heading)):
                shown = [self.commands[verb.name or ""] for verb in verbs]
                formatter.write_dl([(verb.name or "", verb.get_short_help_str(100)) for verb in shown])


@click.group(
    cls=_Verbs,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: importbook push book.ndjson --mode validate",
)
@click.version_option(package_name="importledger-client")
def importbook() -> None:
    """Import a book of energy accounts, with a certificate.

    The address of the service and the key come from IMPORTLEDGER_URL and IMPORTLEDGER_KEY. Exit codes: 0 success, 1
    something was refused, has failed or differs, 2 wrong use or nothing done, 130 interrupted.
    """


for _verbs in GROUPS.values():
    for _verb in _verbs:
        importbook.add_command(_verb)


def translated(command: C) -> C:
    """Return a copy of a command, with its help and the help of its options and verbs in the user's language."""
    made = copy.copy(command)
    made.help = "\n\n".join(map(_, paragraphs(command.help)))
    made.epilog = (command.epilog or "").replace("Example:", _("Example:"))
    made.options_metavar = _(command.options_metavar or "")
    made.params = [copy.copy(parameter) for parameter in command.params]
    for parameter in made.params:
        parameter.metavar = _(metavar_of(parameter)) or None
        if isinstance(parameter, click.Option):
            parameter.help = _(parameter.help or "")
    if isinstance(made, click.Group):
        made.subcommand_metavar = _(made.subcommand_metavar or "")
        made.commands = {name: translated(verb) for name, verb in made.commands.items()}
    return made


def paragraphs(text: str | None) -> list[str]:
    """Return the paragraphs of a help, each in one line."""
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n", inspect.cleandoc(text or ""))]


def metavar_of(parameter: click.Parameter) -> str:
    """Return the name of a parameter's value in the help, "" for click's choice."""
    if parameter.metavar is None and isinstance(parameter, click.Argument):
        return (parameter.name or "").upper()
    return parameter.metavar or ""
