"""A restore revokes access that ended after the backup, and holds all other access until an operator confirms it."""

import hashlib
import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import httpx
import psycopg
import pytest
import zstandard

from console.access.passwords import HASHER
from embedded.postgres import PostgresUrls
from eventstore.aggregates.supplier import ChangeSupplierStatus
from eventstore.aggregates.supplier import stream_of as supplier_stream
from eventstore.clock import now
from eventstore.events import Metadata, origin
from eventstore.log.answers import Answer
from eventstore.log.ledger import Ledger
from projections import INLINE
from projections.auxiliary.typed_reasons import TypedReason, new_reason_id, write_reason
from projections.auxiliary.user_details import find_user_details, set_password_hash
from tests.support.console import AUTHORITY, csrf_in
from tests.support.databases import cloned, drop
from tests.support.make import an_account, changed
from tests.support.running import RunningService, environment_on, wait_for
from tests.support.serving import running
from tests.support.staging import stage
from tests.support.verbs import Verbs
from workers.operations import create_user, new_details

_numbers = count(1)
USERS = {"kept@example.org": "a long horse of mine", "leaver@example.org": "another horse of hers"}
CANARIES = {
    "person": "Kanarienvogel",
    "run": "run of Frau Gelbfink",
    "request": "request-of-Girlitz",
    "answer": "answer to Zeisig",
    "reason": "because of Stieglitz",
    "user": "Hänfling",
    **{email: email for email in USERS},
}
"""Values that a backup without its keys must not show, by the place they were written to."""


class Place:
    """A database, a place for its checkpoints, and its verbs."""

    def __init__(self, urls: PostgresUrls, folder: Path) -> None:
        self.urls = urls
        self.cli = Verbs(environment_on(urls, folder))

    def new_key(self, organisation: str) -> str:
        return self.cli("key", "create", organisation, "--supplier", "NORDWIND").strip()

    def ledger(self) -> Ledger:
        return Ledger(self.urls.admin, views=INLINE)


@pytest.fixture
def old(database: PostgresUrls, folder: Path) -> Place:
    """A service with two keys and two users, and everything that a backup must not show."""
    place = Place(database, folder / "old")
    place.cli("supplier", "create", "NORDWIND")
    ledger = place.ledger()
    for email, password in USERS.items():
        details = new_details(email, "Hänfling", "Nordwind")
        user_id = details.user_id
        create_user(ledger, details, "support", ["*"], by="t")
        with ledger.connection() as connection:
            set_password_hash(connection, AUTHORITY, user_id, HASHER.hash(password), now())
    token = origin.set(Metadata("request-of-Girlitz"))
    stage(ledger, changed(an_account(), "Kanarienvogel", "customers", 0, "family_name"), run="run of Frau Gelbfink")
    origin.reset(token)
    answer = Answer("org POST /x key", hashlib.sha256(b"r").digest(), 201, b'{"said": "answer to Zeisig"}')
    reason = TypedReason(
        reason=new_reason_id(), user_id=user_id, subject=supplier_stream("NORDWIND"), at=now(),
        content="because of Stieglitz",
    )  # fmt: skip
    ledger.execute(
        supplier_stream("NORDWIND"), ChangeSupplierStatus(status="paused", reason=reason.reason), at=now(), by="t",
        answer=answer, write_rows=lambda connection, events: write_reason(connection, reason),
    )  # fmt: skip
    ledger.close()
    return place


@pytest.fixture
def new(postgres: PostgresUrls, folder: Path) -> Iterator[Place]:
    urls = cloned(postgres, f"restored_{next(_numbers)}")
    yield Place(urls, folder / "new")
    drop(urls)


def status_of(service: RunningService, key: str) -> int:
    answer, _ = service.request(
        "GET", "/v1/data-import/all-account-import-processes/NORDWIND/", headers={"Authorization": f"Token {key}"}
    )
    return answer.status


def signs_in(service: RunningService, email: str, password: str) -> bool:
    with httpx.Client(base_url=service.base_url) as browser:
        fields = {"csrf": csrf_in(browser.get("/console/sign-in/").text), "email": email, "password": password}
        return browser.post("/console/sign-in/", data=fields).status_code == 303


def unpacked(folder: Path) -> bytes:
    """Every byte of a backup's files, as they lie there and decompressed where that is possible."""
    content = b""
    for file in sorted(folder.iterdir()):
        content += file.read_bytes()
        if file.suffix == ".zst":
            try:
                content += zstandard.ZstdDecompressor().decompressobj().decompress(file.read_bytes())
            except zstandard.ZstdError:
                continue
    return content


def shown_in(content: bytes) -> set[str]:
    """Places of the canaries in the content, as text or as hexadecimal digits of a column of bytes."""
    return {
        where
        for where, canary in CANARIES.items()
        if canary.encode() in content or canary.encode().hex().encode() in content
    }


@pytest.mark.promise("backup-keys-kept-apart")
@pytest.mark.asvs("V14.2.4")
def test_a_backup_whose_keys_are_kept_apart_shows_nothing_of_persons(old: Place, folder: Path) -> None:
    old.cli("backup", str(folder / "together"))
    old.cli("backup", str(folder / "main"), "--keys", str(folder / "keys"), DATABASE_URL=old.urls.roles["api"])
    together, main = unpacked(folder / "together"), unpacked(folder / "main")
    assert shown_in(together) == set(CANARIES) - {"person"}, "its absence elsewhere would show nothing"
    assert shown_in(main) == set()
    assert b"NORDWIND" not in main
    assert b"import/" not in main
    api = old.urls.roles["api"]
    words = ("backup", "--keys", str(folder / "theirs"), str(folder / "other"))
    assert "permission denied" in old.cli(*words, code=1, DATABASE_URL=api, DATABASE_ADMIN_URL=api)
    assert not (folder / "other" / "manifest.json").exists()


def test_a_backup_without_keys_holds_no_secrets_and_keys_of_another_log_open_none(
    old: Place, new: Place, folder: Path
) -> None:
    old.cli("backup", str(folder / "main"), "--without-keys")
    main = unpacked(folder / "main")
    left = {"run", "request"}
    """Texts of importers that are in events."""
    assert shown_in(main) == left
    old.cli("backup", str(folder / "apart"), "--keys", str(folder / "keys"))
    with psycopg.connect(new.urls.admin) as connection:  # the template's key is that of every test
        connection.execute("UPDATE platform.account_number_key SET key = sha256(key)")
    new.cli("backup", str(folder / "other"), "--keys", str(folder / "foreign"))
    refused = new.cli("restore", str(folder / "apart"), "--keys", str(folder / "foreign"), code=1)
    assert "--keys must name a folder of keys of this log" in refused
    assert "rebuilt" in new.cli("restore", str(folder / "main"), "--without-keys")


@pytest.mark.promise("backup-keys-kept-apart")
@pytest.mark.api_top_10("API2")
def test_a_restored_backup_lets_nobody_in_before_an_operator_confirms(old: Place, new: Place, folder: Path) -> None:
    kept, revoked = old.new_key("Nordwind"), old.new_key("Former")
    old.cli("backup", str(folder / "main"))
    old.cli("key", "revoke", revoked.split("_")[1])
    output = new.cli("restore", str(folder / "main"), "--verify")
    assert "ACCESS IS HELD  2 keys and 2 users wait" in output
    assert f"key {kept.split('_')[1]} of Nordwind waits for confirmation." in output
    with running(new.urls) as service:
        assert (status_of(service, kept), status_of(service, revoked)) == (401, 401)
        assert not any(signs_in(service, *who) for who in USERS.items())
        new.cli("seal", "--accept", "--reason", "the old disk is lost")
        new.cli("key", "confirm", kept.split("_")[1])
        new.cli("user", "enable", "kept@example.org")
        wait_for(lambda: status_of(service, kept) == 200, "the confirmed key is known")
        assert status_of(service, revoked) == 401
        assert not signs_in(service, "kept@example.org", USERS["kept@example.org"])
    new.cli("verify", "--all")
    new.cli("projections", "verify", "--all")


def test_newer_keys_stand_above_those_in_the_backup_itself(old: Place, new: Place, folder: Path) -> None:
    kept, revoked = old.new_key("Nordwind"), old.new_key("Former")
    old.cli("backup", str(folder / "together"))
    old.cli("key", "revoke", revoked.split("_")[1])
    old.cli("backup", str(folder / "later"), "--keys", str(folder / "newest"))
    new.cli("restore", str(folder / "together"), "--keys", str(folder / "newest"), "--confirm-access")
    listed = [json.loads(line) for line in new.cli("key", "list", "--json").splitlines()]
    assert {key["key_id"]: bool(key["revoked_at"]) for key in listed} == {
        kept.split("_")[1]: False,
        revoked.split("_")[1]: True,
    }


@pytest.mark.promise("backup-keys-kept-apart")
def test_what_ended_after_the_backup_stays_ended_by_the_newest_keys(old: Place, new: Place, folder: Path) -> None:
    kept, revoked = old.new_key("Nordwind"), old.new_key("Former")
    old.cli("backup", str(folder / "main"), "--keys", str(folder / "of the night"))
    old.cli("key", "revoke", revoked.split("_")[1])
    old.cli("user", "disable", "leaver@example.org")
    old.cli("user", "role", "kept@example.org", "--role", "auditor")
    ledger = old.ledger()
    with ledger.connection() as connection:
        [user] = find_user_details(connection, "kept@example.org")
        set_password_hash(connection, AUTHORITY, user.user_id, HASHER.hash("a newer horse of mine"), now())
    later = stage(ledger, an_account(number=77))
    ledger.close()
    old.cli("backup", str(folder / "later"), "--keys", str(folder / "newest"))
    output = new.cli(
        "restore", str(folder / "main"), "--keys", str(folder / "newest"), "--confirm-access", "--verify", "--json"
    )
    result = json.loads(output)
    assert (result["is_verified"], result["access"]["ended_again"], result["problems"]) == (True, 3, [])
    assert (result["erased_again"], result["warning"]) == ([], None)
    new.cli("seal", "--accept", "--reason", "the old disk is lost")
    with running(new.urls) as service:
        assert (status_of(service, kept), status_of(service, revoked)) == (200, 401)
        assert signs_in(service, "kept@example.org", "a newer horse of mine")
        assert not signs_in(service, "kept@example.org", USERS["kept@example.org"])
        assert not signs_in(service, "leaver@example.org", USERS["leaver@example.org"])
    ledger = new.ledger()
    assert stage(ledger, an_account(number=77)) == later, "an account from after the backup is taken in anew"
    ledger.close()
    listed = [json.loads(line) for line in new.cli("user", "list", "--json").splitlines()]
    assert {user["email"]: user["role"] for user in listed}["kept@example.org"] == "auditor"
