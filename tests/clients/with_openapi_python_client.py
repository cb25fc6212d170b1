"""A small importer with the client that openapi-python-client generates. A test type-checks and runs it."""

import datetime
import io
import json
import sys
import time

from ledger_api import AuthenticatedClient, Client
from ledger_api.api.accounts import create_account, create_accounts, read_import_status
from ledger_api.api.following_imports import list_imports, read_run
from ledger_api.api.tokens import obtain_token
from ledger_api.models import (
    Account,
    Customer,
    GraphQLAnswer,
    GraphQLRequest,
    GraphQLRequestVariablesType0,
    ImportStatus,
    ImportStatusStatus,
    Note,
    Problems,
    RunRecord,
)
from ledger_api.types import File, Unset

WAITING = (ImportStatusStatus.PENDING, ImportStatusStatus.IN_PROGRESS)


def token_for(url: str, key: str) -> str:
    variables = GraphQLRequestVariablesType0.from_dict({"input": {"organizationSecretKey": key}})
    query = "mutation($input: ObtainTokenInput!) { obtainToken(input: $input) { token } }"
    answer = obtain_token.sync(client=Client(base_url=url), body=GraphQLRequest(query=query, variables=variables))
    assert isinstance(answer, GraphQLAnswer)
    assert answer.data
    token = answer.data["obtainToken"]["token"]
    assert isinstance(token, str)
    return token


def account_of(supplier: str, number: str, family_name: str = "Yılmaz") -> Account:
    return Account(
        import_supplier=supplier,
        external_account_number=number,
        customers=[Customer(family_name=family_name)],
        billing_address1="Schillerstraße",
        billing_address2=number,
        billing_address4="Köln",
        billing_postcode="50667",
        notes=[
            Note(body="Hausanschluss im Keller", created_at=datetime.datetime(2024, 5, 1, 10, tzinfo=datetime.UTC)),
        ],
    )


def status_of(client: AuthenticatedClient, supplier: str, number: str) -> ImportStatus:
    status = read_import_status.sync(supplier, number, client=client)
    assert isinstance(status, ImportStatus), status
    return status


def main(url: str, key: str, supplier: str) -> None:
    client = AuthenticatedClient(base_url=url, token=token_for(url, key), prefix="Token")
    created = create_account.sync_detailed(client=client, body=account_of(supplier, "1"), run="wave-1")
    refused = create_account.sync(client=client, body=account_of(supplier, "2", family_name=""))
    assert isinstance(refused, Problems)
    assert not isinstance(refused.errors, Unset)
    for _ in range(300):
        if status_of(client, supplier, "1").status not in WAITING:
            break
        time.sleep(0.1)
    status = status_of(client, supplier, "1")
    lines = "\n".join(json.dumps(account_of(supplier, number).to_dict()) for number in ("3", "4"))
    bulk = create_accounts.sync(client=client, body=File(io.BytesIO(lines.encode())), run="wave-1")
    assert isinstance(bulk, File)
    end = json.loads(bulk.payload.read().splitlines()[-1])
    page = list_imports.sync_detailed(supplier, client=client, limit=2)
    assert isinstance(page.parsed, list)
    run = read_run.sync(supplier, "wave-1", client=client)
    assert isinstance(run, RunRecord)
    summary = {
        "created": created.status_code,
        "problems": [f"{problem.attr} {problem.code}" for problem in refused.errors],
        "status": status.status,
        "sent": status.created_at <= datetime.datetime.now(datetime.UTC),
        "accepted": end["summary"]["accepted"],
        "listed": [listed.external_account_number for listed in page.parsed],
        "next": "link" in page.headers,
        "run": [run.run, run.mode],
    }
    print(json.dumps(summary))


if __name__ == "__main__":
    main(*sys.argv[1:])
