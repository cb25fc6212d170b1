"""An example of each verb: what stands at the end of its `--help`."""

import click

EXAMPLES = {
    "": "importledger up",
    "up": "importledger up --port 8000 --data-dir /var/lib/importledger",
    "demo": "importledger demo --accounts 200 --exit",
    "api": "importledger api --host 0.0.0.0 --port 8000",
    "relay": "importledger relay",
    "worker": "importledger worker",
    "migrate": "importledger migrate",
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
    "history": "importledger history NORDWIND NW-0004711 --as-of 2026-11-21",
    "status": "importledger status NORDWIND --as-of 2026-11-21 --json",
    "export": "importledger export --supplier NORDWIND --from 2026-11-01 --to 2026-11-21 -o nordwind.ndjson.zst",
    "replay": "importledger replay nordwind.ndjson.zst",
    "refusals": "importledger refusals NORDWIND",
    "search": 'importledger search "Erika Mustermann"',
    "cancel": 'importledger cancel NORDWIND NW-0004711 --reason "wrong book"',
    "retry": "importledger retry NORDWIND --code attempts_exhausted",
    "erase": "importledger erase NORDWIND NW-0004711 --reason DSR-2026-118",
    "seal": "importledger seal > monday.note",
    "verify": "importledger verify --all --against monday.note",
    "proof": "importledger proof NORDWIND NW-0004711 -o proof.zip",
    "backup": "importledger backup /backups/monday --keys /keys/monday",
    "restore": "importledger restore /backups/monday --keys /keys/monday --data-dir /var/lib/importledger --verify",
    "doctor": "importledger doctor --backups /backups",
    "projections": "importledger projections --json",
    "projections verify": "importledger projections verify import_status",
    "projections rebuild": "importledger projections rebuild account_search --jobs 2",
    "projections diff": "importledger projections diff import_status --format csv",
    "projections switch": "importledger projections switch import_status --to 2",
    "projections heal": "importledger projections heal NORDWIND NW-0004711",
}
"""An example for each verb, by the verb's name."""


def show_examples(command: click.Command, name: str = "") -> None:
    """Put the examples below the help of the command and of all that is below it."""
    if name in EXAMPLES:
        command.epilog = f"\b\nExample:\n  {EXAMPLES[name]}"
    if isinstance(command, click.Group):
        for word, below in command.commands.items():
            show_examples(below, f"{name} {word}".strip())
