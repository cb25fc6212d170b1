"""The command and its verbs; each verb's code is in a file beside this one."""

import sys

import click
import psycopg

from cli.audit import history, status
from cli.backup import backup, restore
from cli.decide import cancel, erase, retry
from cli.demo import demo
from cli.export import export_history, replay
from cli.log import configure_logging
from cli.operator import key, refusals, supplier
from cli.prove import proof, seal_log, verify
from cli.roles import api, migrate, relay, up, worker
from cli.say import say
from cli.settings import SettingError
from cli.support import projections
from embedded.folder import FolderInUse, FolderUnreachable
from eventstore.errors import LedgerError
from eventstore.operations.backup import BackupError
from eventstore.operations.export import ExportError
from eventstore.operations.migrate import MigrationError, UnsafeStore
from eventstore.proof.checkpoints import KeyNotUsable, OutsideUnavailable
from eventstore.proof.proof import NotProvable
from eventstore.proof.sealing import SealRefused
from eventstore.proof.verifier import Invalid
from eventstore.shown import cleaned
from eventstore.traced import trace_without_values
from projections.versioning.versions import NotPossible

EXPECTED = (
    SettingError,
    FolderInUse,
    FolderUnreachable,
    MigrationError,
    UnsafeStore,
    BackupError,
    ExportError,
    KeyNotUsable,
    OutsideUnavailable,
    SealRefused,
    NotProvable,
    NotPossible,
    Invalid,
    LedgerError,
    PermissionError,
    psycopg.OperationalError,
)


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


def main() -> None:
    """Run a verb; what can be expected to go wrong is one sentence and exit code 1."""
    configure_logging("warning")
    trace_without_values()
    try:
        importledger()
    except EXPECTED as error:
        say(f"importledger: {cleaned(str(error))}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
