"""The Python client against a service, and against servers that are broken or hostile."""

import contextlib
import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from importledger_client import (
    AlreadyImported,
    Client,
    Failure,
    ImportLedgerError,
    JobProgress,
    LatestError,
    Misconfigured,
    NotAllowed,
    NotFound,
    Refused,
    Unavailable,
    batches,
    protocol,
)
from importledger_client.batches import MAX_BYTES, MAX_UNDERWAY_BYTES, Batch
from importledger_client.commands import main, watch
from importledger_client.commands.reconcile import line_of
from importledger_client.display import visible
from importledger_client.manifest import FORMAT, Counting
from importledger_client.notes import load_note
from importledger_client.protocol import TryLater, lines_of
from importledger_client.pushing import CHECKED_FROM
from tests.support.importbook import importbook
from tests.support.make import an_account, changed, encoded
from tests.support.running import Importer, RunningService, free_port, wait_for

SLOW_S = 60.0
OK = itertools.repeat(200)


def test_an_account_is_corrected_created_followed_and_not_created_twice(
    importer: Importer, access: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in access.items():
        monkeypatch.setenv(name, value)
    account = an_account(importer.supplier)
    number = account["external_account_number"]
    with Client() as client:
        for send in (client.validate, client.create):
            with pytest.raises(Refused) as wrong:
                send(changed(account, "+49 12", "customers", 0, "landline"))
            (error,) = wrong.value.errors
            assert (error.attr, error.code) == ("customers.0.landline", "invalid_phone_number")
            assert error.detail in str(wrong.value)
        assert client.validate(account).status == "VALID"
        with pytest.raises(NotFound):
            client.status(importer.supplier, number)
        receipt = client.create(account)
        assert (receipt.status, receipt.external_account_number) == ("PENDING", number)
        ended = client.wait(importer.supplier, number, timeout_s=SLOW_S)
        assert ended.status == "PROCESSED"
        with pytest.raises(AlreadyImported) as refused:
            client.create(changed(account, "Other", "billing_address4"))
        assert refused.value.service_identifier == ended.service_identifier
        assert refused.value.code == "account_import_process_already_imported"


def test_a_wrong_key_or_address_is_named(service: RunningService) -> None:
    with Client(service.base_url, "ilk_wrong") as client, pytest.raises(NotAllowed):
        client.status("X", "Y")
    with (
        Client(f"{service.base_url}/v2", service.importer().api_key) as client,
        pytest.raises(ImportLedgerError, match="check the address") as refused,
    ):
        client.run("S", "x")
    assert not isinstance(refused.value, NotFound)


@pytest.mark.parametrize("place", ["localhost:99999", "localhost:0", "localhost:port", "localhost:1 x", ":8000"])
def test_an_address_that_no_request_can_reach_is_refused(place: str) -> None:
    with pytest.raises(Misconfigured, match="must have a host, and a port must be between 1 and 65535"):
        Client(f"https://{place}", "k")


def test_a_service_that_is_not_there_is_unavailable() -> None:
    waits: list[str] = []
    client = Client(
        f"http://127.0.0.1:{free_port()}", "k", first_retry_timeout_s=0.5, on_wait=lambda why, _: waits.append(why)
    )
    with client, pytest.raises(Unavailable, match=r"cannot be used: .* Is the address right"):
        client.runs("X")
    assert waits


def test_a_failure_lists_codes_and_paths() -> None:
    detail = "The account could not be validated: some_code@statements.0.statement_path, other@customers.1.email"
    failure = Failure(latest_error=LatestError("account_failed_validation", detail, "account_import"))
    assert [(error.code, error.attr) for error in failure.errors] == [
        ("some_code", "statements.0.statement_path"),
        ("other", "customers.1.email"),
    ]
    given_up = Failure(latest_error=LatestError("attempts_exhausted", "Ask a@b about it."))
    assert [(error.code, error.attr) for error in given_up.errors] == [("attempts_exhausted", "")]
    assert Failure().errors == ()


def test_empty_lines_count_and_are_not_sent(service: RunningService, importer: Importer) -> None:
    account = encoded(an_account(importer.supplier))
    lines = [account, b"", b" \n", "", b"\xef\xbb\xbf", account, b"{broken", b"\n"]
    with Client(service.base_url, importer.api_key) as client:
        receipts = list(client.push(lines, mode="validate"))
    assert [(receipt.line, receipt.status) for receipt in receipts] == [(1, "VALID"), (6, "VALID"), (7, "REFUSED")]


def test_a_service_that_answers_late_holds_few_bytes_of_a_book() -> None:
    """At first a batch has 32 lines. However many connections there are, few batches are read ahead of receipts."""
    read: list[int] = []

    def lines() -> Iterator[bytes]:
        for number in range(2_000):
            read.append(number)
            yield b"x" * 65_000

    def push(client: Client) -> None:
        with contextlib.suppress(Unavailable):
            list(client.push_batches(lines(), connections=64))

    def rests() -> bool:
        before = len(read)
        time.sleep(0.3)
        return len(read) == before

    silent = socket.create_server(("127.0.0.1", 0), backlog=128)
    with Client(f"http://127.0.0.1:{silent.getsockname()[1]}", "k", first_retry_timeout_s=0.1) as client:
        sender = threading.Thread(target=push, args=(client,))
        sender.start()
        wait_for(lambda: len(read) * 65_000 > MAX_UNDERWAY_BYTES, "the first lines are read")
        wait_for(rests, "no more lines are read")
        silent.close()
        sender.join()
    assert len(read) * 65_000 < MAX_UNDERWAY_BYTES + 2 * MAX_BYTES


def test_the_progress_of_a_job_is_reported_until_its_result_arrives() -> None:
    heard = list[JobProgress]()
    answers = iter([TOKEN, b'{"accounts": 10, "accounts_done": 4}', b'{"accounts": 2}'])
    with answering(lambda path: next(answers), statuses=[200, 202, 200]) as url, Client(url, "ilk_x") as client:
        assert client.totals("NORDWIND", "p", on_progress=heard.append) == {"accounts": 2}
    assert heard == [JobProgress(accounts=10, accounts_done=4)]
    assert line_of("r", heard[0]).startswith("r · 4 of 10 accounts added up")


# Keys stay secret


@pytest.mark.parametrize(
    ("url", "is_accepted"),
    [
        ("http://127.0.0.1:8000", True),
        ("http://127.8.9.1", True),
        ("http://[::1]:8000", True),
        ("http://localhost:8000/", True),
        ("https://ledger.example.org", True),
        ("http://ledger.example.org", False),
        ("http://10.0.0.5:8000", False),
        ("http://[fe80::1]", False),
        ("http://localhost.example.org", False),
        ("http://localhost@ledger.example.org", False),
        ("http://127.0.0.1.example.org", False),
        ("http://", False),
    ],
)
def test_a_key_is_not_sent_over_plain_http_to_another_machine(url: str, *, is_accepted: bool) -> None:
    if is_accepted:
        Client(url, "ilk_x")
        return
    with pytest.raises(Misconfigured, match="must begin with https://"):
        Client(url, "ilk_x")
    if url != "http://":
        Client(url, "ilk_x", insecure_http=True)
    refused = importbook("errors", "r", "--supplier", "S", access={"IMPORTLEDGER_URL": url, "IMPORTLEDGER_KEY": "k"})
    assert (refused.returncode, "--insecure-http" in refused.stderr) == (2, True)


def test_a_key_goes_neither_to_a_redirect_nor_to_a_proxy(
    service: RunningService, monkeypatch: pytest.MonkeyPatch
) -> None:
    importer, seen = service.importer(), list[str]()

    def record(path: str) -> bytes:
        seen.append(path)
        return b""

    with answering(record, statuses=itertools.repeat(307)) as url:
        with Client(url, "ilk_x") as client, pytest.raises(ImportLedgerError):
            client.status("S", "1")
        assert seen == ["/v1/graphql/"]
        monkeypatch.setenv("HTTP_PROXY", url)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        with Client(service.base_url, importer.api_key) as client, pytest.raises(NotFound):
            client.status(importer.supplier, "none")
        assert seen == ["/v1/graphql/"]


# Broken and hostile servers

MOVES = "\x1b[2J\u202e"
"""Clears the screen, and turns the order of letters."""
TOKEN = b'{"data": {"obtainToken": {"token": "t", "payload": {"exp": 99999999999}}}}'


@given(st.binary(), st.lists(st.integers(0, 60)))
def test_lines_do_not_depend_on_the_parts_they_come_in(content: bytes, cuts: list[int]) -> None:
    places = sorted({0, len(content), *(cut for cut in cuts if cut < len(content))})
    parts = [content[start:end] for start, end in itertools.pairwise(places)]
    assert b"\n".join(lines_of(parts)) == content.removesuffix(b"\n")


def test_a_line_or_answer_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "MAX_LINE_BYTES", 100)
    assert list(lines_of([b"x"] * 100)) == [b"x" * 100]
    with pytest.raises(ImportLedgerError, match="check the address"):
        list(lines_of([b"x"] * 101))
    monkeypatch.setattr(protocol, "MAX_ANSWER_BYTES", 10_000)
    refuse_runs(lambda path: TOKEN if "graphql" in path else b"[" + b" " * 1_000_000 + b"]")


@pytest.mark.parametrize("line", [0, 2, -1])
def test_a_receipt_of_another_line_is_none(line: int) -> None:
    batch = Batch([7, 8], [b"{}", b"{}"])
    batch.content()
    with pytest.raises(TryLater):
        batch.add_receipt(b'{"line":%d,"status":"PENDING"}' % line)


def test_an_answer_that_lacks_lines_is_not_requested_again() -> None:
    batch = Batch([1, 2], [b"{}", b"{}"])
    batch.content()
    batch.add_receipt(b'{"line":1,"external_account_number":"","status":"VALID"}')
    with pytest.raises(TryLater):
        batch.check()
    batch.add_receipt(b'{"summary":{"lines":1,"accepted":1,"replayed":0,"refused":0}}')
    with pytest.raises(ImportLedgerError, match="fewer lines"):
        batch.check()


@pytest.mark.parametrize(
    ("token", "answer"),
    [
        *(
            (token, b"")
            for token in (b"", b"{}", b"[]", b"null", b'{"data": null}', b'{"errors": [1]}', b"\xff", b"<p>")
        ),
        (b'{"data": {"obtainToken": {}}}', b""),
        *((TOKEN, answer) for answer in (b"{}", b"[1]", b'[{"run": 1}]', b"[" * 10_000, b"\xff\xfe")),
    ],
)
def test_an_answer_of_another_service_is_named(token: bytes, answer: bytes) -> None:
    refuse_runs(lambda path: token if "graphql" in path else answer)


def test_a_port_of_another_program_is_named() -> None:
    refuse_runs(lambda path: b"", statuses=itertools.repeat(501))


def test_a_key_that_the_service_refuses_gives_a_sentence_of_importbook(capsys: pytest.CaptureFixture[str]) -> None:
    denied = b'{"errors": [{"message": "no \\u001b[2J\\u202e", "extensions": null}]}'
    with answering(lambda path: denied) as url:
        assert main.run(["watch", "book", "--supplier", "NORDWIND", "--url", url, "--key", "ilk_x"]) == 2
    assert "must be one that the operator gave you" in capsys.readouterr().err


def test_a_certificate_without_totals_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    Path("m.json").write_bytes(msgspec.json.encode({"format": FORMAT, **Counting().manifest()}))
    with answering(lambda path: b"{}" if "certificate" in path else hostile(path)) as url:
        words = ["book", "--manifest", "m.json", "--supplier", "NORDWIND", "--url", url, "--key", "ilk_x"]
        assert main.run(["reconcile", *words]) == 2
    assert "check the address" in capsys.readouterr().err


def test_receipts_that_arrive_after_a_problem_are_counted(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first answer lacks receipts. The second request, which is under way, has its receipts."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(batches, "MAX_LINES", 2)
    accounts = [{"external_account_number": f"{n}", "import_supplier": "NORDWIND"} for n in range(4)]
    Path("book.ndjson").write_bytes(b"".join(msgspec.json.encode(account) + b"\n" for account in accounts))
    is_second_read, requests = threading.Event(), itertools.count(1)

    def answer(path: str) -> bytes:
        if "graphql" in path:
            return TOKEN
        if next(requests) == 1:
            is_second_read.wait(SLOW_S)
            return b'{"summary":{}}'
        is_second_read.set()
        receipts = [{"line": 1, "status": "PENDING"}, {"line": 2, "status": "REFUSED", "code": "blank"}]
        return b"".join(msgspec.json.encode(receipt) + b"\n" for receipt in receipts)

    with answering(answer) as url:
        words = ["--run", "go", "--json", "--connections", "2", "--url", url, "--key", "ilk_x"]
        assert main.run(["push", "book.ndjson", *words]) == 1
    summary = msgspec.json.decode(capsys.readouterr().out)["summary"]
    assert summary == {"lines": 2, "accepted": 1, "replayed": 0, "refused": 1, "warned": 0}


def test_a_push_waits_until_the_runs_of_all_its_suppliers_have_its_accounts(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """However late the service lists the runs. The accounts of the second supplier begin far down in the book."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(watch, "LATE_S", 0.0)
    monkeypatch.setattr(watch, "PAUSE_S", 0.0)
    monkeypatch.setattr(batches, "MAX_LINES", 32)
    suppliers = ["NORDWIND"] * CHECKED_FROM + ["SUED", "TYPO"]
    accounts = [{"external_account_number": f"{n}", "import_supplier": name} for n, name in enumerate(suppliers)]
    Path("book.ndjson").write_bytes(b"".join(msgspec.json.encode(account) + b"\n" for account in accounts))
    following = iter(range(len(accounts)))

    def receipts() -> bytes:
        lines = itertools.islice(following, 32)
        receipts = [{"line": n % 32 + 1, "status": "PENDING" if suppliers[n] != "TYPO" else "REFUSED"} for n in lines]
        return b"".join(msgspec.json.encode(receipt) + b"\n" for receipt in receipts)

    def states(total: int, ended: str) -> Iterator[bytes]:
        for by_status in ({}, {"PENDING": 1}, {"PENDING": total}, {ended: total}):
            state = {"run": "go", "import_supplier": "", "total": sum(by_status.values()), "by_status": by_status}
            yield msgspec.json.encode(state)

    runs = {"NORDWIND": states(CHECKED_FROM, "PROCESSED"), "SUED": states(1, "ERRORED")}

    def answer(path: str) -> bytes:
        if "graphql" in path:
            return TOKEN
        return receipts() if "bulk" in path else next(runs[path.split("/")[-3]])

    statuses = itertools.chain([200], [200] * 4, [404], [200] * 3, [404], [200] * 3)
    with answering(answer, statuses=statuses) as url:
        words = ["--run", "go", "--wait", "--connections", "1", "--url", url, "--key", "ilk_x"]
        assert main.run(["push", "book.ndjson", *words]) == 1
    shown = capsys.readouterr().out
    assert "run go · NORDWIND · 100 accounts · PROCESSED 100" in shown
    assert "run go · SUED · 1 account · ERRORED 1" in shown
    note = load_note("go", Path())
    assert note is not None
    assert note.suppliers == ["NORDWIND", "SUED"]


@pytest.mark.parametrize("verb", ["watch", "errors", "push", "reconcile"])
def test_texts_of_a_server_are_escaped_before_they_reach_the_terminal(
    verb: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    Path("book.ndjson").write_text('{"external_account_number": "1", "import_supplier": "NORDWIND"}\n')
    words = {"push": ["book.ndjson", "--run", "book"], "reconcile": ["book", "--manifest", "m.json"]}
    main.run(["manifest", "book.ndjson", "-o", "m.json"])
    with answering(hostile) as url:
        named = words.get(verb, ["book"])
        assert main.run([verb, *named, "--supplier", "NORDWIND", "--url", url, "--key", "ilk_x"]) in (0, 1)
    shown = "".join(capsys.readouterr())
    assert "\\x1b[2J\\u202e" in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert visible("a\u200bd\re\tf\n") == "a\\u200bd\\re\tf\n"


def hostile(path: str) -> bytes:
    """The answer of a server whose every text would move the cursor."""
    problem = {"attr": MOVES, "code": MOVES, "detail": MOVES, "path": MOVES, "number": 1}
    if "graphql" in path:
        return TOKEN
    if "bulk" in path:
        receipt = {"line": 1, "status": "REFUSED", "code": MOVES, "errors": [problem], "warnings": [problem]}
        return msgspec.json.encode(receipt) + b"\n" + msgspec.json.encode({"summary": {"lines": 1, "refused": 1}})
    if path.endswith("/imports/?status=ERRORED"):
        return b""
    if path.endswith("/certificate/"):
        totals = {"by_ledger": {MOVES: {"ledgers": 1}}, "paths": {MOVES: {"count": 1, "digest": ""}}}
        return msgspec.json.encode({"totals": totals})
    run = {"run": MOVES, "import_supplier": MOVES, "by_status": {MOVES: 1}, "errors": [problem], "warnings": [problem]}
    return msgspec.json.encode(run | {"refused": 1, "warned": 1})


def refuse_runs(answer: Callable[[str], bytes], *, statuses: Iterable[int] = OK) -> None:
    """Expect that a client names such a server as no import ledger."""
    with (
        answering(answer, statuses=statuses) as url,
        Client(url, "ilk_x") as client,
        pytest.raises(ImportLedgerError, match="check the address"),
    ):
        client.runs("NORDWIND")


@contextlib.contextmanager
def answering(answer: Callable[[str], bytes], *, statuses: Iterable[int] = OK) -> Iterator[str]:
    """Give the address of a server whose answers have these statuses; 307 is a redirect."""
    following = iter(statuses)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.do_GET()

        def do_GET(self) -> None:
            content = answer(self.path)
            self.send_response(status := next(following))
            if status == 307:
                self.send_header("Location", f"http://localhost:{server.server_port}/elsewhere")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            with contextlib.suppress(ConnectionError):
                self.wfile.write(content)

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the library's name
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
