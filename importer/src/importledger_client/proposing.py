"""Propose a mapping from the names of columns in German or English, and find the gaps of a mapping."""

import difflib
import re
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml

from importledger_client.contract import ACCOUNT, Field, paths
from importledger_client.display import visible
from importledger_client.mapping import SPECIAL, Plan, nodes
from importledger_client.tables.table import Row

REQUIRED = "This field must be given."
_NAMES: dict[str, str] = yaml.safe_load(Path(__file__).with_name("columns.yaml").read_text(encoding="utf-8"))
_PATH_OF = {name: path for path, names in _NAMES.items() for name in names.split()}
_CONTRACT = dict(paths())
_GERMAN_DATE = re.compile(r"\d{1,2}\.\d{1,2}\.\d{4}\Z")
_GERMAN_NUMBER = re.compile(r"-?\d{1,3}(\.\d{3})*,\d+\Z|-?\d+,\d+\Z")
_ENGLISH_NUMBER = re.compile(r"-?\d{1,3}(,\d{3})+\.\d+\Z")


class Gap(msgspec.Struct, frozen=True):
    """A path that a mapping must fill, or must not contain."""

    name: str
    sentence: str


def path_for(column: str) -> str | None:
    """Return the path that a column's name stands for, or None."""
    normalised = _normalised(column)
    if normalised in _PATH_OF:
        return _PATH_OF[normalised]
    dotted = column.strip()
    if dotted in _CONTRACT and _CONTRACT[dotted].kind not in ("list", "object"):
        return dotted
    similar = [
        path
        for path in _CONTRACT
        if _normalised(path) == normalised or _normalised(path.rsplit(".", 1)[-1]) == normalised
    ]
    return similar[0] if len(similar) == 1 and _CONTRACT[similar[0]].kind not in ("list", "object") else None


def _normalised(name: str) -> str:
    lower = name.lower().replace("ä", "ae").replace("ö", "oe").replace("ü", "ue").replace("ß", "ss")
    plain = unicodedata.normalize("NFKD", lower)
    return "".join(c for c in plain if c.isalnum() and c.isascii())


def propose(columns: list[str], rows: list[Row], source: Mapping[str, str], open_points: list[str]) -> str:
    """Return a mapping as YAML. Its comments name the open points, those of `open_points` first."""
    account: dict[str, Any] = {}
    unmapped, used_paths = [], set[str]()
    for column in columns:
        path = path_for(column)
        if path is None or path in used_paths:
            unmapped.append(column)
        else:
            used_paths.add(path)
            _put(account, ACCOUNT, path.split("."), column)
    mapping: dict[str, Any] = {"source": dict(source)} if source else {}
    mapping |= {"dates": _dates(rows), "decimals": _decimals(rows), "ignore": [], "account": account}
    number = account.get("external_account_number")
    if isinstance(number, str):
        mapping = {"key": number, **mapping}
    text = yaml.safe_dump(mapping, sort_keys=False, allow_unicode=True, width=120)
    sentences = [*open_points, *(f"not used yet: {column}" for column in unmapped)]
    sentences += [f"not filled: {gap.name}: {gap.sentence}" for gap in gaps(Plan(account=account))]
    comments = [f"# {visible(sentence)}".replace("\n", "\\n") for sentence in sentences]
    return "\n".join(["# From columns to accounts. `importbook map check` shows the open points.", *comments, text])


def _put(account: dict[str, Any], fields: Mapping[str, Field], steps: list[str], column: str) -> None:
    name, inner_steps = steps[0], steps[1:]
    if not inner_steps:
        account[name] = column
        return
    field = fields[name]
    inner = account.setdefault(name, [{}] if field.kind == "list" else {})
    _put(inner[0] if field.kind == "list" else inner, field.fields, inner_steps, column)


def _texts(rows: list[Row]) -> Iterator[str]:
    return (value.strip() for row in rows for value in row if isinstance(value, str))


def _dates(rows: list[Row]) -> str:
    return "DD.MM.YYYY" if any(map(_GERMAN_DATE.match, _texts(rows))) else "YYYY-MM-DD"


def _decimals(rows: list[Row]) -> str:
    if any(map(_GERMAN_NUMBER.match, _texts(rows))):
        return "1.234,56"
    return "1,234.56" if any(map(_ENGLISH_NUMBER.match, _texts(rows))) else "1234.56"


def gaps(plan: Plan) -> list[Gap]:
    """Return the paths that a mapping must fill, and those that accounts do not have."""
    account, found = plan.account, list[Gap]()
    for node in nodes(account):
        name = node.path.rpartition(".")[2]
        if node.siblings and name not in node.siblings:
            similar = difflib.get_close_matches(name, [*node.siblings, *SPECIAL], n=1)
            hint = f" Did you mean {similar[0]}?" if similar else ""
            found.append(Gap(node.path, f"An account has no such field.{hint}"))
    missing = [*_missing(account, ACCOUNT, "")]
    for node in nodes(account):
        if node.is_object and node.field.kind in ("list", "object"):
            missing += _missing(node.spec, node.field.fields, f"{node.path}.")
    found += [Gap(path, REQUIRED) for path in missing if path != "import_supplier"]
    customers = account.get("customers") or []
    is_named = any("family_name" in customer for customer in customers)
    if not is_named and (customers or "unknown_occupier" not in account):
        found.append(Gap("customers.family_name", REQUIRED))
    if "billing_address1" not in account and not account.get("supply_addresses"):
        found.append(Gap("billing_address1", "A billing address or a supply address must be given."))
    return found


def _missing(spec: Mapping[str, Any], fields: Mapping[str, Field], before: str) -> Iterator[str]:
    """Yield the required paths of an object that its part of the mapping does not fill."""
    return (before + name for name, field in fields.items() if field.is_required and spec.get(name) is None)
