"""Bulk requests with many accounts, and their receipts."""

import contextlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from api.bulk.executor import HELPERS
from tests.support.make import encoded
from tests.support.running import Importer, wait_for

BULK = "/v2/data-import/accounts/bulk/"


class Answered:
    """Status, receipts by line, and the summary, None where there is none."""

    def __init__(self, status: int, text: bytes, headers: Mapping[str, str]) -> None:
        self.status = status
        self.headers = headers
        self.text = text
        lines = [json.loads(line) for line in text.splitlines()] if status == 200 else []
        self.receipts = [line for line in lines if "summary" not in line]
        self.summary = lines[-1]["summary"] if lines and "summary" in lines[-1] else None

    @property
    def statuses(self) -> list[str]:
        return [receipt["status"] for receipt in self.receipts]


def bulk(
    importer: Importer, body: bytes | Iterable[bytes], query: str = "", *, path: str = BULK, **headers: str
) -> Answered:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with contextlib.closing(importer.service.connection(60)) as connection:
        connection.request("POST", path + query, body, {"Authorization": f"Token {importer.api_key}"} | named)
        response = connection.getresponse()
        return Answered(response.status, response.read(), {n.lower(): v for n, v in response.headers.items()})


def wait_for_helpers(importer: Importer) -> None:
    """Let the api process judge so much that it starts its helpers."""
    [process] = importer.service.processes("api")
    for _ in range(100):
        if len(process.children()) >= HELPERS:
            return
        bulk(importer, ndjson(*[{}] * 1_000), "?mode=validate")
    raise AssertionError("the api process starts no helpers")


def ndjson(*lines: Any) -> bytes:
    return b"".join(encoded(line) + b"\n" for line in lines)


def number_of(account: dict[str, Any]) -> str:
    return str(account["external_account_number"])


def wait_until_processed(importer: Importer, *accounts: dict[str, Any]) -> None:
    def is_processed(account: dict[str, Any]) -> bool:
        return bool(importer.client.status(importer.supplier, number_of(account)).body["status"] == "PROCESSED")

    wait_for(lambda: all(map(is_processed, accounts)), "all are processed")
