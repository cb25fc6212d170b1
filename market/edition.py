"""Edition of the rules: a digest of the installed sources of rules and shapes.

A wheel has the same sources as a checkout, so both have the same edition. Any change of a source file makes a new
edition. Workers then check imports again that were staged under the previous edition.
"""

import hashlib
from collections.abc import Iterable, Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable

PACKAGES = ("market", "schemas")
_DIGITS = 16


def edition_of(sources: Iterable[tuple[str, bytes]]) -> str:
    """Return the edition of the files (name, content), in any order. Kinds of line ends make no difference."""
    digest = hashlib.sha256()
    for name, source in sorted(sources):
        content = source.replace(b"\r\n", b"\n")
        digest.update(b"%s\n%d\n%s" % (name.encode(), len(content), content))
    return digest.hexdigest()[:_DIGITS]


def sources() -> Iterator[tuple[str, bytes]]:
    """Yield (name, content) of every source file of PACKAGES."""
    for package in PACKAGES:
        yield from _sources_in(files(package), package)


def _sources_in(folder: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        name = f"{path}/{entry.name}"
        if entry.is_dir():
            yield from _sources_in(entry, name)
        elif entry.name.endswith(".py"):
            yield name, entry.read_bytes()
