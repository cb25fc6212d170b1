"""Where each verb's code is. A verb reads its own file only, so that it starts in a fraction of the time of all."""

from importlib import import_module
from typing import Any

import click

from cli.examples import show_examples

VERBS = {
    "up": "cli.roles:up",
    "demo": "cli.demo:demo",
    "api": "cli.roles:api",
    "relay": "cli.roles:relay",
    "worker": "cli.roles:worker",
    "migrate": "cli.roles:migrate",
    "supplier": "cli.operator:supplier",
    "key": "cli.operator:key",
    "history": "cli.audit:history",
    "status": "cli.audit:status",
    "search": "cli.find:search",
    "export": "cli.export:export_history",
    "replay": "cli.export:replay",
    "refusals": "cli.operator:refusals",
    "cancel": "cli.decide:cancel",
    "retry": "cli.decide:retry",
    "erase": "cli.decide:erase",
    "seal": "cli.prove:seal_log",
    "verify": "cli.prove:verify",
    "proof": "cli.prove:proof",
    "backup": "cli.backup:backup",
    "restore": "cli.backup:restore",
    "projections": "cli.support:projections",
    "doctor": "cli.doctor:doctor",
}
"""By name, in the order of `--help`: the verb's file and what it is called there."""


class Verbs(click.Group):
    """A group whose commands are those of `VERBS`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*VERBS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return super().get_command(ctx, cmd_name)
        if cmd_name not in self.commands:
            file, name = VERBS[cmd_name].split(":")
            command: Any = getattr(import_module(file), name)
            show_examples(command, cmd_name)
            self.add_command(command, cmd_name)
        return self.commands[cmd_name]
