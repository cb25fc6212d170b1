"""Compare a manifest with the totals of the platform.

Differences are counts, sums, groups of accounts (buckets), erased records, and parts of the source in no account.
"""

from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

import msgspec

from importledger_client.digest import BUCKETS
from importledger_client.language import _, translatable
from importledger_client.manifest import SHOWN_COUNTS, SUMS

OF_LEDGER = ("ledgers", "balances", "balance_sum", "transactions", "transaction_sum")


class Difference(msgspec.Struct, frozen=True):
    """A count or sum that differs between source and platform, or a part of the source outside of all accounts."""

    name: str
    source: str
    platform: str
    note: str = ""


LEFT_OUT = {
    "columns_nowhere": (translatable("column"), translatable("the mapping leaves it out")),
    "values_nowhere": (
        translatable("values of column"),
        translatable("rows of one account differ, and only one value is used"),
    ),
    "rows_nowhere": (translatable("rows of table"), translatable("they belong to no account, or to several places")),
    "doubts": (translatable("cells"), translatable("the mapping does not say what they mean")),
    "lines_nowhere": (translatable("line"), translatable("it could not be read as an account")),
}
"""Members of a manifest that list parts of the source outside of all accounts, each with a noun and the reason."""


class Comparison(msgspec.Struct, frozen=True):
    """Differences, the buckets whose accounts differ, and the undocumented paths that a setting has dropped."""

    differences: list[Difference]
    buckets: list[str]
    dropped: list[str]

    @property
    def is_balanced(self) -> bool:
        return not self.differences and not self.buckets


def compared(manifest: Mapping[str, Any], totals: Mapping[str, Any]) -> Comparison:
    """Return the differences between a manifest of the source and the platform's totals.

    `totals` has the shape of a manifest. Added are `unknown_fields`, the platform's setting for fields that the
    contract does not name, and `erased`, the number of erased records.

    Totals that were read from a certificate have one digest over all buckets instead of the buckets. Then the buckets
    that differ are not known.
    """
    differences = [*_of_counts(manifest, totals), *_of_ledgers(manifest, totals)]
    undocumented = manifest.get("undocumented", {})
    is_ignoring = totals.get("unknown_fields") == "ignore"
    if not is_ignoring:
        differences += [
            Difference(path, str(number), "0", _("unaccounted: stored nowhere, and dropped by no rule"))
            for path, number in undocumented.items()
        ]
    for name, (noun, reason) in LEFT_OUT.items():
        for part in manifest.get(name, ()):
            number, of, file = part.partition(" of ") if name == "lines_nowhere" else (part, "", "")
            shown = _("{line} of {file}", line=number, file=file) if of else part
            differences.append(Difference(f"{_(noun)} {shown}", _("yes"), _("no"), _(reason)))
    if erased := totals.get("erased"):
        differences.append(Difference("erased", "0", str(erased), _("records of erased persons were deleted")))
    in_source, in_platform = manifest["buckets"], totals.get("buckets")
    if not in_platform:
        differences += _unequal("digest", sha256("".join(in_source).encode()).hexdigest(), totals.get("digest"))
    sides = zip(BUCKETS, in_source, in_platform or in_source, strict=True)
    buckets = [bucket for bucket, source, platform in sides if source != platform]
    return Comparison(differences, buckets, list(undocumented) if is_ignoring else [])


def _of_counts(manifest: Mapping[str, Any], totals: Mapping[str, Any]) -> Iterator[Difference]:
    for name in ("accounts", *SHOWN_COUNTS):
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


def _unequal(name: str, in_source: Any, in_platform: Any) -> Iterator[Difference]:
    if in_source != in_platform:
        yield Difference(name, _shown(in_source), _shown(in_platform))


def _shown(value: Any) -> str:
    return "–" if value is None else str(value)
