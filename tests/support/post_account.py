"""One example of each post-account record, and where it is posted."""

from typing import Any

from api.operation import example_of

PATHS = {
    "delivery_note": "/v1/data-import/delivery-note/create/",
    "energy_amount": "/v1/data-import/energy-amount/create/",
    "market_participant_invoice": "/v1/data-import/market-participant-invoice/create/",
}
RECORDS: dict[str, dict[str, Any]] = {kind: example_of(kind)[kind] for kind in PATHS}
