"""The command and its verbs; each verb's code is in a file beside this one."""

import click

from importledger_client.commands.errors import errors
from importledger_client.commands.generate import generate
from importledger_client.commands.manifest import manifest
from importledger_client.commands.mapping import map_
from importledger_client.commands.profile import profile
from importledger_client.commands.push import push
from importledger_client.commands.reconcile import reconcile
from importledger_client.commands.watch import watch


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="importledger-client")
def importbook() -> None:
    """A whole book of accounts onto the import ledger: from an export to a certificate.

    The service's address and the key come from IMPORTLEDGER_URL and IMPORTLEDGER_KEY.
    """


for _verb in (push, watch, errors, profile, map_, generate, manifest, reconcile):
    importbook.add_command(_verb)
