"""Compare a manifest with the totals of the platform: every difference, by its name on the wire."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from importledger_client.contract import paths
from importledger_client.manifest import COUNTS, SUMS

OF_LEDGER = ("ledgers", "balances", "balance_sum", "transactions", "transaction_sum")
_CONTRACT = frozenset(path for path, _ in paths())


class Difference(msgspec.Struct, frozen=True):
    """A count, sum or path that differs between source and platform."""

    name: str
    source: str
    platform: str
    note: str = ""


LEFT_OUT = {
    "columns_nowhere": ("column", "the mapping leaves it out"),
    "values_nowhere": ("values of column", "rows of one account differ, and only one value is used"),
    "rows_nowhere": ("rows of table", "they belong to no account, or to several places"),
    "doubts": ("cells", "the mapping does not say what they mean"),
    "lines_nowhere": ("line", "it could not be read as an account"),
}
"""Members of a manifest that list parts of the source which are in no account, each with a noun and the reason."""


class Comparison(msgspec.Struct, frozen=True):
    """Differences, the number of paths that are stored, and the paths that a setting has dropped."""

    differences: list[Difference]
    stored: int
    dropped: list[str]

    @property
    def is_balanced(self) -> bool:
        return not self.differences


def compared(manifest: Mapping[str, Any], totals: Mapping[str, Any]) -> Comparison:
    """Compare both. `totals` has the shape of a manifest, with the setting `unknown_fields` and the number `erased`."""
    dropped: list[str] = []
    differences = [*_of_counts(manifest, totals), *_of_ledgers(manifest, totals)]
    in_source, in_platform = manifest.get("paths", {}), totals.get("paths", {})
    differences += _of_paths(in_source, in_platform, dropped, is_ignoring=totals.get("unknown_fields") == "ignore")
    for name, (noun, reason) in LEFT_OUT.items():
        differences += [Difference(f"{noun} {part}", "yes", "no", reason) for part in manifest.get(name, ())]
    if erased := totals.get("erased"):
        differences.append(Difference("erased", "0", str(erased), "records of erased persons were deleted"))
    stored = sum(path in in_platform for path in in_source)
    return Comparison(differences, stored, dropped)


def _of_counts(manifest: Mapping[str, Any], totals: Mapping[str, Any]) -> Iterator[Difference]:
    for name in ("accounts", *COUNTS):
        yield from _unequal(name, manifest.get(name), totals.get(name))
    for name in SUMS:
        yield from _unequal(f"sums.{name}", manifest.get("sums", {}).get(name), totals.get("sums", {}).get(name))


def _of_ledgers(manifest: Mapping[str, Any], totals: Mapping[str, Any]) -> Iterator[Difference]:
    in_source, in_platform = manifest.get("by_ledger", {}), totals.get("by_ledger", {})
    for code in sorted({*in_source, *in_platform}):
        for name in OF_LEDGER:
            yield from _unequal(
                f"by_ledger.{code}.{name}", in_source.get(code, {}).get(name), in_platform.get(code, {}).get(name)
            )


def _of_paths(
    source: Mapping[str, Any], platform: Mapping[str, Any], dropped: list[str], *, is_ignoring: bool
) -> Iterator[Difference]:
    for path in sorted({*source, *platform}):
        in_source, in_platform = source.get(path), platform.get(path)
        if in_source is not None and in_platform is None:
            if is_ignoring and path not in _CONTRACT:
                dropped.append(path)
            else:
                yield Difference(
                    path, str(in_source["count"]), "0", "unaccounted: stored nowhere, and dropped by no rule"
                )
        elif in_source is None or in_platform is None:
            yield Difference(path, "0", str((in_platform or {}).get("count")), "the source does not have it")
        elif in_source["count"] != in_platform["count"]:
            yield Difference(path, str(in_source["count"]), str(in_platform["count"]))
        elif in_source["digest"] != in_platform["digest"]:
            yield Difference(
                path, str(in_source["count"]), str(in_platform["count"]), "the same number, but other values"
            )


def _unequal(name: str, in_source: Any, in_platform: Any) -> Iterator[Difference]:
    if in_source != in_platform:
        yield Difference(name, _shown(in_source), _shown(in_platform))


def _shown(value: Any) -> str:
    return "–" if value is None else str(value)
