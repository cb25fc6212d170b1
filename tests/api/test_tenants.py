"""Answers to every role about every tenant: operation × role × own, foreign or unknown tenant.

Expected answers follow from the row of the operation. `OTHER_STATUSES` holds the exceptions.
"""

import itertools
import json
import re
from contextlib import closing
from typing import Any, NamedTuple

import msgspec
import psycopg
import pytest

from api.operations import OPERATIONS
from tests.support.bulk import BULK, ndjson
from tests.support.make import an_account, changed, encoded
from tests.support.post_account import RECORDS
from tests.support.pre_account import a_participant, a_sheet
from tests.support.running import Importer, RunningService, wait_for
from tests.support.whole import admin_url

ROLES = {"i": "importer", "a": "auditor", "s": "support", "o": "operator"}
RUN = "shared"
"""Name of a run that each tenant has."""


NAMED = {operation.name: operation for operation in OPERATIONS}


class Answer(NamedTuple):
    """Roles that are admitted, "" where no credential is needed; statuses about the own and about a foreign tenant."""

    roles: str
    own: int
    foreign: int


def answer_of(name: str) -> Answer:
    """Expected answers: success about the own tenant, and 404 where the path names a supplier of another tenant."""
    operation, roles = NAMED[name], NAMED[name].roles or ()
    own = min(operation.answers)
    foreign = 404 if operation.names_supplier and not operation.is_foreign_empty else own
    letters = "".join(letter for letter, role in ROLES.items() if role in roles)
    return Answer(letters, *OTHER_STATUSES.get(name, (own, foreign)))


OTHER_STATUSES = {
    **dict.fromkeys(("create_account", "import_price_sheets"), (201, 400)),
    **{f"create_{kind}": (201, 400) for kind in RECORDS},
    "validate_account": (200, 400),
    "import_market_participant": (200, 201),
    **dict.fromkeys(("cancel_import", "retry_import"), (400, 404)),
    "heal_import": (202, 404),
    "certify_run": (409, 404),
}
"""Statuses about the own and a foreign tenant, of operations that name the supplier in the body or that refuse."""
ANSWERS = {name: answer_of(name) for name in NAMED}
GUARDED = [name for name, answer in ANSWERS.items() if answer.roles]
EMPTY = {"list_pending_imports", "read_payload_difference"}
"""Operations that have nothing to answer about the own tenant either."""
each = pytest.mark.parametrize("name", ANSWERS)


class Tenant(msgspec.Struct, frozen=True):
    """A supplier with an account, a run and market data, and what of it no other tenant may see."""

    organisation: str
    supplier: str
    external: str
    person: str
    participant: int
    other_participant: int
    account_number: str = "A-00000000"

    @property
    def secrets(self) -> set[str]:
        contact = f"{self.person}@example.com"
        return {self.organisation, self.supplier, self.external, self.person, self.account_number, contact}

    def account(self, number: int = 1) -> dict[str, Any]:
        """The account that there is, or a further one."""
        account = changed(an_account(self.supplier, number), self.person, "customers", 0, "family_name")
        external = self.external if number == 1 else f"{self.external}-{number}"
        return changed(account, external, "external_account_number")

    def market_participant(self, code: int) -> dict[str, Any]:
        return changed(a_participant(code), f"{self.person}@example.com", "contact_details", 0, "email")


class Sent(msgspec.Struct, frozen=True):
    """An answer: status, header fields by their names in small letters, text."""

    status: int
    fields: dict[str, str]
    text: str


class Keys(msgspec.Struct, frozen=True):
    """Credentials of one role of the own tenant, by kind."""

    valid: dict[str, str]
    void: dict[str, str]


UNKNOWN = Tenant("Unbekannte", "NOBODYS", "NONE-1", "Unbekannt", 9_900_000_000_001, 9_900_000_000_002)
_further = itertools.count(2)


@pytest.fixture(scope="module")
def own(service: RunningService) -> Tenant:
    return tenant(service, "Eigene", "EIGEN-1", "Eigenmann", 9_900_000_001_001, 9_900_000_001_002)


@pytest.fixture(scope="module")
def foreign(service: RunningService) -> Tenant:
    return tenant(service, "Fremde", "FREMD-1", "Fremdling", 9_900_000_002_001, 9_900_000_002_002)


def tenant(
    service: RunningService, organisation: str, external: str, person: str, participant: int, other: int
) -> Tenant:
    """A tenant with an account in a run, which was refused before, with a note, and with two market participants."""
    importer = service.importer(organisation=organisation)
    made = Tenant(organisation, importer.supplier, external, person, participant, other)
    refused = changed(made.account(), "x", "customers", 0, "landline")
    bulk(service, importer.api_key, refused, made.account())
    status = f"/v2/data-import/accounts/{made.supplier}/{external}/"
    wait_for(lambda: '"PROCESSED"' in send(service, "GET", status, importer.api_key).text, "it is processed")
    for name in ("create_delivery_note", "import_price_sheets"):
        for code in (participant, other):
            body = encoded(made.market_participant(code))
            path = NAMED["import_market_participant"].path
            assert send(service, "POST", path, importer.api_key, body).status in (200, 201)
        assert ask(service, name, made, importer.api_key).status == 201
    number = json.loads(send(service, "GET", status, importer.api_key).text)["service_identifier"]
    runs = f"/v2/data-import/runs/{made.supplier}/{RUN}/"
    wait_for(lambda: '"PROCESSED":1' in send(service, "GET", runs, importer.api_key).text, "its run has ended")
    return msgspec.structs.replace(made, account_number=number)


def bulk(service: RunningService, key: str, *lines: Any) -> Sent:
    return send(service, "POST", f"{BULK}?run={RUN}", key, ndjson(*lines))


def send(service: RunningService, method: str, path: str, credential: str, body: bytes | None = None) -> Sent:
    fields = {"Content-Type": "application/json"} | ({"Authorization": f"Token {credential}"} if credential else {})
    with closing(service.connection(60)) as connection:
        connection.request(method, path, body, fields)
        response = connection.getresponse()
        named = {name.lower(): value for name, value in response.headers.items()}
        return Sent(response.status, named, response.read().decode())


def ask(service: RunningService, name: str, about: Tenant, credential: str) -> Sent:
    """Call an operation about this tenant's data."""
    if name == "cancel_run_totals":
        ask(service, "read_run_totals", about, credential)
    operation = NAMED[name]
    path = operation.path.format(supplier=about.supplier, external=about.external, run=RUN)
    path += "?from=1&to=1" if name == "read_payload_difference" else ""
    return send(service, operation.method, path, credential, body_of(name, about))


def body_of(name: str, about: Tenant) -> bytes | None:
    """Body of a request about this tenant's data."""
    named = {"import_supplier": about.supplier, "external_account_number": about.external}
    match name:
        case "create_account":
            return encoded(about.account(next(_further)))
        case "validate_account":
            return encoded(about.account(2))
        case "create_accounts":
            return ndjson(about.account(next(_further)))
        case "import_market_participant":
            return encoded(changed(about.market_participant(about.participant), (), "contact_details"))
        case "import_price_sheets":
            return encoded({"price_sheets": [a_sheet(about.other_participant)]})
        case "search_accounts":
            return encoded({"q": about.person, "supplier": about.supplier})
        case "certify_run":
            return encoded({"import_supplier": about.supplier, "accounts": 99})
        case _ if record := next((kind for kind in RECORDS if name.startswith(f"create_{kind}")), ""):
            return ndjson(named | {record: RECORDS[record]})
        case _:
            return encoded(NAMED[name].example) if NAMED[name].method == "POST" else None


@pytest.fixture(scope="module")
def keys(service: RunningService, own: Tenant) -> dict[str, Keys]:
    """Keys and tokens of the own tenant, by role; those that are void, too."""
    return {letter: keys_of(service, own, role) for letter, role in ROLES.items()}


def keys_of(service: RunningService, own: Tenant, role: str) -> Keys:
    key, revoked = (service.importer(role=role, organisation=own.organisation, supplier=own.supplier) for _ in range(2))
    revoked.revoke()
    query = "mutation($input: ObtainTokenInput!) { obtainToken(input: $input) { token refreshToken } }"
    body = encoded({"query": query, "variables": {"input": {"organizationSecretKey": key.api_key}}})
    tokens = json.loads(send(service, "POST", "/v1/graphql/", "", body).text)["data"]["obtainToken"]
    return Keys(
        valid={"key": key.api_key, "access token": tokens["token"]},
        void={"refresh token": tokens["refreshToken"], "revoked key": revoked.api_key, "nothing": ""},
    )


@pytest.mark.asvs("V8.1.1")
def test_what_only_some_roles_may_do_is_written_down() -> None:
    """Independent of the rows: a row that admits more roles than these fails."""
    letters = {answer.roles for answer in ANSWERS.values()}
    assert letters == {"", "o", "io", "iso", "aso", "iaso"}
    narrow = {name for name, answer in ANSWERS.items() if answer.roles == "aso"}
    assert narrow == {"search_accounts", "read_history", "read_payload_difference", "pull_accounts"}
    writers = {name for name, answer in ANSWERS.items() if answer.roles in ("io", "iso")}
    assert {name for name in ANSWERS if NAMED[name].method == "POST"} - writers == {
        *("search_accounts", "obtain_token", "compare_accounts", "heal_import")
    }
    assert {name for name, answer in ANSWERS.items() if answer.roles == "o"} == {"heal_import"}
    public = {name for name, answer in ANSWERS.items() if not answer.roles}
    assert all(NAMED[name].tag in ("Tokens", "The service") for name in public)


@pytest.mark.promise("every-operation-role-own", "problems-show-errors-and-warnings", "cache-keeps-answer-may")
@pytest.mark.asvs("V3.2.1", "V3.4.4", "V8.2.1", "V10.3.2", "V10.4.11", "V14.2.2")
@pytest.mark.api_top_10("API5")
@each
def test_an_operation_admits_the_roles_of_its_row_to_their_own_data(
    service: RunningService, own: Tenant, foreign: Tenant, keys: dict[str, Keys], name: str
) -> None:
    for letter, (kind, credential) in ((r, one) for r in ROLES for one in keys[r].valid.items()):
        answered = ask(service, name, own, credential)
        assert name not in GUARDED or is_private(answered)
        if letter in (ANSWERS[name].roles or ROLES):
            assert answered.status == ANSWERS[name].own, (letter, kind, answered.text)
            assert not (NAMED[name].is_ndjson and "REFUSED" in answered.text)
            assert (answered.text == "[]") == (name in EMPTY)
        else:
            assert (answered.status, "permission_denied" in answered.text) == (403, True), (letter, kind)
        assert words_in(answered.text, foreign) == set()


@pytest.mark.promise("every-operation-role-own", "problems-show-errors-and-warnings")
@pytest.mark.asvs("V8.2.2", "V8.4.1")
@pytest.mark.api_top_10("API1")
@each
def test_what_is_foreign_is_answered_as_what_does_not_exist(
    service: RunningService, own: Tenant, foreign: Tenant, keys: dict[str, Keys], name: str
) -> None:
    before = events_of(service, foreign)
    for letter in ROLES:
        credential = keys[letter].valid["key"]
        of_foreign, of_unknown = (ask(service, name, about, credential) for about in (foreign, UNKNOWN))
        if letter in (ANSWERS[name].roles or ROLES):
            first = 201 if letter == "i" else 200
            expected = first if name == "import_market_participant" else ANSWERS[name].foreign
            assert (of_foreign.status, of_unknown.status) == (expected, expected), (letter, of_foreign.text)
        else:
            assert (of_foreign.status, of_unknown.status) == (403, 403)
        assert without_names(of_foreign.text, foreign) == without_names(of_unknown.text, UNKNOWN), letter
        sent = f"{NAMED[name].path} {(body_of(name, foreign) or b'').decode()} {foreign.supplier} {foreign.external}"
        assert words_in(of_foreign.text, foreign) - words_in(sent, foreign) == set(), letter
    assert events_of(service, foreign) == before


@pytest.mark.promise("every-operation-role-own", "cache-keeps-answer-may")
@pytest.mark.api_top_10("API2")
@pytest.mark.parametrize("name", GUARDED)
def test_an_operation_admits_nobody_without_a_valid_credential(
    service: RunningService, own: Tenant, foreign: Tenant, keys: dict[str, Keys], name: str
) -> None:
    void = {credential: kind for letter in ROLES for kind, credential in keys[letter].void.items()}
    for (credential, kind), about in itertools.product(void.items(), (own, foreign)):
        answered = ask(service, name, about, credential)
        assert (answered.status, is_private(answered)) == (401, True), kind
        assert words_in(answered.text, foreign) == set()


def is_private(answered: Sent) -> bool:
    """Return True if no cache may keep the answer, and no browser may guess its type."""
    return (answered.fields["cache-control"], answered.fields["x-content-type-options"]) == ("no-store", "nosniff")


@pytest.mark.promise("every-operation-role-own")
def test_an_open_stream_of_a_run_tells_nothing_of_a_run_of_the_same_name(
    service: RunningService, own: Tenant, foreign: Tenant, keys: dict[str, Keys]
) -> None:
    mine, theirs = (service.importer(organisation=o.organisation, supplier=o.supplier) for o in (own, foreign))
    bulk(service, mine.api_key, own.account(next(_further)))
    connection = service.connection(60)
    path = NAMED["follow_run"].path.format(supplier=own.supplier, run=RUN)
    connection.request("GET", path, headers={"Authorization": f"Token {mine.api_key}"})
    response = connection.getresponse()
    first = response.readline()
    bulk(service, theirs.api_key, *(foreign.account(next(_further)) for _ in range(20)))
    text = (first + response.read()).decode()
    connection.close()
    record = json.loads(text.rpartition("data: ")[2])
    assert (record["import_supplier"], record["total"]) == (own.supplier, accounts_of(service, own, mine))
    assert words_in(text, foreign) == set()


def accounts_of(service: RunningService, tenant: Tenant, importer: Importer) -> int:
    lines = send(service, "GET", f"/v2/data-import/runs/{tenant.supplier}/{RUN}/imports/", importer.api_key).text
    return len(lines.splitlines())


@pytest.mark.promise("every-operation-role-own")
def test_a_line_about_a_foreign_supplier_is_refused_in_a_body_that_is_open(
    service: RunningService, own: Tenant, foreign: Tenant, keys: dict[str, Keys]
) -> None:
    before = events_of(service, foreign)
    connection = service.connection(60)
    connection.putrequest("POST", BULK)
    connection.putheader("Authorization", f"Token {keys['i'].valid['key']}")
    connection.putheader("Transfer-Encoding", "chunked")
    connection.endheaders()
    for account in (own.account(next(_further)), foreign.account(next(_further)), own.account(next(_further))):
        line = ndjson(account)
        connection.send(b"%x\r\n%s\r\n" % (len(line), line))
    connection.send(b"0\r\n\r\n")
    receipts = [json.loads(line) for line in connection.getresponse().read().splitlines()]
    connection.close()
    assert [one["status"] for one in receipts[:-1]] == ["PENDING", "REFUSED", "PENDING"]
    assert events_of(service, foreign) == before


def events_of(service: RunningService, tenant: Tenant) -> int:
    """Number of events in the streams of the tenant's supplier and of its market data."""
    query = "SELECT count(*) FROM events WHERE supplier = %s OR starts_with(split_part(stream, '/', 2), %s)"
    with psycopg.connect(admin_url(service)) as connection:
        [(number,)] = connection.execute(query, (tenant.supplier, tenant.organisation)).fetchall()
    return int(number)


def words_in(text: str, tenant: Tenant) -> set[str]:
    """The tenant's secrets that a text holds."""
    return {secret for secret in tenant.secrets if secret in text}


def without_names(text: str, tenant: Tenant) -> str:
    """The text without what was sent of the tenant, and without times and ids of the request."""
    for name in sorted(map(str, (*tenant.secrets, tenant.participant, tenant.other_participant)), key=len)[::-1]:
        text = text.replace(name, "…")
    return re.sub(r'"(pid|request_id|line|external_account_number)":\s*("[^"]*"|\d+)', "…", text)
