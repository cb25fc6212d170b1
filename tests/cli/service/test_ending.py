"""A process ends with its exit code and all of its output, without a shutdown of the interpreter."""

import subprocess
import sys

import pytest

PROGRAM = """
import atexit, sys, threading, time
import click
import cli.main as command

class Kept:
    def __del__(self):
        print("taken down")

def ends():
    sys.kept = Kept()
    atexit.register(print, "at the end")
    threading.Thread(target=lambda: (time.sleep(0.2), print("waited for"))).start()
    sys.stdout.write("said ")
    sys.exit({code})

command.importledger.add_command(click.Command("ends", callback=ends))
sys.argv = ["importledger", "ends"]
command.run()
"""


@pytest.mark.parametrize(("code", "ends_with"), [(3, 3), (None, 0), ("'why'", 1)])
def test_a_process_ends_with_its_code_when_all_is_said_and_done(code: object, ends_with: int) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("{code}", str(code))], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout.split("\n")[:2]) == (ends_with, ["said waited for", "at the end"]), ended
    assert "taken down" not in ended.stdout
