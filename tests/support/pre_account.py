"""Participants and price sheets that break no rule."""

import itertools
import os
from typing import Any

_codes = itertools.count(9_900_000_000_000 + os.getpid() * 1000)


def a_participant(code: int | None = None) -> dict[str, Any]:
    return {
        "code": code or next(_codes),
        "code_type": "BDEW",
        "name": "Stadtwerke Musterstadt",
        "role": "NETWORK_OPERATOR",
        "energy": "ELECTRICITY",
        "contact_details": [
            {
                "category": "Z10",
                "name": "Leitstelle",
                "email": "leitstelle@example.com",
                "phone": "+49123456789",
                "valid_from": "2024-01-01T00:00:00+01:00",
            }
        ],
    }


def a_sheet(participant: int, document: str = "D-1") -> dict[str, Any]:
    return {
        "market_participant_code": participant,
        "price_sheet_type": "Z32",
        "document_number": document,
        "preceding_document_number": "D-0",
        "is_price_sheet_unused": False,
        "active_from": "2024-01-01T00:00:00+01:00",
        "external_id": "x",
        "article_prices": [
            {
                "article_id": "2-01-7-001",
                "price_cents": "12.500",
                "interval_zone": {"lower_bound": 0, "upper_bound": 10.5},
            },
            {
                "article_id": "2-01-7-001",
                "price_cents": "11.0",
                "interval_zone": {"lower_bound": 10.5, "upper_bound": None},
            },
            {"article_id": "2-01-7-002", "price_cents": "3"},
        ],
    }
