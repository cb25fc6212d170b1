"""Every command in the documents is run unchanged, in order, in an empty folder.

Bash runs each fenced block of the language `sh`; its output must equal the `text` block right after it, in which `…`
matches anything. A block `sh serve` holds a command that runs until it is stopped: a target of the Makefile, which is
started on a free port with its own data folder. Blocks of one document share a shell, a folder and a service. Commands
in fences of other languages are not run.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.support.folders import temporary_folder
from tests.support.prepared import prepare
from tests.support.running import free_port, start_service, wait_for

ROOT = Path(__file__).parent.parent.parent
DOCUMENTS = [
    ROOT / "README.md",
    *sorted(path for path in ROOT.glob("docs/**/*.md") if path.name not in ("errors.md", "fields.md", "contract.md")),
]
BIN = Path(sys.executable).parent
SERVED = "localhost:8000"
"""Address of the service in the documents."""
LANGUAGES = {"sh", "text", "python", "json", "yaml", "http", "haproxy", "sql", "toml", "{include}", "{toctree}"}
SCRIPT_TIMEOUT_S = 240
LINE_LENGTH = 100


class Block(msgspec.Struct, frozen=True):
    """A fenced block, and what it is expected to print."""

    line: int
    language: str
    is_served: bool
    text: str
    expected: str | None


def blocks(document: str) -> list[Block]:
    """All fenced blocks, in order."""
    found = []
    for match in re.finditer(r"^```([^\s]*)( [^\n]*)?\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?", document, re.M | re.S):
        language, serve, text, expected = match.groups()
        found.append(Block(document[: match.start()].count("\n") + 1, language, serve == " serve", text, expected))
    return found


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_is_to_be_run_is_in_fences_that_name_their_language(document: Path) -> None:
    text = document.read_text()
    assert {block.language for block in blocks(text)} <= LANGUAGES
    outside = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    assert not re.findall(r"^    \S.*", outside, re.M), "indented blocks are not run: use a fence"
    assert "```" not in re.sub(r"`[^`\n]+`", "", outside), "a fence is open"
    assert not [line for line in text.splitlines() if len(line) > LINE_LENGTH and not line.startswith("|")]


@pytest.mark.parametrize(
    "document",
    [path for path in DOCUMENTS if any(block.language == "sh" for block in blocks(path.read_text()))],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_every_command_of_the_document_works_as_pasted(document: Path) -> None:
    commands = [block for block in blocks(document.read_text()) if block.language == "sh"]
    with temporary_folder() as folder, contextlib.ExitStack() as running:
        data = folder / "data"
        data.mkdir(mode=0o711)
        port = free_port()
        served = [block for block in commands if block.is_served]
        for block in served[:-1]:
            with made(block.text, folder / "earlier", free_port(), folder / "earlier.log"):
                pass
        if len(served) > 1:
            prepare(data)  # the first one has made its own
        if served:
            running.enter_context(made(served[-1].text, data, port, folder / "make.log"))
        else:
            running.enter_context(start_service(data, port=port))
        run([block for block in commands if not block.is_served], folder, data, port)


@contextlib.contextmanager
def made(command: str, data: Path, port: int, log: Path) -> Iterator[None]:
    """A target of the Makefile, without setting the environment up again, until the end of the block."""
    _, target = command.split()
    size = " --accounts 50" if target == "demo" else " --api-processes 1"
    arguments = ["make", "-C", str(ROOT), "-o", ".venv/.ready", f"BIN={BIN}", target]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*arguments, f"ARGS=--port {port} --data-dir {data}{size}"],
            env=environment | {"IMPORTLEDGER_LOG_LEVEL": "error"},
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        wait_for(
            lambda: "Stop it with Ctrl-C" in log.read_text() or process.poll() is not None,
            f"make {target} has started",
            timeout_s=120,
        )
        assert process.poll() is None, log.read_text()
        shown = log.read_text()
        assert target != "demo" or ("PROCESSED" in shown and "curl -s" in shown), shown
        yield
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
        process.wait(60)


SLEEP = """
sleep() {
    command sleep "$1"
    for _ in {1..60}; do
        importledger status NORDWIND 2>&1 | grep -qE 'PENDING|IN_PROGRESS' || return 0
        command sleep 1
    done
}
"""
"""`sleep` in a document waits for the workers: a busy machine takes longer than the document states."""


def run(commands: list[Block], folder: Path, data: Path, port: int) -> None:
    """Run the blocks in one shell. Each must succeed and print the expected text."""
    empty, printed = folder / "empty", folder / "printed"
    empty.mkdir()
    printed.mkdir()
    steps = [
        f"exec >{printed / str(number)} 2>&1\n" + block.text.replace(SERVED, f"127.0.0.1:{port}")
        for number, block in enumerate(commands)
    ]
    environment = os.environ | {
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "IMPORTLEDGER_DATA_DIR": str(data),
        "SOURCE": str(ROOT),
    }
    shell = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join([SLEEP, *steps])],
        cwd=empty,
        env=environment,
        timeout=SCRIPT_TIMEOUT_S,
        check=False,
    )
    for number, block in enumerate(commands):
        output = printed / str(number)
        assert output.exists(), f"line {block.line} was not reached"
        is_last = not (printed / str(number + 1)).exists()
        assert not (shell.returncode and is_last), f"line {block.line} failed:\n{block.text}{output.read_text()}"
        if block.expected is not None:
            pattern = re.escape(block.expected.strip()).replace("…", ".*")
            text = output.read_text().strip()
            assert re.fullmatch(pattern, text, re.S), f"line {block.line} printed otherwise:\n{text}"
