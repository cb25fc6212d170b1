"""Where the command begins and ends: exit codes, and sentences for what can be expected to go wrong."""

import os
import signal
import sys
from collections.abc import Sequence

OK, SOMETHING_WRONG, NOTHING_DONE, INTERRUPTED = 0, 1, 2, 130


def main() -> None:
    """Run a verb: 0 all went well, 1 something is not as it should be, 2 wrong use or nothing done, 130 interrupted."""
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
    except (ImportLedgerError, Unreadable, OSError) as error:
        click.echo(f"importbook: {visible(str(error))}", err=True)
        return NOTHING_DONE
    return code if isinstance(code, int) else OK


def _end(code: int) -> None:
    """At once, whatever threads still wait for the service."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
