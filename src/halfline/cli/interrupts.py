"""What Ctrl-C and SIGTERM do while something lasts. Imports nothing of weight: it stands before whatever does."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

INTERRUPTED = 130


@contextmanager
def imports() -> Iterator[None]:
    """An interrupt of what is imported within ends the process at once, without a word.

    Nothing has begun by then that would have to be put in order. And a package that catches whatever is raised while it
    is imported would swallow KeyboardInterrupt, so that the command went on.
    """
    usual = signal.getsignal(signal.SIGINT)
    if usual is not signal.default_int_handler:  # somebody wants it otherwise: nohup, a caller of ours
        yield
        return
    signal.signal(signal.SIGINT, lambda number, frame: os._exit(INTERRUPTED))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)


@contextmanager
def orderly_end() -> Iterator[None]:
    """SIGTERM within leaves by SystemExit, with the exit code that a shell gives: what is open is put in order."""
    usual = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, usual)
