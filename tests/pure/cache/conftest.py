"""A user who may write little: root, as which tests may run, may write everywhere."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

NOBODY = 65534


@pytest.fixture
def as_nobody() -> Callable[[], AbstractContextManager[None]]:
    return _as_nobody


@contextmanager
def _as_nobody() -> Iterator[None]:
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)
