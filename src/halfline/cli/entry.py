"""Where the `halfline` command begins, and how it ends when the terminal or the disk gets in its way.

Imports nothing of weight, so that it is in place before an interrupt can come: Ctrl-C also hits the imports.
"""

import errno
import os
import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typer import Typer

CANNOT = 2
INTERRUPTED = 130

# What writing to an output that takes nothing more fails with.
_REFUSED = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EPIPE)


def main() -> None:
    """Run the command line and exit."""
    try:
        app = _imported()
        try:
            app()
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except OSError as error:
        # A file that cannot be opened has a name, and is ours to explain where it happens.
        if error.errno not in _REFUSED or error.filename is not None:
            raise
        # What is still buffered would fail once more when the interpreter flushes it at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"halfline: the output cannot be written: {error.strerror}", file=sys.stderr)
        sys.exit(CANNOT)


def _imported() -> "Typer":
    """The command line. An interrupt of its imports ends the process at once: nothing has begun that would have to be
    put in order, and a package that catches whatever is raised while it is imported would swallow it.
    """
    usual = signal.getsignal(signal.SIGINT)
    if usual is signal.default_int_handler:  # else somebody wants it otherwise: nohup, a caller of ours
        signal.signal(signal.SIGINT, lambda number, frame: os._exit(INTERRUPTED))
    from halfline.cli.main import app  # only now: the lines above are for it

    signal.signal(signal.SIGINT, usual)
    return app
