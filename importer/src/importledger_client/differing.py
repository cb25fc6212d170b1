"""Find the accounts that differ between a source and the platform, in the buckets whose digests differ."""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from importledger_client.account_values import Value, Values, path_digest, values_of
from importledger_client.answers import AccountDifference, PathDifference
from importledger_client.contract import paths
from importledger_client.digest import BUCKETS, bucket_of
from importledger_client.language import _
from importledger_client.manifest import NoAccount, account_digest, decoded
from importledger_client.sources import Differs, Source, account_in, for_supplier

if TYPE_CHECKING:
    from importledger_client.client import Client

MOST_COMPARED = 200
"""Accounts whose different fields are listed. Further accounts are only named."""
_ACCOUNTS, _DETAILED = 2_000, 3
"""Accounts of one request, and accounts that one request compares field by field, so that answers stay within the
limit.
"""
_CACHED_BYTES = 32 * 2**20
"""Accounts that are kept in memory between two readings of the source [bytes]."""
_MODULUS = 2**64
_NAME = b'"external_account_number"'
_NUMBER = re.compile(rb'"external_account_number"\s*:\s*"([^"\\]+)"')
_KINDS = {path: field.kind for path, field in paths()}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HIDDEN = "•••"
_SHOWN_LETTERS = 200


class FieldDifference(msgspec.Struct, frozen=True):
    """Values of a path that only the source has, and values that only the platform has.

    Masked values: all values of both sides.
    """

    path: str
    stored: str
    source: tuple[str, ...]
    platform: tuple[str, ...]


class Found(msgspec.Struct, frozen=True):
    """An account that differs. `fields` is empty if it was not compared field by field."""

    difference: AccountDifference
    fields: tuple[FieldDifference, ...] = ()

    @property
    def number(self) -> str:
        return self.difference.external_account_number

    @property
    def side(self) -> str:
        """Name of the difference's cause, from the state of the import and the side that agrees with the log."""
        difference = self.difference
        if difference.is_erased:
            return "erased"
        if difference.is_as_logged is False:
            return "platform"
        if difference.status in ("ERRORED", "DRY_RUN_ERRORED"):
            return "failed"
        if difference.status in ("PENDING", "IN_PROGRESS"):
            return "waiting"
        if difference.kind == "missing":
            return "not_sent"
        if difference.kind == "additional":
            return "additional"
        return "source" if difference.is_as_logged else "unknown"


class Differing:
    """The accounts of a source in some buckets, and their comparison with a run."""

    def __init__(self, sources: Sequence[Source], supplier: str, manifest: Mapping[str, Any]) -> None:
        self._sources, self._supplier, self._manifest = sources, supplier, manifest
        self._digests: dict[str, dict[str, int]] = {}
        self._cached: dict[str, bytes] = {}
        self._cached_bytes = 0
        self._added: dict[str, int] = {}
        """By bucket: sum of the platform's digests minus the source's digests, of accounts that differ only in
        spelling.
        """

    def find(self, client: "Client", run: str, buckets: Iterable[str], *, shows: bool) -> list[Found]:
        """Return the accounts that differ, by number. Raises Differs if the source has changed since the manifest."""
        wanted = frozenset(buckets)
        self._read(wanted)
        found: list[AccountDifference] = []
        for group in self._groups(sorted(wanted)):
            accounts = [
                {"external_account_number": number, "digest": f"{digest:016x}"}
                for bucket in group
                for number, digest in self._digests.get(bucket, {}).items()
            ]
            found += self._requested(client, run, accounts, group)
        return self._compared(client, run, found, shows=shows)

    def lines(self, numbers: Iterable[str]) -> Iterator[bytes]:
        """Yield the lines of accounts by number, in the form of a push."""
        yield from (for_supplier(content, self._supplier) for _, content in self._contents([*numbers]))

    def balanced_buckets(self) -> list[str]:
        """Return the manifest's buckets, with the platform's digests for accounts that differ only in spelling."""
        return [
            f"{(int(digest, 16) + self._added.get(bucket, 0)) % _MODULUS:016x}"
            for bucket, digest in zip(BUCKETS, self._manifest["buckets"], strict=True)
        ]

    def _read(self, buckets: frozenset[str]) -> None:
        """Compute the digests of the accounts in buckets. Raises Differs if the sums differ from the manifest."""
        totals = dict.fromkeys(buckets, 0)
        for number, content in self._accounts(buckets):
            digest, bucket = account_digest(content), bucket_of(number)
            totals[bucket] += digest
            self._digests.setdefault(bucket, {})[number] = digest
            if self._cached_bytes + len(content) <= _CACHED_BYTES:
                self._cached[number] = content
                self._cached_bytes += len(content)
        noted = dict(zip(BUCKETS, self._manifest["buckets"], strict=True))
        if any(f"{total % _MODULUS:016x}" != noted[bucket] for bucket, total in totals.items()):
            raise Differs("The source has changed since its manifest was made. Make the manifest again.")

    def _accounts(self, buckets: frozenset[str]) -> Iterator[tuple[str, bytes]]:
        """Yield number and content of the source's accounts in these buckets."""
        for source in self._sources:
            for line in source.lines():
                if line.errors or not _may_be_in(line.content, buckets):
                    continue
                content = account_in(line.content)
                try:
                    number = decoded(content).get("external_account_number")
                except NoAccount:
                    continue
                if isinstance(number, str) and bucket_of(number) in buckets:
                    yield number, content

    def _groups(self, buckets: Sequence[str]) -> Iterator[list[str]]:
        """Yield groups of buckets with few enough accounts for one request, or single buckets."""
        group: list[str] = []
        size = 0
        for bucket in buckets:
            number = len(self._digests.get(bucket, ()))
            if group and size + number > _ACCOUNTS:
                yield group
                group, size = [], 0
            group.append(bucket)
            size += number
        if group:
            yield group

    def _requested(
        self, client: "Client", run: str, accounts: list[dict[str, Any]], buckets: Sequence[str], *, shows: bool = False
    ) -> list[AccountDifference]:
        return client.differences(self._supplier, run, {"buckets": buckets, "accounts": accounts}, shows=shows)

    def _compared(self, client: "Client", run: str, named: list[AccountDifference], *, shows: bool) -> list[Found]:
        """Compare the first different accounts field by field. Accounts whose fields are all equal are left out."""
        different = [difference.external_account_number for difference in named if difference.kind == "different"]
        compared: dict[str, Found | None] = {}
        contents = self._contents(different)
        while group := dict(itertools.islice(contents, _DETAILED)):
            if sum(found is not None for found in compared.values()) >= MOST_COMPARED:
                break
            values = {number: values_of(decoded(content)) for number, content in group.items()}
            accounts = [_described(number, self._digest(number), of_account) for number, of_account in values.items()]
            for difference in self._requested(client, run, accounts, [], shows=shows):
                number = difference.external_account_number
                compared[number] = self._fields(difference, values[number], shows=shows)
        all_found = [compared.get(each.external_account_number, Found(each)) for each in named]
        return [each for each in all_found if each is not None]

    def _contents(self, numbers: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        if all(number in self._cached for number in numbers):
            yield from ((number, self._cached[number]) for number in numbers)
            return
        wanted = frozenset(numbers)
        for number, content in self._accounts(frozenset(map(bucket_of, wanted))):
            if number in wanted:
                yield number, content

    def _digest(self, number: str) -> int:
        return self._digests[bucket_of(number)][number]

    def _fields(self, difference: AccountDifference, values: Values, *, shows: bool) -> Found | None:
        """Return the account with the fields that differ; None if the account differs only in spelling.

        For different spelling, add the difference of the digests to `_added`, for `balanced_buckets`.
        """
        number = difference.external_account_number
        if difference.kind == "different" and not difference.paths:
            bucket = bucket_of(number)
            added = int(difference.digest, 16) - self._digest(number)
            self._added[bucket] = self._added.get(bucket, 0) + added
            return None
        return Found(
            difference,
            tuple(_field_difference(number, path, values.get(path.path, []), shows=shows) for path in difference.paths),
        )


def _may_be_in(content: bytes, buckets: frozenset[str]) -> bool:
    """Return False if the account of a line is certainly in another bucket. Does not parse the line as JSON."""
    if content.count(_NAME) != 1 or (match := _NUMBER.search(content)) is None:
        return True
    return bucket_of(match.group(1).decode("utf-8", "surrogateescape")) in buckets


def _described(number: str, digest: int, values: Values) -> dict[str, Any]:
    digests = [{"path": path, "digest": path_digest(number, of_path)} for path, of_path in values.items()]
    return {"external_account_number": number, "digest": f"{digest:016x}", "paths": digests}


def _field_difference(number: str, path: PathDifference, values: list[Value], *, shows: bool) -> FieldDifference:
    ours = {path_digest(number, [value]): value for value in values}
    theirs = {value.digest for value in path.values}
    hides = path.is_personal and not shows
    source = tuple(_shown(path.path, value, hides=hides) for digest, value in ours.items() if digest not in theirs)
    platform = tuple(_at(value.row, value.value or _("present")) for value in path.values if value.digest not in ours)
    return FieldDifference(path.path, path.stored, source, platform)


def _shown(path: str, value: Value, *, hides: bool) -> str:
    text = value.text
    if not text:
        return _at(value.ordinal, _("present"))
    if hides:
        return _at(value.ordinal, f"{text[0]}{_HIDDEN}" if len(text) > 3 else _HIDDEN)
    if _KINDS.get(path) == "moment" and text.lstrip("-").isdigit():
        text = (_EPOCH + timedelta(microseconds=int(text))).isoformat()
    return _at(value.ordinal, text.replace("\x1f", ", ")[:_SHOWN_LETTERS])


def _at(row: int, text: str) -> str:
    return f"{text} ({_('row')} {row})" if row > 1 else text
