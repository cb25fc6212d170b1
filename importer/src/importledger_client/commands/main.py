"""Entry point of importbook: its verbs, exit codes, and sentences for errors."""

import contextlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Sequence
from pathlib import Path

from importledger_client.commands import INTERRUPTED, NOTHING_DONE, OK, OUTPUT_CLOSED, SOMETHING_WRONG
from importledger_client.language import _


def main() -> None:
    """Run a verb with the arguments of the process, and end the process with its exit code."""
    fail_without_values()
    # handle the signal like Ctrl-C, so that temporary files are deleted, except below nohup
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)
    try:
        _end(run())
    except KeyboardInterrupt:
        _end(INTERRUPTED)
    except SystemExit:  # click and rich end like this; the signal SIGPIPE would leave temporary files
        _end(OUTPUT_CLOSED)


def run(words: Sequence[str] | None = None) -> int:
    """Run a verb with its arguments [default: those of the process], and return its exit code."""
    import click  # importing takes a moment, in which Ctrl-C must work, too

    from importledger_client.language import translate_click

    translate_click()  # before the verbs: click translates some texts when an option is defined

    from importledger_client.commands.common import Stop, of_system
    from importledger_client.commands.verbs import importbook, translated
    from importledger_client.display import visible
    from importledger_client.errors import ImportLedgerError
    from importledger_client.sources import Differs, Unreadable

    try:
        code = translated(importbook)(words, standalone_mode=False)
    except click.exceptions.Abort:  # click raises Abort for Ctrl-C
        sentence, code = _("Interrupted."), INTERRUPTED
    except click.ClickException as error:
        error.show()
        return NOTHING_DONE
    except Stop as stop:
        sentence, code = str(stop), stop.code
    except OSError as error:
        sentence, code = of_system(error), NOTHING_DONE
    except (ImportLedgerError, Unreadable) as error:
        sentence, code = str(error), SOMETHING_WRONG if isinstance(error, Differs) else NOTHING_DONE
    except Exception as error:
        sentence, code = unforeseen(error), NOTHING_DONE
    else:
        return code if isinstance(code, int) else OK
    click.echo(f"importbook: {visible(sentence)}", err=True)
    return code


def fail_without_values() -> None:
    """Make unexpected errors print their location in the code, but not their text, which may quote accounts."""

    def report(error: BaseException | None) -> None:
        if error is not None:
            print(f"importbook: {unforeseen(error)}", file=sys.stderr, flush=True)

    sys.excepthook = lambda kind, error, trace: report(error)
    threading.excepthook = lambda unhandled: report(unhandled.exc_value)
    sys.unraisablehook = lambda unhandled: report(unhandled.exc_value)


def unforeseen(error: BaseException) -> str:
    """Return the sentence for an unexpected error."""
    frames = traceback.extract_tb(error.__traceback__)
    locations = ", ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames[-6:])
    return _(
        "Unexpected {error} at {locations}. Please report this line: it contains no data of accounts.",
        error=type(error).__name__,
        locations=locations,
    )


def _end(code: int) -> None:
    """End the process immediately, even if threads still wait for the service."""
    with contextlib.suppress(OSError, AttributeError):  # a closed stream is None
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
