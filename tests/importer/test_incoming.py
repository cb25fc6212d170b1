"""What a server sends that is no import ledger, or means harm, ends in a sentence and in bounded memory."""

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from importledger_client import Client, ImportLedgerError
from importledger_client import protocol as bounds
from importledger_client.batches import Batch
from importledger_client.commands import main
from importledger_client.display import visible
from importledger_client.protocol import TryLater, lines_of

MOVES = "\x1b[2J\u202e"
"""Clears the screen, and turns the order of letters."""
TOKEN = b'{"data": {"obtainToken": {"token": "t", "payload": {"exp": 99999999999}}}}'


@given(st.binary(), st.lists(st.integers(0, 60)))
def test_lines_are_the_same_however_they_come_in(content: bytes, cuts: list[int]) -> None:
    places = sorted({0, len(content), *(cut for cut in cuts if cut < len(content))})
    parts = [content[start:end] for start, end in itertools.pairwise(places)]
    found = list(lines_of(parts))
    assert b"\n".join(found) == content.removesuffix(b"\n")


def test_separators_inside_of_texts_end_no_line() -> None:
    line = '{"line":1,"status":"PENDING","external_account_number":"a\u2028b\u0085c\u000b"}'.encode()
    assert list(lines_of([line, b"\n"])) == [line]


def test_a_line_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MAX_LINE_BYTES", 100)
    assert list(lines_of([b"x"] * 100)) == [b"x" * 100]
    with pytest.raises(ImportLedgerError, match="is the address right"):
        list(lines_of([b"x"] * 101))


@pytest.mark.parametrize("line", [0, 2, -1])
def test_a_receipt_of_another_line_is_none(line: int) -> None:
    batch = Batch([7, 8], [b"{}", b"{}"])
    batch.content()
    with pytest.raises(TryLater):
        batch.take(b'{"line":%d,"status":"PENDING"}' % line)


def test_what_a_terminal_would_obey_is_written_out() -> None:
    assert visible("a\x1b[2Jb\u202ec\u200bd\re\tf\n") == "a\\x1b[2Jb\\u202ec\\u200bd\\re\tf\n"


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b'{"data": null}',
        b'{"errors": [1]}',
        b'{"data": {"obtainToken": {}}}',
        b"\xff",
        b"<p>",
    ],
)
def test_another_service_at_the_address_is_said_to_be_one(answer: bytes) -> None:
    refuse_runs(lambda path: answer)


@pytest.mark.parametrize("answer", [b"{}", b"[1]", b'[{"run": 1}]', b"[" * 10_000, b"\xff\xfe"])
def test_an_answer_of_another_kind_is_said_to_be_one(answer: bytes) -> None:
    refuse_runs(lambda path: TOKEN if "graphql" in path else answer)


def test_an_answer_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MAX_ANSWER_BYTES", 10_000)
    refuse_runs(lambda path: TOKEN if "graphql" in path else b"[" + b" " * 1_000_000 + b"]")


def test_a_key_that_the_service_refuses_is_told_in_a_sentence_of_importbook(capsys: pytest.CaptureFixture[str]) -> None:
    denied = b'{"errors": [{"message": "no \\u001b[2J\\u202e", "extensions": null}]}'
    with answering(lambda path: denied) as url:
        assert main.run(["watch", "book", "--supplier", "NORDWIND", "--url", url, "--key", "ilk_x"]) == 2
    assert "must be one that the operator gave you" in capsys.readouterr().err


def test_a_certificate_without_totals_is_said_to_be_of_another_kind(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    Path("m.json").write_text('{"accounts": 1, "paths": {}}')
    with answering(
        lambda path: hostile("/certificate/").replace(b"totals", b"other") if "cert" in path else hostile(path)
    ) as url:
        words = ["book", "--manifest", "m.json", "--supplier", "NORDWIND", "--url", url, "--key", "ilk_x"]
        assert main.run(["reconcile", *words]) == 2
    assert "is the address right" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["watch", "errors", "push", "reconcile"])
def test_what_a_server_says_is_escaped_before_it_reaches_the_terminal(
    verb: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A service that is not ours may answer texts that clear the screen, or turn the order of letters."""
    monkeypatch.chdir(folder)
    Path("book.ndjson").write_text('{"external_account_number": "1", "import_supplier": "NORDWIND"}\n')
    words = {"push": ["book.ndjson", "--run", "book"], "reconcile": ["book", "--manifest", "m.json"]}
    main.run(["manifest", "book.ndjson", "-o", "m.json"])
    with answering(hostile) as url:
        named = words.get(verb, ["book"])
        assert main.run([verb, *named, "--supplier", "NORDWIND", "--url", url, "--key", "ilk_x"]) in (0, 1)
    said = "".join(capsys.readouterr())
    assert "\\x1b[2J\\u202e" in said
    assert "\x1b" not in said
    assert "\u202e" not in said


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


def refuse_runs(answer: Callable[[str], bytes]) -> None:
    """A client that asks such a server for runs says that it is no import ledger."""
    with (
        answering(answer) as url,
        Client(url, "ilk_x") as client,
        pytest.raises(ImportLedgerError, match="is the address right"),
    ):
        client.runs("NORDWIND")


@contextlib.contextmanager
def answering(answer: Callable[[str], bytes]) -> Iterator[str]:
    """A server that answers 200 to everything; its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.do_GET()

        def do_GET(self) -> None:
            content = answer(self.path)
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            with contextlib.suppress(ConnectionError):
                self.wfile.write(content)

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the library's name
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
