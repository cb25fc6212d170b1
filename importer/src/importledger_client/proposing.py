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
from importledger_client.engine import Link
from importledger_client.language import _, translatable
from importledger_client.mapping import SPECIAL, Plan, named, nodes
from importledger_client.tables.table import Row

REQUIRED = translatable("This field must be given.")
_NAMES: dict[str, str] = yaml.safe_load(Path(__file__).with_name("columns.yaml").read_text(encoding="utf-8"))
_PRESETS: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("presets.yaml").read_text(encoding="utf-8"))
PRESETS = tuple(_PRESETS)


def _paths_by_name(names: Mapping[str, str]) -> dict[str, str]:
    return {name: path for path, words in names.items() for name in words.split()}


_PATH_OF = _paths_by_name(_NAMES)
_CONTRACT = dict(paths())
_GERMAN_DATE = re.compile(r"\d{1,2}\.\d{1,2}\.\d{4}\Z")
_GERMAN_NUMBER = re.compile(r"-?\d{1,3}(\.\d{3})*,\d+\Z|-?\d+,\d+\Z")
_ENGLISH_NUMBER = re.compile(r"-?\d{1,3}(,\d{3})+\.\d+\Z")


def path_for(column: str, preset: str = "generic") -> str | None:
    """Return the path for a column's name, or None. Names of the preset have priority."""
    normalised = _normalised(column)
    if path := _paths_by_name(_PRESETS[preset]["columns"]).get(normalised) or _PATH_OF.get(normalised):
        return path
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


class Proposed(msgspec.Struct):
    """A table for which a mapping is proposed. `link` joins a further table to an earlier table."""

    name: str
    path: str
    columns: list[str]
    rows: list[Row]
    source: dict[str, str]
    link: Link | None = None


def propose(tables: list[Proposed], preset: str, open_points: list[str]) -> str:
    """Return a mapping as YAML.

    Its comments name the joins and the open points, `open_points` first. The first table is the main table. A further
    table must follow the table to which it is joined.
    """
    main, *others = tables
    rows = [row for table in tables for row in table.rows]
    account: dict[str, Any] = {}
    mapping: dict[str, Any] = {"source": main.source} if main.source else {}
    mapping |= {"dates": _dates(rows), "decimals": _decimals(rows), "empty": _PRESETS[preset]["empty"]}
    used = {(link.table, link.column) for table in others if (link := table.link)}
    used |= {(link.parent, link.parent_column) for table in others if (link := table.link)}
    files: dict[str, Any] = {}
    lists: dict[str, str] = {}
    comments, paths_used = list(open_points), set[str]()
    for table in tables:
        if table is not main and table.link is None:
            comments.append(_("not joined: {file}: no column has the values of another table", file=table.path))
            continue
        found = {path: column for path, column in _paths_of(table, preset).items() if path not in paths_used}
        paths_used |= found.keys()
        used |= {(table.name, column) for column in found.values()}
        if table.link is None:
            for path, column in found.items():
                _put(account, ACCOUNT, path.split("."), column)
            continue
        link = table.link
        columns = f"{table.name}.{link.column} = {named(link.parent, link.parent_column)}"
        share = f"{link.share:.0%}"
        comments.append(_("joined: {columns}, which has {share} of its values", columns=columns, share=share))
        is_key = not link.parent and link.parent_column == account.get("external_account_number")
        files[table.name] = {"path": table.path} | ({"key": link.column} if is_key else {})
        files[table.name] |= {} if link.is_parent_unique else {"repeated": "allow"}
        on = {} if is_key else {link.column: link.parent_column}
        lists[table.name] = _put_table(account, found, table.name, on, lists.get(link.parent, ""))
    mapping |= ({"files": files} if files else {}) | {"ignore": [], "account": account}
    if isinstance(number := account.get("external_account_number"), str):
        mapping = {"key": number, **mapping}
    text = yaml.safe_dump(mapping, sort_keys=False, allow_unicode=True, width=120)
    unused = [(table.name, column) for table in tables for column in table.columns if (table.name, column) not in used]
    comments += [_("not used yet: {column}", column=named(*column)) for column in unused]
    comments += [
        _("not filled: {field}: {reason}", field=path, reason=reason) for path, reason in gaps(Plan(account=account))
    ]
    lines = [f"# {visible(sentence)}".replace("\n", "\\n") for sentence in comments]
    title = _("From columns to accounts. `importbook map check` shows the open points.")
    return "\n".join([f"# {title}", *lines, text])


def _paths_of(table: Proposed, preset: str) -> dict[str, str]:
    """Return the columns of a table by the paths for their names.

    An address in a table with fields of a supply address is the supply address.
    """
    key = table.link.column if table.link else ""
    found: dict[str, str] = {}
    for column in table.columns:
        if column != key and (path := path_for(column, preset)):
            found.setdefault(path, column)
    if table.link and any(path.startswith("supply_addresses.") for path in found):
        found = {path.replace("billing_", "supply_addresses.supply_"): column for path, column in found.items()}
    return found


def _put_table(account: dict[str, Any], by_path: dict[str, str], table: str, on: dict[str, str], parent: str) -> str:
    """Add the fields of a further table, and return the path of the list whose items are its rows."""
    homes = sorted({path.rpartition(".")[0] for path in by_path}, key=len)
    home = next((path for path in homes if path and (path.startswith(parent) or not parent) and path != parent), "")
    below: dict[str, Any] = {}
    for path, column in by_path.items():
        if home and path.startswith(f"{home}."):
            _put(below, _fields_of(home), path.removeprefix(f"{home}.").split("."), column)
        else:
            _put(account, ACCOUNT, path.split("."), {**_joining(table, on), "column": column})
    if below:
        _put(account, ACCOUNT, home.split("."), [{**_joining(table, on), **below}])
    return home or parent


def _joining(table: str, on: Mapping[str, str]) -> dict[str, Any]:
    return {"from": table} | ({"on": dict(on)} if on else {})


def _fields_of(path: str) -> Mapping[str, Field]:
    fields: Mapping[str, Field] = ACCOUNT
    for name in path.split("."):
        fields = fields[name].fields
    return fields


def _put(account: dict[str, Any], fields: Mapping[str, Field], steps: list[str], content: Any) -> None:
    name, inner_steps = steps[0], steps[1:]
    if not inner_steps:
        account[name] = [*account.get(name, []), *content] if isinstance(content, list) else content
        return
    field = fields[name]
    inner = account.setdefault(name, [{}] if field.kind == "list" else {})
    _put(inner[-1] if field.kind == "list" else inner, field.fields, inner_steps, content)


def _texts(rows: list[Row]) -> Iterator[str]:
    return (value.strip() for row in rows for value in row if isinstance(value, str))


def _dates(rows: list[Row]) -> str:
    return "DD.MM.YYYY" if any(map(_GERMAN_DATE.match, _texts(rows))) else "YYYY-MM-DD"


def _decimals(rows: list[Row]) -> str:
    if any(map(_GERMAN_NUMBER.match, _texts(rows))):
        return "1.234,56"
    return "1,234.56" if any(map(_ENGLISH_NUMBER.match, _texts(rows))) else "1234.56"


def gaps(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield the paths that accounts do not have, and the paths that a mapping must fill, each with a sentence."""
    account = plan.account
    for node in nodes(account):
        name = node.path.rpartition(".")[2]
        if node.siblings and name not in node.siblings:
            similar = difflib.get_close_matches(name, [*node.siblings, *SPECIAL], n=1)
            hint = " " + _("Did you mean {possibility}?", possibility=similar[0]) if similar else ""
            yield node.path, _("An account has no such field.") + hint
    missing = [*_missing(account, ACCOUNT, "")]
    for node in nodes(account):
        if node.is_object and node.field.kind in ("list", "object"):
            missing += _missing(node.spec, node.field.fields, f"{node.path}.")
    yield from ((path, _(REQUIRED)) for path in missing if path != "import_supplier")
    customers = account.get("customers") or []
    is_named = any("family_name" in customer for customer in customers)
    if not is_named and (customers or "unknown_occupier" not in account):
        yield "customers.family_name", _(REQUIRED)
    if "billing_address1" not in account and not account.get("supply_addresses"):
        yield "billing_address1", _("A billing address or a supply address must be given.")


def _missing(spec: Mapping[str, Any], fields: Mapping[str, Field], before: str) -> Iterator[str]:
    """Yield the required paths of an object that its part of the mapping does not fill."""
    return (before + name for name, field in fields.items() if field.is_required and spec.get(name) is None)
