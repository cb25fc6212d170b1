"""The command with its verbs, in the groups of its help. Each verb is in the file of its name."""

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

GROUPS = {
    "Prepare a book": (generate, profile, map_),
    "Send it": (push, watch, errors, fix),
    "Prove that it is complete": (manifest, reconcile),
    "Take it out again": (pull,),
}


class _Verbs(click.Group):
    """Verbs under the headings of `GROUPS`, in the order of an import."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, verbs in GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl([(verb.name or "", verb.get_short_help_str(100)) for verb in verbs])


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
