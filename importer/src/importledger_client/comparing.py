"""What the source says against what the platform holds: everything that differs, by its word on the wire."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from importledger_client.contract import paths
from importledger_client.manifest import COUNTS, SUMS

OF_LEDGER = ("ledgers", "balances", "balance_sum", "transactions", "transaction_sum")
_CONTRACT = frozenset(path for path, _ in paths())


class Difference(msgspec.Struct, frozen=True):
    """Something that is not the same on both sides."""

    name: str
    source: str
    platform: str
    note: str = ""


LEFT_OUT = {
    "columns_nowhere": ("column", "the mapping leaves it out"),
    "values_nowhere": ("values of column", "rows of one account differ, and one value gets into it"),
    "rows_nowhere": ("rows of table", "they belong to no account, or to several places"),
    "doubts": ("cells", "the mapping does not say what they mean"),
    "lines_nowhere": ("line", "it could not be read as an account"),
}
"""Members of a manifest that name parts of the source that are in no account."""


class Comparison(msgspec.Struct, frozen=True):
    """What differs, and what became of the paths of the source."""

    differences: list[Difference]
    stored: int
    dropped: list[str]

    @property
    def is_balanced(self) -> bool:
        return not self.differences


def compared(manifest: Mapping[str, Any], totals: Mapping[str, Any]) -> Comparison:
    """Both have the shape of a manifest; totals also say how unknown fields are treated, and what was erased."""
    dropped: list[str] = []
    differences = [*_of_counts(manifest, totals), *_of_ledgers(manifest, totals)]
    said, held = manifest.get("paths", {}), totals.get("paths", {})
    differences += _of_paths(said, held, dropped, is_ignoring=totals.get("unknown_fields") == "ignore")
    for name, (what, why) in LEFT_OUT.items():
        differences += [Difference(f"{what} {one}", "yes", "no", why) for one in manifest.get(name, ())]
    if erased := totals.get("erased"):
        differences.append(Difference("erased", "0", str(erased), "erased persons have no records any more"))
    stored = sum(path in held for path in said)
    return Comparison(differences, stored, dropped)


def _of_counts(manifest: Mapping[str, Any], totals: Mapping[str, Any]) -> Iterator[Difference]:
    for name in ("accounts", *COUNTS):
        yield from _unequal(name, manifest.get(name), totals.get(name))
    for name in SUMS:
        yield from _unequal(f"sums.{name}", manifest.get("sums", {}).get(name), totals.get("sums", {}).get(name))


def _of_ledgers(manifest: Mapping[str, Any], totals: Mapping[str, Any]) -> Iterator[Difference]:
    said, held = manifest.get("by_ledger", {}), totals.get("by_ledger", {})
    for code in sorted({*said, *held}):
        for name in OF_LEDGER:
            yield from _unequal(f"by_ledger.{code}.{name}", said.get(code, {}).get(name), held.get(code, {}).get(name))


def _of_paths(
    said: Mapping[str, Any], held: Mapping[str, Any], dropped: list[str], *, is_ignoring: bool
) -> Iterator[Difference]:
    for path in sorted({*said, *held}):
        ours, theirs = said.get(path), held.get(path)
        if ours is not None and theirs is None:
            if is_ignoring and path not in _CONTRACT:
                dropped.append(path)
            else:
                yield Difference(path, str(ours["count"]), "0", "unaccounted: stored nowhere, and dropped by no rule")
        elif ours is None or theirs is None:
            yield Difference(path, "0", str((theirs or {}).get("count")), "the source does not have it")
        elif ours["count"] != theirs["count"]:
            yield Difference(path, str(ours["count"]), str(theirs["count"]))
        elif ours["digest"] != theirs["digest"]:
            yield Difference(path, str(ours["count"]), str(theirs["count"]), "as many, but other values")


def _unequal(name: str, ours: Any, theirs: Any) -> Iterator[Difference]:
    if ours != theirs:
        yield Difference(name, _shown(ours), _shown(theirs))


def _shown(value: Any) -> str:
    return "–" if value is None else str(value)
