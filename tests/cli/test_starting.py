"""Verbs and roles start soon because they read only what they need; what is large and seldom needed waits."""

import json
import subprocess
import sys

import pytest

from runtime.alone import without

SELDOM = {
    "cli.main": {"rich", "psycopg", "cryptography", "httpx", "starlette", "redis"},
    "cli.roles": {"rich", "httpx", "starlette", "redis", "opentelemetry", "graphql", "phonenumbers", "email_validator"},
    "cli.working": {"rich", "httpx", "starlette", "opentelemetry", "graphql", "phonenumbers", "email_validator"},
    "cli.serving": {"rich", "httpx", "opentelemetry", "graphql", "phonenumbers", "email_validator", "authlib"},
}
"""What the file of a role does without, until it is asked for something that needs it."""


@pytest.mark.parametrize("file", SELDOM)
def test_a_role_reads_no_library_that_it_seldom_needs(file: str) -> None:
    script = f"import json, sys, {file}; print(json.dumps([name for name in sys.modules if '.' not in name]))"
    read = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert SELDOM[file] & set(json.loads(read.stdout)) == set()


def test_a_library_reads_no_other_that_is_kept_from_it() -> None:
    script = (
        "import sys\nfrom runtime.alone import without\n"
        "with without('rich'):\n    import structlog.dev\n"
        "assert 'rich' not in sys.modules\nimport rich.pretty\n"
        "with without('rich'):\n    import rich.text\n"
        "assert sys.modules['rich'] is rich\nprint(structlog.dev.rich)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("None\n", "")


def test_what_is_kept_away_is_there_again_when_the_block_fails() -> None:
    with pytest.raises(ZeroDivisionError), without("no_such_library"):
        raise ZeroDivisionError
    assert "no_such_library" not in sys.modules


def test_a_verb_is_loaded_without_searching_what_is_loaded_for_garbage() -> None:
    script = (
        "import gc, sys\nfrom cli.main import run\nsys.argv = ['importledger', '--version']\n"
        "searched = gc.get_stats()[2]['collections']\n"
        "try:\n    run()\nfinally:\n    import cli.serving\n"
        "    assert gc.get_stats()[2]['collections'] == searched"
    )
    subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
