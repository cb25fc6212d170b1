"""Manifests: what a source adds up to, read as hostile bytes, and how it differs from what the platform has."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from api.http.errors import NotValid
from api.http.limits import MAX_MANIFEST_BYTES, MAX_MANIFEST_PLACES
from api.http.status_codes import ApiError
from projections.platform.totals import LEFT_OUT, unequal_totals
from schemas.base import Problem
from schemas.reading.misfits import DEEP_BODY
from schemas.reading.nesting import is_shallow
from schemas.reading.problems import attr_of, bounded
from schemas.reading.shape import NotJson
from schemas.sentence import Sentence

_NO_JSON = Sentence("The manifest must be JSON.", "Das Manifest muss JSON sein.")
_TOO_LARGE = Sentence(
    f"A manifest must have at most {MAX_MANIFEST_BYTES} bytes.",
    f"Ein Manifest darf höchstens {MAX_MANIFEST_BYTES} Bytes haben.",
)
_TOO_MANY = Sentence(
    f"A manifest must have at most {MAX_MANIFEST_PLACES} ledgers and paths.",
    f"Ein Manifest darf höchstens {MAX_MANIFEST_PLACES} Buchungskreise und Pfade haben.",
)
_NO_OBJECT = Problem(
    "non_field_errors", "invalid", Sentence("A manifest must be an object.", "Ein Manifest muss ein Objekt sein.")
)
_NOT_UNDERSTOOD = Sentence("The request could not be understood.", "Die Anfrage wurde nicht verstanden.")
_OTHER_SUPPLIER = Sentence("The source is another supplier's.", "Die Quelle gehört zu einem anderen Lieferanten.")


def source_manifest(body: bytes) -> dict[str, Any]:
    """The manifest in a request's body, of which only size, depth and kind are checked.

    Raises ApiError, NotJson, NotValid.
    """
    if len(body) > MAX_MANIFEST_BYTES:
        raise ApiError(413, _TOO_LARGE)
    try:
        manifest = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ApiError(400, _NO_JSON, code="parse_error") from None
    if not is_shallow(manifest):
        raise NotJson(DEEP_BODY)
    if not isinstance(manifest, dict):
        raise NotValid("validation_error", _NOT_UNDERSTOOD, [_NO_OBJECT])
    places = (manifest.get(name) for name in ("by_ledger", "paths", *LEFT_OUT))
    if sum(len(place) for place in places if isinstance(place, dict | list)) > MAX_MANIFEST_PLACES:
        raise ApiError(413, _TOO_MANY)
    return manifest


def unbalanced(manifest: Mapping[str, Any], totals: Mapping[str, Any]) -> list[Problem]:
    """A problem for each place where manifest and totals differ, as many as an answer lists. Raises TooMuchWork."""

    def unequal() -> Iterator[Problem]:
        if manifest.get("import_supplier") not in (None, totals["import_supplier"]):
            yield Problem("import_supplier", "not_balanced", _OTHER_SUPPLIER)
        for place, sentence in unequal_totals(manifest, totals, drops_unknown=totals["unknown_fields"] == "ignore"):
            yield Problem(attr_of(place), "not_balanced", sentence)

    return bounded(unequal())
