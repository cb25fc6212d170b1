"""Where the command begins and ends: exit codes, and sentences for what can be expected to go wrong."""

import os
import signal
import sys
import threading
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from importledger_client.commands.exit_codes import INTERRUPTED, NOTHING_DONE, OK, SOMETHING_WRONG


def main() -> None:
    """Run a verb: 0 all went well, 1 something is not as it should be, 2 wrong use or nothing done, 130 interrupted."""
    fail_without_values()
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        _end(run())
    except KeyboardInterrupt:
        _end(INTERRUPTED)


def run(words: Sequence[str] | None = None) -> int:
    """A verb with its arguments (else the process's), and its exit code."""
    import click  # all of it takes a moment, in which one may be interrupted, too

    from importledger_client.commands.common import Stop
    from importledger_client.commands.verbs import importbook
    from importledger_client.errors import ImportLedgerError
    from importledger_client.sources import Unreadable
    from importledger_client.visible import visible

    try:
        code = importbook(words, standalone_mode=False)
    except click.exceptions.Abort:  # click raises it for Ctrl-C
        click.echo("importbook: Interrupted.", err=True)
        return INTERRUPTED
    except click.ClickException as error:
        error.show()
        return NOTHING_DONE
    except Stop as stop:
        click.echo(f"importbook: {visible(str(stop))}", err=True)
        return stop.code
    except OSError as error:
        click.echo(f"importbook: {visible(of_system(error))}", err=True)
        return NOTHING_DONE
    except (ImportLedgerError, Unreadable) as error:
        click.echo(f"importbook: {visible(str(error))}", err=True)
        return SOMETHING_WRONG if getattr(error, "is_difference", False) else NOTHING_DONE
    except Exception as error:
        click.echo(f"importbook: {unforeseen(error)}", err=True)
        return NOTHING_DONE
    return code if isinstance(code, int) else OK


def of_system(error: OSError) -> str:
    """The sentence for an error of the operating system: the file first, then what is wrong with it."""
    if not error.filename or not error.strerror:
        return str(error)
    return f"{error.filename}: {error.strerror}."


def fail_without_values() -> None:
    """Print where an error that nobody expected came from, and nothing of its text: that may quote accounts."""

    def report(error: BaseException | None) -> None:
        if error is not None:
            print(f"importbook: {unforeseen(error)}", file=sys.stderr, flush=True)

    def main_thread(kind: Any, error: BaseException, trace: Any) -> None:
        report(error)

    def elsewhere(unhandled: Any) -> None:
        report(unhandled.exc_value)

    sys.excepthook, threading.excepthook, sys.unraisablehook = main_thread, elsewhere, elsewhere


def unforeseen(error: BaseException) -> str:
    """The sentence for an error that nobody expected."""
    frames = traceback.extract_tb(error.__traceback__)
    places = ", ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames[-6:])
    return f"Unexpected {type(error).__name__} at {places}. Please report this line: it holds no data of accounts."


def _end(code: int) -> None:
    """At once, whatever threads still wait for the service."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
