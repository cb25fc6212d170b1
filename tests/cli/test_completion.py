"""Completion of verbs and options in shells, and a manual page of every verb."""

import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cli.verbs import EXAMPLES

ROOT = Path(__file__).parents[2]
pytest.importorskip("click_man", reason="click-man is not in this environment: make setup")
BUILD = ROOT / "docs" / "man" / "build.py"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_asks_the_command_itself(shell: str) -> None:
    script = runpy.run_path(str(BUILD), run_name="read")["script"](shell)
    assert "_IMPORTLEDGER_COMPLETE" in script
    if program := shutil.which(shell):
        options = ["--no-execute"] if shell == "fish" else ["-n"]
        checked = subprocess.run([program, *options, "/dev/stdin"], input=script, capture_output=True, text=True)
        assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
@pytest.mark.parametrize(
    ("words", "completed"),
    [("importledger suppl", "supplier"), ("importledger key cr", "create"), ("importledger doctor --js", "--json")],
)
def test_bash_completes_verbs_and_options(words: str, completed: str) -> None:
    script = (
        f"{runpy.run_path(str(BUILD), run_name='read')['script']('bash')}\n"
        f"COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n"
        '_importledger_completion importledger; echo "${COMPREPLY[@]}"\n'
    )
    completing = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        env=os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
    )
    assert (completing.returncode, completing.stdout.split()) == (0, [completed]), completing.stderr


def test_every_verb_has_a_manual_page_with_its_example(tmp_path: Path) -> None:
    made = subprocess.run([sys.executable, str(BUILD), str(tmp_path)], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    folder = tmp_path / runpy.run_path(str(BUILD), run_name="read")["MANUALS"]
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
