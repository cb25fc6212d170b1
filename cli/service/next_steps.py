"""What `up` prints when it is ready: where the pages are, and the commands that a newcomer types next."""

import json
import shlex
import shutil
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "api" / "examples" / "account.json"
"""The account that the service hands out as /docs/account.json."""


def next_lines(base_url: str, data_folder: Path | None) -> list[str]:
    """Lines to print. The commands can be pasted into an empty folder.

    `data_folder` is where the service keeps its data when that is not where the command looks for it anyway.
    """
    supplier, external = _example()
    header = '-H "Authorization: Token $KEY"'
    accounts = f"{base_url}/v2/data-import/accounts/"
    return [
        f"The guide: {base_url}/docs/guide/   The API: {base_url}/docs/   The console: {base_url}/console/",
        "Next, in a second terminal:",
        *(f"    {line}" for line in _exports(data_folder)),
        f"    importledger supplier create {supplier}",
        f'    KEY=$(importledger key create "Nordwind Energie" --supplier {supplier})',
        f"    curl -s -o account.json {base_url}/docs/account.json",
        f'    curl -s {accounts} {header} -H "Content-Type: application/json" -d @account.json',
        f"    curl -s {accounts}{supplier}/{external}/ {header}",
        f"    importledger history {supplier} {external}",
        "    importledger user create you@example.org --organisation Platform --role operator --supplier '*'",
    ]


def _exports(data_folder: Path | None) -> list[str]:
    """What the second terminal has to know first: where the command is, and where the data is."""
    lines = []
    if shutil.which("importledger") is None:
        lines.append(f'export PATH={shlex.quote(str(Path(sys.executable).parent))}:"$PATH"')
    if data_folder is not None:
        lines.append(f"export IMPORTLEDGER_DATA_DIR={shlex.quote(str(data_folder))}")
    return lines


def _example() -> tuple[str, str]:
    """Supplier and external account number of the example account."""
    account = json.loads(EXAMPLE.read_bytes())
    return account["import_supplier"], account["external_account_number"]
