"""The verbs by group, with the code and an example of each verb; the example is at the end of `--help`.

Only the file of the called verb is imported, so that the verb starts quickly.
"""

from importlib import import_module
from typing import Any

import click

from cli.language import HelpContext

GROUPS = {
    "Run": {
        "up": "cli.service.roles:up",
        "demo": "cli.demo:demo",
        "api": "cli.serving:api",
        "relay": "cli.service.working:relay",
        "worker": "cli.service.working:worker",
        "migrate": "cli.migrate:migrate",
    },
    "Import": {
        "supplier": "cli.operator:supplier",
        "key": "cli.operator:key",
        "cancel": "cli.decide:cancel",
        "retry": "cli.decide:retry",
        "revert": "cli.revert:revert_accounts",
        "release": "cli.revert:release_accounts",
    },
    "Support": {
        "status": "cli.status:status",
        "history": "cli.history:history",
        "search": "cli.search:search",
        "doctor": "cli.doctor:doctor",
        "support-bundle": "cli.support_bundle:support_bundle",
        "projections": "cli.projections:projections",
    },
    "Audit": {
        "seal": "cli.seal:seal",
        "verify": "cli.verify:verify",
        "proof": "cli.proof:proof",
        "sample": "cli.sample:sample",
        "export": "cli.export:export_history",
        "replay": "cli.replay:replay",
    },
    "Operate": {
        "backup": "cli.backup:backup",
        "restore": "cli.restore:restore",
        "archive": "cli.archive:archive",
        "erase": "cli.decide:erase",
        "proposals": "cli.proposals:proposals",
        "approve": "cli.proposals:approve_proposal",
        "reject": "cli.proposals:reject_proposal",
        "user": "cli.users:user",
    },
}
"""File and function of each verb, by the groups and in the order of `--help`."""
VERBS = {name: target for group in GROUPS.values() for name, target in group.items()}


EXAMPLES = {
    "": "importledger up",
    "up": "importledger up --port 8000 --data-dir /var/lib/importledger",
    "demo": "importledger demo --accounts 200 --exit",
    "api": "importledger api --host 0.0.0.0 --port 8000",
    "relay": "importledger relay",
    "worker": "importledger worker",
    "migrate": "importledger migrate --check",
    "supplier": "importledger supplier list",
    "supplier create": "importledger supplier create NORDWIND",
    "supplier status": 'importledger supplier status NORDWIND paused --reason "wrong book"',
    "supplier list": "importledger supplier list --json",
    "supplier set": "importledger supplier set NORDWIND strictness=strict documents-root=",
    "supplier show": "importledger supplier show NORDWIND",
    "key": "importledger key list",
    "key create": 'importledger key create "Nordwind Energie" --supplier NORDWIND --role importer',
    "key list": "importledger key list",
    "key revoke": 'importledger key revoke a1b2c3d4 --reason "was in a mail"',
    "key confirm": "importledger key confirm a1b2c3d4",
    "user": "importledger user list",
    "user create": "importledger user create anna@example.org --organisation Platform --role support --supplier '*'",
    "user list": "importledger user list --json",
    "user link": "importledger user link anna@example.org",
    "user role": "importledger user role anna@example.org --role auditor --supplier NORDWIND",
    "user disable": "importledger user disable anna@example.org",
    "user enable": "importledger user enable anna@example.org",
    "user erase": "importledger user erase anna@example.org",
    "history": "importledger history NORDWIND NW-0004711 --as-of 2026-11-21",
    "status": "importledger status NORDWIND --as-of 2026-11-21 --json",
    "support-bundle": "importledger support-bundle --log importledger.log -o for-support.zip",
    "export": "importledger export --supplier NORDWIND --from 2026-11-01 --to 2026-11-21 -o nordwind.ndjson.zst",
    "replay": "importledger replay nordwind.ndjson.zst",
    "search": 'importledger search "Erika Mustermann"',
    "cancel": 'importledger cancel NORDWIND NW-0004711 --reason "wrong book"',
    "retry": "importledger retry NORDWIND --code attempts_exhausted",
    "revert": 'importledger revert NORDWIND --run monday --yes --reason "wrong mapping"',
    "release": 'importledger release NORDWIND --run monday --yes --reason "checked"',
    "erase": "importledger erase NORDWIND NW-0004711 --reason DSR-2026-118",
    "proposals": "importledger proposals",
    "approve": "importledger approve t_5d1f0c2a9b8e7f60 --yes",
    "reject": 'importledger reject t_5d1f0c2a9b8e7f60 --reason "wrong run"',
    "seal": "importledger seal > monday.note",
    "verify": "importledger verify --all --against monday.note",
    "proof": "importledger proof NORDWIND NW-0004711 -o proof.zip",
    "sample": "importledger sample NORDWIND monday --seed 4711 --against monday.note -o sample",
    "archive": "importledger archive NORDWIND --to s3://archives/2026",
    "archive supplier": "importledger archive supplier NORDWIND --to file:///archives",
    "archive verify": "importledger archive verify NORDWIND",
    "archive attach": "importledger archive attach NORDWIND",
    "backup": "importledger backup /backups/monday --keys /keys/monday",
    "restore": "importledger restore /backups/monday --keys /keys/monday --data-dir /srv/ledger --verify",
    "doctor": "importledger doctor --backups /backups",
    "projections": "importledger projections --json",
    "projections verify": "importledger projections verify import_status",
    "projections rebuild": "importledger projections rebuild account_search --jobs 2",
    "projections switch": "importledger projections switch import_status --to 2",
    "projections accept": "importledger projections accept import/NORDWIND/NW-0004711",
    "projections heal": "importledger projections heal NORDWIND NW-0004711",
}
"""An example of each verb, by its name."""


class Verbs(click.Group):
    """Command group with the verbs of `VERBS`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*VERBS]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in GROUPS.items():
            verbs = [(name, self.get_command(ctx, name)) for name in names]
            with formatter.section(title):
                formatter.write_dl([(name, verb.get_short_help_str(60)) for name, verb in verbs if verb])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return super().get_command(ctx, cmd_name)
        if cmd_name not in self.commands:
            file, name = VERBS[cmd_name].split(":")
            command: Any = getattr(import_module(file), name)
            prepare_help(command, cmd_name)
            self.add_command(command, cmd_name)
        return self.commands[cmd_name]


def prepare_help(command: click.Command, name: str = "") -> None:
    """Put the examples below the help of the command and of its subcommands. Translate the help when it is shown."""
    command.context_class = HelpContext
    if name in EXAMPLES:
        command.epilog = f"\b\nExample:\n  {EXAMPLES[name]}"
    if isinstance(command, click.Group):
        for word, below in command.commands.items():
            prepare_help(below, f"{name} {word}".strip())
