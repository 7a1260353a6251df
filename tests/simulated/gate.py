"""Holds an engine's steps until a test lets them go."""

import asyncio
import threading

from halfline.model.executor import Batch

PATIENCE_S = 60.0  # nothing is held for long; a test that would hang fails instead


class Gate:
    """Called with every batch: holds each step from the `closed_from`th on until it is opened."""

    def __init__(self, closed_from: int = 1) -> None:
        self._num_open = closed_from - 1
        self._num_steps = 0
        self._reached, self._opened = threading.Event(), threading.Event()

    def __call__(self, batch: Batch) -> None:
        self._num_steps += 1
        if self._num_steps > self._num_open:
            self._reached.set()
            assert self._opened.wait(PATIENCE_S)

    async def reached(self) -> None:
        """A step is being held, or was."""
        assert await asyncio.to_thread(self._reached.wait, PATIENCE_S)

    def open(self) -> None:
        self._opened.set()
