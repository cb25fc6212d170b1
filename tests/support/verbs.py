"""Run verbs of the command line in this process: their output and their exit, without starting another process.

For verbs that run until they are stopped, `tests.support.running.program` starts a process.
"""

import contextlib
import io
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import click
import click.exceptions
import structlog

from cli import main as command

_one_at_a_time = threading.Lock()
"""Standard output and the environment belong to the whole process."""


def run_verb(*arguments: str, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """A verb of `importledger`, with these variables beside the process's own; it is asked for no input.

    All that it may change of its process is as before afterwards.
    """
    try:
        return run_here(["importledger", *arguments], command.main, environment=os.environ | environment)
    finally:
        forget_help(command.importledger)


def forget_help(command: click.Command) -> None:
    """Forget the text of --help, which click keeps in the language of the first error."""
    command._help_option = None
    for below in command.commands.values() if isinstance(command, click.Group) else ():
        forget_help(below)


def as_verb(callback: Callable[[], object]) -> subprocess.CompletedProcess[str]:
    """A verb that calls this function."""
    command.importledger.add_command(click.Command("called", callback=callback))
    try:
        return run_verb("called", environment={})
    finally:
        del command.importledger.commands["called"]


class Verbs:
    """Verbs of `importledger` with the same variables."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = dict(environment)

    def __call__(self, *words: str, code: int | None = 0, **more: str) -> str:
        """Return what a verb prints. It must end with this code, unless `code` is None. `more` are other variables."""
        ended = run_verb(*words, environment=self.environment | more)
        assert code in (None, ended.returncode), ended.stdout + ended.stderr
        return ended.stdout + ended.stderr


def every_verb(command: click.Command = command.importledger, name: str = "") -> Iterator[tuple[str, click.Command]]:
    """Yield the name and the command of each verb, and of the group itself with the name ""."""
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for word in command.list_commands(context):
            below = command.get_command(context, word)
            assert below is not None
            yield from every_verb(below, f"{name} {word}".strip())


def run_here(
    words: list[str],
    main: Callable[[], object],
    *,
    environment: Mapping[str, str],
    stdin: bytes = b"",
    folder: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Return the output and exit code of `main`, as if it were a process: in this folder, with only these variables."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="", write_through=True) for _ in range(2))
    with _one_at_a_time, process_as_before(), contextlib.chdir(folder or Path.cwd()):
        _set_environment(environment)
        sys.argv, sys.stdin = words, io.TextIOWrapper(io.BufferedReader(io.BytesIO(stdin)), "utf-8")
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            logging.getLogger().handlers[:] = []
            code = _exit_code(main)
    printed, complained = (stream.buffer.getvalue().decode() for stream in (out, err))
    return subprocess.CompletedProcess(words, code, printed, complained)


def _exit_code(main: Callable[[], object]) -> int:
    """Return the exit code of a process that calls this."""
    try:
        code = main()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except Exception as error:
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    return code if isinstance(code, int) else 0


@contextlib.contextmanager
def process_as_before() -> Iterator[None]:
    """Restore the state of the process that entry points change."""
    environment, words, stdin = dict(os.environ), sys.argv, sys.stdin
    echoes = [(module, module.__dict__["echo"]) for module in (click, click.exceptions)]
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE)}
    with logging_as_before():
        try:
            yield
        finally:
            _set_environment(environment)
            sys.argv, sys.stdin = words, stdin
            for module, echo in echoes:
                setattr(module, "echo", echo)  # noqa: B010 - as `cli.output` has put it there
            if threading.current_thread() is threading.main_thread():
                signal.set_wakeup_fd(-1)
                for number, handler in handlers.items():
                    signal.signal(number, handler)


@contextlib.contextmanager
def logging_as_before() -> Iterator[None]:
    """Restore logging and the hooks for uncaught errors."""
    root = logging.getLogger()
    handlers, level, configuration = root.handlers[:], root.level, structlog.get_config()
    hooks = sys.excepthook, threading.excepthook, sys.unraisablehook
    try:
        yield
    finally:
        structlog.configure(**configuration)
        logging.captureWarnings(False)
        root.handlers[:] = handlers
        root.setLevel(level)
        sys.excepthook, threading.excepthook, sys.unraisablehook = hooks


def _set_environment(environment: Mapping[str, str]) -> None:
    """To exactly these; other threads miss none of those that stay meanwhile."""
    os.environ.update(environment)
    for name in os.environ.keys() - environment.keys():
        del os.environ[name]
