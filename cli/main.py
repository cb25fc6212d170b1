"""The command `importledger`, with the handling of errors for every verb. The verbs are listed in `cli.verbs`."""

import atexit
import contextlib
import os
import sys

import click

from cli.language import _, translate_click
from cli.output import guard_terminal, print_line
from cli.verbs import Verbs, prepare_help
from eventstore.errors import DamagedInstallation
from system.interpreter import load_without_searching
from telemetry.log import begin_process

ROLES = (["up"], ["api"], ["relay"], ["worker"])
"""Verbs that run until they are stopped, and write a log."""


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="importledger")
def importledger() -> None:
    """Import energy accounts, and prove what happened to each."""


prepare_help(importledger)


INTERRUPTED = 130
"""Exit code after SIGINT, as in shells."""


def is_interrupt(error: BaseException) -> bool:
    """Return True if Ctrl-C caused the error. click raises Abort for Ctrl-C, the end of input and the answer "no"."""
    return isinstance(error, KeyboardInterrupt) or isinstance(error.__context__, KeyboardInterrupt)


class Ending:
    """Exit handler that ends the process with `code`, after all other exit handlers. Create it before all of them.

    The interpreter does not shut down: threads of libraries, such as of the object stores, would abort the process.
    """

    def __init__(self) -> None:
        self.code = 1
        atexit.register(self._end)  # registered first, so that it is called last, after all threads were joined

    def _end(self) -> None:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):  # the reader has closed the pipe, or the stream is closed
                stream.flush()
        os._exit(self.code)


def main() -> None:
    """Run a verb. Errors print one sentence and exit with 1; an interrupt exits with 130."""
    try:
        is_role = sys.argv[1:2] in ROLES
        form = os.environ.get("IMPORTLEDGER_LOG_FORMAT", "auto") if is_role else "auto"
        begin_process("warning", form, is_role=is_role)
        guard_terminal()
        translate_click()
        code = importledger(standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        print_line(error.format_message())
        sys.exit(0)
    except (click.Abort, KeyboardInterrupt) as error:
        if is_interrupt(error):
            print_line(_("importledger: Interrupted."), err=True)
            sys.exit(INTERRUPTED)
        print_line(_("importledger: Not confirmed: nothing was done."), err=True)
        sys.exit(1)
    except BrokenPipeError:  # the reader of the output has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except DamagedInstallation as error:  # raised before modules that need the file are imported
        print_line(f"importledger: {error}", err=True)
        sys.exit(1)
    except Exception as error:
        # imported here: the module imports the large libraries whose errors it describes
        from cli.service.failures import print_failure

        print_failure(error)
        sys.exit(1)
    else:
        sys.exit(code if isinstance(code, int) else 0)


def run() -> None:
    """Run a verb, and end the process."""
    ending = Ending()
    load_without_searching()
    try:
        main()
    except SystemExit as ended:
        ending.code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        raise


if __name__ == "__main__":
    run()
