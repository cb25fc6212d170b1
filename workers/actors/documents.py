"""Look for documents below a supplier's root in S3, GCS, Azure or a local folder, through `obstore`.

Credentials and endpoints are read from the variables of the object stores (`AWS_…`, `GOOGLE_…`, `AZURE_…`).
"""

import asyncio
import os
from collections.abc import Collection
from pathlib import Path
from urllib.parse import unquote, urlsplit

import obstore
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import ObjectStore

from market.documents import is_root_below, path_below_root
from schemas.sentence import Sentence
from system.object_store import open_store

CONCURRENCY = 32
PROBE = "is-anything-here"
"""Name of a document that does not exist. A request for it shows whether the store answers."""
TIMEOUT_S, LONGEST_S = 10.0, 30.0
"""Time limits for each 1,000 documents of a request, and for all documents of a message [seconds].

LONGEST_S is half of the lease of the imports.
"""


class DocumentsUnavailable(Exception):
    """The object store does not answer, or refuses access. Trying again later may succeed."""

    def __init__(self, reason: Sentence) -> None:
        super().__init__(reason)
        self.reason = reason


def missing_documents(
    root: str, paths: Collection[str], *, timeout_s: float = TIMEOUT_S, longest_s: float = LONGEST_S
) -> set[str]:
    """Return the paths without a document. Never looks outside the root. Raises DocumentsUnavailable.

    Waits at most `timeout_s` for each 1,000 paths, and at most `longest_s`.
    """
    thousands = max(1, -(-len(paths) // 1_000))
    return asyncio.run(_missing(root, paths, max(0.0, min(timeout_s * thousands, longest_s))))


def why_unreachable(root: str, *, timeout_s: float = TIMEOUT_S) -> Sentence | None:
    """Return a sentence with the reason why the documents root cannot be used; None if it can be used."""
    try:
        missing_documents(root, [PROBE], timeout_s=timeout_s)
    except DocumentsUnavailable as error:
        return error.reason
    return None


def is_allowed(root: str, urls: Collection[str]) -> bool:
    """Return True if the root equals one of the allowed URLs or is below one.

    Links in local folders are resolved first.
    """
    if not is_root_below(root, urls):
        return False
    folders = [_folder(url).resolve() for url in urls if url.startswith("file:")]
    return not root.startswith("file:") or any(_folder(root).resolve().is_relative_to(folder) for folder in folders)


def _folder(url: str) -> Path:
    return Path(unquote(urlsplit(url).path))


async def _missing(root: str, paths: Collection[str], timeout_s: float) -> set[str]:
    folder = _folder(root) if root.startswith("file:") else None
    if folder is not None and not (folder.is_dir() and os.access(folder, os.R_OK | os.X_OK)):
        raise DocumentsUnavailable(
            Sentence(
                "there is no such folder, or it may not be read",
                "der Ordner ist nicht vorhanden oder darf nicht gelesen werden",
            )
        )
    store = _store(root, timeout_s)
    limit = asyncio.Semaphore(CONCURRENCY)

    async def is_missing(path: str) -> bool:
        key = path_below_root(path)
        if key is None or (folder is not None and not _lies_in(folder, key)):
            return True
        async with limit:
            try:
                await obstore.head_async(store, key)
            except FileNotFoundError:
                return True
        return False

    distinct = list(dict.fromkeys(paths))
    try:
        async with asyncio.timeout(timeout_s):
            are_missing = await asyncio.gather(*map(is_missing, distinct))
            if folder is None and all(are_missing):
                await _check_bucket(store)
    except TimeoutError:
        raise DocumentsUnavailable(
            Sentence("no answer within {s:g} s", "keine Antwort innerhalb von {s:g} s", s=timeout_s)
        ) from None
    except DocumentsUnavailable:
        raise
    except (BaseError, OSError, ValueError) as error:
        raise DocumentsUnavailable(Sentence(type(error).__name__, type(error).__name__)) from error
    return {path for path, is_lost in zip(distinct, are_missing, strict=True) if is_lost}


async def _check_bucket(store: ObjectStore) -> None:
    """Raise DocumentsUnavailable if the bucket does not exist, since all of its documents would count as missing.

    A bucket that the store refuses to list exists.
    """
    try:
        async for _ in obstore.list(store, chunk_size=1):
            return
    except (PermissionError, PermissionDeniedError, UnauthenticatedError):
        return
    except (BaseError, OSError) as error:
        raise DocumentsUnavailable(
            Sentence(
                "there is no such bucket, or it does not answer", "der Bucket ist nicht vorhanden oder antwortet nicht"
            )
        ) from error


def _store(root: str, timeout_s: float) -> ObjectStore:
    try:
        return open_store(root, timeout_s=timeout_s)
    except (BaseError, ValueError, OSError) as error:
        reason = Sentence(
            "the root cannot be used: {error}", "die Ablage ist nicht nutzbar: {error}", error=type(error).__name__
        )
        raise DocumentsUnavailable(reason) from error


def _lies_in(folder: Path, key: str) -> bool:
    """Return False if a link leads out of the folder."""
    try:
        return (folder / key).resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):
        return False
