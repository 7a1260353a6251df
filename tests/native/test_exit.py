"""How a process ends that still has an engine."""

import subprocess
import sys

HELD = """
import threading
from halfline.model.random_model import random_checkpoint
from halfline.native.executor import NativeExecutor

executor = NativeExecutor(random_checkpoint(), num_blocks=4)
threading.Thread(target=lambda held: threading.Event().wait(), args=[executor], daemon=True).start()
"""


def test_a_thread_that_still_holds_an_engine_lets_the_process_end_without_a_word() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", HELD], capture_output=True, text=True, timeout=60, check=True
    )
    assert ended.stdout + ended.stderr == ""
