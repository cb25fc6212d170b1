"""The command and its verbs; each verb's code is in a file beside this one."""

import os
import sys

import click

from cli.audit import history, status
from cli.backup import backup, restore
from cli.decide import cancel, erase, retry
from cli.demo import demo
from cli.examples import show_examples
from cli.export import export_history, replay
from cli.failures import fail
from cli.find import search
from cli.log import configure_logging
from cli.operator import key, refusals, supplier
from cli.prove import proof, seal_log, verify
from cli.roles import api, migrate, relay, up, worker
from cli.say import guard_terminal, say
from cli.support import projections
from discretion.traced import trace_without_values


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="importledger")
def importledger() -> None:
    """The import ledger: takes in migrated energy accounts and can prove what became of each."""


for _verb in (
    up,
    demo,
    api,
    relay,
    worker,
    migrate,
    supplier,
    key,
    history,
    status,
    search,
    export_history,
    replay,
    refusals,
    cancel,
    retry,
    erase,
    seal_log,
    verify,
    proof,
    backup,
    restore,
    projections,
):
    importledger.add_command(_verb)
show_examples(importledger)


def main() -> None:
    """Run a verb; what goes wrong is one sentence and exit code 1."""
    configure_logging("warning")
    trace_without_values()
    guard_terminal()
    try:
        code = importledger(standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        say(error.format_message())
        sys.exit(0)
    except (click.Abort, KeyboardInterrupt):
        say("importledger: Given up: nobody has said yes.", err=True)
        sys.exit(1)
    except BrokenPipeError:  # whoever reads our output has heard enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        fail(error)
    else:
        sys.exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
