"""Where the `halfline` command begins, and how it ends when the terminal or the disk gets in its way.

Imports nothing of weight, so that it is in place before an interrupt can come: Ctrl-C also hits the imports.
"""

import errno
import os
import sys

from halfline.cli.interrupts import INTERRUPTED, imports

CANNOT = 2

# What writing to an output that takes nothing more fails with.
_REFUSED = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EPIPE)


def main() -> None:
    """Run the command line and exit."""
    try:
        with imports():
            from halfline.cli.main import app  # here, so that an interrupt of it is seen too

        try:
            app()
        finally:
            if not sys.stdout.closed:  # as the language server leaves it
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
