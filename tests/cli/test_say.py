"""Escapes for control characters in importers' text that a verb prints."""

import json
import subprocess
import sys

import pytest

HOSTILE = "NW\x1b[2J\u202e\u200b\x9b"
ESCAPED = r"NW\u001b[2J\u202e\u200b\u009b"
PROGRAM = """
import click, sys, json, cli.main as m
from eventstore.errors import LedgerError
text = "NW\\x1b[2J\\u202e\\u200b\\x9b"
def prints():
    click.echo(text)
    click.echo(json.dumps({"external": text}, ensure_ascii=False).encode())
def refuses():
    raise click.ClickException(text)
def fails():
    raise LedgerError(text)
for verb in (prints, refuses, fails):
    m.importledger.add_command(click.Command(verb.__name__, callback=verb))
sys.argv = ["importledger", sys.argv[1]]
m.main()
"""


def run(verb: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", PROGRAM, verb], capture_output=True, text=True, check=False)


@pytest.mark.promise("control-bidi-zero-width")
@pytest.mark.asvs("V1.1.2")
def test_printed_text_is_escaped_and_json_says_the_same() -> None:
    line, as_json = run("prints").stdout.splitlines()
    assert line == ESCAPED
    assert json.loads(as_json) == {"external": HOSTILE}
    assert ESCAPED in as_json


@pytest.mark.promise("control-bidi-zero-width")
@pytest.mark.parametrize("verb", ["refuses", "fails"])
def test_refusals_are_escaped(verb: str) -> None:
    ended = run(verb)
    assert ended.returncode == 1
    assert ESCAPED in ended.stderr
    assert not set(HOSTILE) & {"\x1b", "\u202e"} & set(ended.stderr)
