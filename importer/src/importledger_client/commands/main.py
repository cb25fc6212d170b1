"""The command and its verbs; each verb's code is in a file beside this one."""

import os
import signal
import sys

import click

from importledger_client.commands.common import INTERRUPTED, NOTHING_DONE, Stop
from importledger_client.commands.errors import errors
from importledger_client.commands.generate import generate
from importledger_client.commands.manifest import manifest
from importledger_client.commands.mapping import map_
from importledger_client.commands.push import push
from importledger_client.commands.reconcile import reconcile
from importledger_client.commands.watch import watch
from importledger_client.errors import ImportLedgerError
from importledger_client.sources import Unreadable


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="importledger-client")
def importbook() -> None:
    """A whole book of accounts onto the import ledger: from an export to a certificate.

    The service's address and the key come from IMPORTLEDGER_URL and IMPORTLEDGER_KEY.
    """


for _verb in (push, watch, errors, map_, generate, manifest, reconcile):
    importbook.add_command(_verb)


def main() -> None:
    """Run a verb: 0 all went well, 1 something is not as it should be, 2 wrong use or nothing done, 130 interrupted."""
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        code = importbook(standalone_mode=False)
    except click.exceptions.Abort:
        _end(INTERRUPTED)
    except KeyboardInterrupt:
        _end(INTERRUPTED)
    except click.ClickException as error:
        error.show()
        _end(NOTHING_DONE)
    except Stop as stop:
        click.echo(f"importbook: {stop}", err=True)
        _end(stop.code)
    except (ImportLedgerError, Unreadable, OSError) as error:
        click.echo(f"importbook: {error}", err=True)
        _end(NOTHING_DONE)
    _end(code if isinstance(code, int) else 0)


def _end(code: int) -> None:
    """At once, whatever threads still wait for the service."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
