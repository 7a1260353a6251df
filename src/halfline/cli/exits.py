"""What a command says and returns when it cannot do what it was asked: one sentence, exit code 2."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from halfline.cli.entry import CANNOT
from halfline.errors import HalflineError


@contextmanager
def one_sentence() -> Iterator[None]:
    """Turn every error of ours into its sentence on standard error and exit code 2; bugs keep their traceback."""
    try:
        yield
    except HalflineError as error:
        print(f"halfline: {error}", file=sys.stderr)
        raise typer.Exit(CANNOT) from error
