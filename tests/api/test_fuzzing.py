"""Requests made from the OpenAPI description, valid and invalid, get answers that it describes.

300 requests by default; `make fuzz` sends 20,000 (FUZZ_REQUESTS).
"""

import os
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from api.operation import EVENTS, Operation
from api.operations import OPERATIONS
from schemas.account import WrappedAccount
from schemas.run import RunRecord
from tests.support.make import an_account
from tests.support.running import Importer, RunningService, processed, wait_for

IS_WHOLE = "FUZZ_REQUESTS" in os.environ
REQUESTS = int(os.environ.get("FUZZ_REQUESTS", "300"))
CASES = [
    (operation, mode)
    for operation in OPERATIONS
    if not operation.is_ndjson  # tests/api/bulk sends those anything
    for mode in ("positive", "negative")
    if mode == "positive" or operation.body or "{" in operation.path
]
"""Every operation with what conforms, and with what does not where anything could."""
REFUSALS = [400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 428, 429, "5xx"]
"""Statuses that refuse: the tool's own list and 413, since what has too many items may be too large as well."""
RUN = "1"
LARGE = [operation.name for operation in OPERATIONS if operation.body is WrappedAccount]
"""Operations whose bodies take a second each to make up: they have hundreds of fields."""
EXAMPLES = -(-REQUESTS // sum(operation.name not in LARGE for operation, _ in CASES))


def examples_of(operation: Operation) -> int:
    """Of each mode; a small run makes two of an account."""
    return 2 if operation.name in LARGE and not IS_WHOLE else EXAMPLES


@pytest.fixture(scope="module")
def importer(service: RunningService) -> Importer:
    """An importer whose account 1 exists, and whose run, so that requests which name them come far."""
    made = service.importer()
    path = f"/v2/data-import/accounts/?run={RUN}"
    assert made.request("POST", path, an_account(made.supplier, 1))[0].status == 201
    wait_for(lambda: processed(made) == 1, "the account exists")
    return made


@pytest.fixture(scope="module")
def described(service: RunningService) -> Any:
    import schemathesis  # it takes a second, which no process spends that only collects this file
    from schemathesis.config import SchemathesisConfig

    refusals = {"negative_data_rejection": {"expected-statuses": REFUSALS}}
    config = SchemathesisConfig.from_dict({"checks": refusals})
    answer, _ = service.request("GET", "/openapi.json")
    document = msgspec.json.decode(msgspec.json.encode(answer.body).replace(b'"x-itemSchema"', b'"itemSchema"'))
    described = schemathesis.openapi.from_dict(document, config=config)
    described.config.update(base_url=service.base_url)
    return described


@pytest.mark.promise("200-201")
@pytest.mark.asvs("V4.1.1", "V15.3.1")
@pytest.mark.api_top_10("API9")
@pytest.mark.parametrize(("operation", "mode"), CASES, ids=[f"{o.name}-{mode}" for o, mode in CASES])
def test_every_answer_is_described(described: Any, importer: Importer, operation: Operation, mode: str) -> None:
    from schemathesis import GenerationMode
    from schemathesis.specs.openapi.checks import (
        negative_data_rejection,
        positive_data_acceptance,
    )

    headers = {"Authorization": f"Token {importer.api_key}"}
    api_operation = described[operation.path][operation.method]

    @settings(
        max_examples=examples_of(operation),
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(api_operation.as_strategy(generation_mode=GenerationMode(mode)))
    def answers_as_described(case: Any) -> None:
        reach_into(case, importer)
        excluded: list[Any] = [positive_data_acceptance, *([negative_data_rejection] if vanishes(case.query) else [])]
        response = case.call_and_validate(headers=headers, excluded_checks=excluded)
        if operation.media == EVENTS and response.status_code == 200:
            lines = [line for line in response.text.splitlines() if line.startswith("data: ")]
            assert [msgspec.json.decode(line.removeprefix("data: "), type=RunRecord) for line in lines]

    answers_as_described()


def vanishes(query: Any) -> bool:
    """Return True if the wrong part of a query may not be sent at all: a parameter without a value is none."""
    return any(value in (None, [], {}, ()) for value in (query or {}).values())


def reach_into(case: Any, importer: Importer) -> None:
    """Let some of the cases name a supplier, an account and a run that exist: others end at the first look-up."""
    external = an_account(importer.supplier, 1)["external_account_number"]
    place = case.body
    if isinstance(place, dict):
        place = place["payload"] if isinstance(place.get("payload"), dict) else place
        for name, real in (("import_supplier", importer.supplier), ("external_account_number", external)):
            if isinstance(place.get(name), str) and 0 < len(place[name]) <= 32 and len(place[name]) % 2:
                place[name] = real
    if len(case.path_parameters.get("supplier", "")) % 2:
        case.path_parameters["supplier"] = importer.supplier
    if len(case.path_parameters.get("run", "")) % 2:
        case.path_parameters["run"] = RUN


def test_as_many_requests_are_made_as_are_asked_for() -> None:
    assert sum(examples_of(operation) for operation, _ in CASES) >= REQUESTS
    assert {"create_account", "validate_account"} <= set(LARGE)
