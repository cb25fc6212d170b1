"""Participants and price sheets that break no rule."""

import itertools
import os
from typing import Any

from api.operation import example_of

PARTICIPANT: dict[str, Any] = example_of("market_participant")
SHEET: dict[str, Any] = example_of("price_sheets")["price_sheets"][0]
_codes = itertools.count(9_900_000_000_000 + os.getpid() * 1000)


def a_participant(code: int | None = None) -> dict[str, Any]:
    return PARTICIPANT | {"code": code or next(_codes)}


def a_sheet(participant: int, document: str = "D-1") -> dict[str, Any]:
    return SHEET | {"market_participant_code": participant, "document_number": document}
