"""Completion of verbs and options in shells, and a manual page of every verb."""

import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cli.completion import SHELLS
from cli.verbs import EXAMPLES
from tests.support.running import cli

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_asks_the_command_itself(shell: str) -> None:
    script = cli("completion", shell, environment={}).stdout
    assert "_IMPORTLEDGER_COMPLETE" in script
    if program := shutil.which(shell):
        options = ["--no-execute"] if shell == "fish" else ["-n"]
        checked = subprocess.run([program, *options, "/dev/stdin"], input=script, capture_output=True, text=True)
        assert (checked.returncode, checked.stderr) == (0, "")


def test_another_shell_is_refused_in_a_sentence() -> None:
    refused = cli("completion", "tcsh", environment={}, check=False)
    assert refused.returncode == 1
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in refused.stderr


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
@pytest.mark.parametrize(
    ("words", "completed"),
    [("importledger suppl", "supplier"), ("importledger key cr", "create"), ("importledger doctor --js", "--json")],
)
def test_bash_completes_verbs_and_options(words: str, completed: str) -> None:
    script = (
        'eval "$(importledger completion bash)"\n'
        f"COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n"
        '_importledger_completion importledger; echo "${COMPREPLY[@]}"\n'
    )
    completing = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        env=os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
    )
    assert (completing.returncode, completing.stdout.split()) == (0, [completed]), completing.stderr


def test_every_verb_has_a_manual_page_with_its_example(tmp_path: Path) -> None:
    pytest.importorskip("click_man", reason="click-man is not in this environment: make setup")
    made = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "man" / "build.py"), str(tmp_path)], capture_output=True, text=True
    )
    assert made.returncode == 0, made.stderr
    folder = tmp_path / runpy.run_path(str(ROOT / "docs" / "man" / "build.py"), run_name="read")["MANUALS"]
    for verb, example in EXAMPLES.items():
        page = (folder / f"{' '.join(['importledger', verb]).strip().replace(' ', '-')}.1").read_text()
        assert page.startswith(".TH")
        assert example.replace("\\", "\\e").replace("-", "\\-") in page
        assert "..." not in page.partition(".SH SYNOPSIS")[0], "a sentence is cut"
    if shutil.which("man"):
        shown = subprocess.run(
            ["man", "--warnings", "-l", str(folder / "importledger.1")], capture_output=True, text=True, check=False,
            env=os.environ | {"MANPAGER": "cat", "MANWIDTH": "100"},
        )  # fmt: skip
        assert (shown.returncode, shown.stderr) == (0, "")
        assert "Import energy accounts, and prove what happened to each" in shown.stdout
