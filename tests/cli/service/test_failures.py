"""Errors of verbs: one sentence on two lines of standard error at most, which names the argument; exit code 1."""

import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.service.failures import failure_sentence
from cli.service.listening import base_url_of, refuse_taken
from embedded.postgres import PostgresUrls
from eventstore.errors import StoreUnavailable, reason_of
from tests.support.databases import renamed
from tests.support.running import free_port
from tests.support.verbs import run_verb

SECRET = "sesame-sesame"
Typed = Callable[..., subprocess.CompletedProcess[str]]
VERBS = [
    "supplier list",
    "supplier create NORDWIND",
    "key list",
    "history NORDWIND NW-1",
    "status NORDWIND",
    "export --supplier NORDWIND -o /tmp/never.zst",
    "status NORDWIND --refusals",
    "cancel NORDWIND --all",
    "retry NORDWIND --all",
    "erase NORDWIND NW-1 --reason x --yes",
    "seal",
    "verify",
    "proof NORDWIND NW-1 -o /tmp/never.zip",
    "backup /tmp/never",
    "projections",
    "projections heal NORDWIND NW-1",
    "projections verify --all",
]


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Typed:
    """Type a command, without what this machine has set."""
    for name in ("DATABASE_URL", "DATABASE_ADMIN_URL", "REDIS_URL", "IMPORTLEDGER_SEALING_KEY"):
        monkeypatch.delenv(name, raising=False)
    return lambda words, environment: run_verb(*words.split(), environment=environment)


@pytest.fixture
def here(typed: Typed, database: PostgresUrls, folder: Path) -> dict[str, str]:
    """Settings of a database with the supplier NORDWIND."""
    environment = {
        "DATABASE_URL": database.service,
        "DATABASE_ADMIN_URL": database.admin,
        "IMPORTLEDGER_DATA_DIR": str(folder),
    }
    assert typed("supplier create NORDWIND", environment).returncode == 0
    return environment


def assert_one_sentence(result: subprocess.CompletedProcess[str], *named: str) -> None:
    assert (result.returncode, result.stdout) == (1, ""), result.stderr
    assert result.stderr.startswith("importledger: ")
    assert len(result.stderr.splitlines()) <= 2, result.stderr
    assert "Traceback" not in result.stderr
    assert SECRET not in result.stderr
    for name in named:
        assert name in result.stderr


@pytest.mark.promise("unknown-supplier-wrong-case")
def test_a_supplier_in_the_wrong_case_is_named_with_the_right_one(typed: Typed, here: dict[str, str]) -> None:
    named = [words.replace("NORDWIND", "nordwind") for words in VERBS if "NORDWIND" in words and "create" not in words]
    for words in (
        *named,
        "supplier show nordwind",
        "supplier set nordwind strictness=strict",
        "supplier status nordwind paused",
        "key create Org --supplier nordwind",
        "status nordwind NW-1",
        "status nordwind --as-of 1",
        "cancel nordwind NW-1",
        "retry nordwind --code x",
    ):
        assert_one_sentence(typed(words, here), "nordwind", "but there is NORDWIND")


@pytest.mark.promise("unknown-supplier-wrong-case")
def test_an_import_that_is_not_there_is_named(typed: Typed, here: dict[str, str]) -> None:
    named = [words for words in VERBS if words.partition("NORDWIND ")[2].startswith("NW-1")]
    for words in (*named, "status NORDWIND NW-1", "cancel NORDWIND NW-1", "retry NORDWIND NW-1"):
        assert_one_sentence(typed(words, here), "no import of NW-1 for NORDWIND")
    assert_one_sentence(typed("key revoke nothing", here), "no key nothing")


@pytest.mark.promise("wrong-folder-whatever-typed")
def test_a_folder_that_is_not_there_is_named(typed: Typed, here: dict[str, str]) -> None:
    for words in (
        "export --supplier NORDWIND -o /proc/none/x.zst",
        "backup /proc/none/x",
        "restore /proc/none/x",
        "replay /proc/none/x",
    ):
        assert_one_sentence(typed(words, here), "/proc/none")
    up = typed(f"up --data-dir /proc/none/x --port {free_port()}", {"IMPORTLEDGER_DATA_DIR": "/proc/none"})
    assert_one_sentence(up, "/proc/none")


@pytest.mark.promise("stopped-service-database-likewise")
@pytest.mark.parametrize("words", [*VERBS, "migrate", "up --port PORT"])
def test_a_stopped_postgres_is_named_with_host_and_port(typed: Typed, folder: Path, words: str) -> None:
    port = free_port()
    environment = {
        "DATABASE_URL": f"postgresql://someone:{SECRET}@127.0.0.1:{port}/ledger",
        "IMPORTLEDGER_DATA_DIR": str(folder),
        "IMPORTLEDGER_SEALING_KEY": "A" * 43,
    }
    result = typed(words.replace("PORT", str(free_port())), environment)
    assert_one_sentence(result, f"127.0.0.1:{port}", "DATABASE_URL", "refused")


@pytest.mark.promise("stopped-service-database-likewise")
@pytest.mark.parametrize("words", VERBS)
def test_a_service_that_was_stopped_is_named_with_its_folder(typed: Typed, folder: Path, words: str) -> None:
    (folder / "secrets").mkdir()
    url = f"postgresql://someone:{SECRET}@/ledger?host={folder}"
    (folder / "secrets" / "connections.json").write_text(f'{{"database_url": "{url}", "admin_url": "{url}"}}')
    environment = {"IMPORTLEDGER_DATA_DIR": str(folder), "IMPORTLEDGER_SEALING_KEY": "A" * 43}
    assert_one_sentence(typed(words, environment), str(folder), "is not running")


@pytest.mark.promise("taken-port-wrong-host")
def test_a_wrong_host_a_wrong_password_and_a_wrong_database_are_named(
    typed: Typed, database: PostgresUrls, folder: Path
) -> None:
    role, _, rest = database.service.removeprefix("postgresql://").partition(":")
    before, _, after = database.service.rpartition("/test_")
    for url, named in (
        (f"postgresql://u:{SECRET}@nowhere.invalid/x", ("nowhere.invalid", "DATABASE_URL")),
        (f"postgresql://{role}:{SECRET}@{rest.partition('@')[2]}", ("password authentication failed", role)),
        (f"{before}/nothing?{after.partition('?')[2]}", ('database "nothing" does not exist',)),
        (renamed(database.admin, "postgres"), ("/postgres", "importledger migrate")),  # an empty one
    ):
        result = typed("supplier list", {"IMPORTLEDGER_DATA_DIR": str(folder), "DATABASE_URL": url})
        assert_one_sentence(result, *named)


@pytest.mark.promise("up-checks-settings-every")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("IMPORTLEDGER_SMTP_URL", f"smtp://u:{SECRET}@mail.example"),  # without IMPORTLEDGER_MAIL_FROM
        ("IMPORTLEDGER_SMTP_URL", f"smtp://u:{SECRET}@"),
        ("IMPORTLEDGER_MAIL_FROM", SECRET),
        ("IMPORTLEDGER_SEALING_KEY", SECRET),
        ("IMPORTLEDGER_TOKEN_KEY", SECRET),
        ("IMPORTLEDGER_CHECKPOINTS_URL", f"file://{SECRET}"),
        ("IMPORTLEDGER_CHECKPOINTS_URL", "s3://"),
        ("DATABASE_URL", f"postgresql://u:{SECRET}@h:port/x"),
        ("DATABASE_URL", f"postgresql://h/x?{SECRET}=1"),
        ("DATABASE_ADMIN_URL", f"postgresql://u:{SECRET}@h/x"),  # without DATABASE_URL
        ("REDIS_URL", f"redis://:{SECRET}@h:port/0"),
        ("REDIS_URL", f"redis://:{SECRET}@127.0.0.1:1/0"),
        ("IMPORTLEDGER_NICENESS", "many"),
    ],
)
def test_up_checks_the_settings_of_every_role_before_it_starts_anything(
    typed: Typed, folder: Path, name: str, value: str
) -> None:
    environment = {name: value, "IMPORTLEDGER_DATA_DIR": str(folder / "new")}
    assert_one_sentence(typed(f"up --port {free_port()}", environment), name)
    assert not (folder / "new").exists()


@pytest.mark.promise("up-checks-settings-every")
def test_a_sealing_key_that_was_spoilt_in_the_data_folder_is_named(typed: Typed, folder: Path) -> None:
    (folder / "secrets").mkdir()
    (folder / "secrets" / "sealing_key").write_text(SECRET)
    result = typed(f"up --port {free_port()}", {"IMPORTLEDGER_DATA_DIR": str(folder)})
    assert_one_sentence(result, str(folder / "secrets" / "sealing_key"), "base64url")


@pytest.mark.promise("taken-port-wrong-host")
def test_a_port_that_is_taken_and_a_host_that_is_not_ours_are_named(typed: Typed, folder: Path) -> None:
    own = {"IMPORTLEDGER_DATA_DIR": str(folder / "new"), "DATABASE_URL": "postgresql://127.0.0.1:1/x"}
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for verb in ("up", "api"):
            assert_one_sentence(typed(f"{verb} --port {port}", own), f"port {port} is taken")
            result = typed(f"{verb} --port {free_port()}", own | {"IMPORTLEDGER_METRICS_PORT": port})
            assert_one_sentence(result, f"port {port} is taken. Choose another IMPORTLEDGER_METRICS_PORT.")
            for host in ("203.0.113.9", "nowhere.invalid"):
                assert_one_sentence(typed(f"{verb} --port {free_port()} --host {host}", own), host, "--host")
    refuse_taken("127.0.0.1", free_port())
    assert base_url_of("::1", 80) == "http://[::1]:80"


@pytest.mark.promise("wrong-folder-whatever-typed")
@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("nonsense", "nonsense"),
        ("history NORDWIND", "EXTERNAL"),
        ("up --port 99999", "99999"),
        ("up --port http", "http"),
        ("supplier set NORDWIND strictness=loud", "strictness=loud"),
        ("supplier set NORDWIND colour=red", "there is no setting"),
        ("supplier set NORDWIND strictness", "strictness="),
        ("supplier set NORDWIND dry-run-only=perhaps", "dry-run-only="),
        ("supplier set NORDWIND documents-root=/etc", "documents-root="),
        ("supplier create a/b", "letters, digits"),
        ("supplier status NORDWIND asleep", "asleep"),
        ("key create Org", "--supplier"),
        ("status NORDWIND --as-of yesterday", "yesterday"),
        ("cancel NORDWIND", "EXTERNAL"),
        ("cancel NORDWIND 1 --all", "not both"),
        ("retry NORDWIND --all --code x", "not both"),
        ("projections heal NORDWIND", "EXTERNAL"),
        ("projections rebuild nope", "nope"),
        ("projections rebuild", "--all"),
    ],
)
def test_what_is_typed_wrong_is_one_sentence_and_where_the_help_is(
    typed: Typed, folder: Path, words: str, named: str
) -> None:
    assert_one_sentence(typed(words, {"IMPORTLEDGER_DATA_DIR": str(folder)}), named, "--help`.")


def test_what_nobody_has_expected_says_how_to_see_more() -> None:
    assert failure_sentence(ZeroDivisionError()) is None
    result = run_verb("supplier", "list", environment={"IMPORTLEDGER_DATA_DIR": "\udcff"})
    assert (result.returncode, "Traceback" in result.stderr) == (1, False)


@pytest.mark.promise("stopped-service-database-likewise")
def test_a_database_that_goes_away_meanwhile_is_a_sentence() -> None:
    assert failure_sentence(StoreUnavailable("couldn't get a connection after 0.70 sec")) == (
        "The database has stopped answering. Repeating the command is safe."
    )
    assert reason_of(OSError("a\nconnection to server at x failed: FATAL:  no room.\n")) == "no room"
