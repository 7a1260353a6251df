"""Which CPUs the executor's threads run on: one each where there are as many; the caller keeps its own."""

import os
import threading
from collections.abc import Callable

import numpy as np
import pytest

from halfline.model.executor import Batch
from halfline.model.random_model import random_checkpoint
from halfline.native.executor import NativeExecutor

pytestmark = pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity"), reason="this system has no CPUs to choose for a thread"
)
TOKENS = np.arange(20, dtype=np.int32)


def test_as_many_workers_as_cpus_have_one_each(one_sequence: Callable[..., Batch]) -> None:
    cpus = os.sched_getaffinity(0)
    workers = cpus_of_workers(len(cpus), one_sequence)
    assert sorted(sorted(each) for each in workers) == [[cpu] for cpu in sorted(cpus)[1:]]


def test_more_workers_than_cpus_run_anywhere(one_sequence: Callable[..., Batch]) -> None:
    cpus = os.sched_getaffinity(0)
    assert cpus_of_workers(len(cpus) + 1, one_sequence) == [cpus] * len(cpus)


def cpus_of_workers(num_threads: int, one_sequence: Callable[..., Batch]) -> list[set[int]]:
    """Of each that is not the caller, once all have worked."""
    before = set(os.listdir("/proc/self/task"))
    executor = NativeExecutor(random_checkpoint(), num_blocks=4, num_threads=num_threads)
    executor.run(one_sequence(TOKENS))
    return [os.sched_getaffinity(int(thread)) for thread in set(os.listdir("/proc/self/task")) - before]


def test_the_caller_keeps_its_cpus(one_sequence: Callable[..., Batch]) -> None:
    cpus = os.sched_getaffinity(0)
    executor = NativeExecutor(random_checkpoint(), num_blocks=4, num_threads=len(cpus))
    expected = executor.run(one_sequence(TOKENS))
    assert os.sched_getaffinity(0) == cpus
    seen: list[tuple[set[int], np.ndarray]] = []

    def run_on_one_cpu() -> None:
        os.sched_setaffinity(0, {max(cpus)})
        outputs = executor.run(one_sequence(TOKENS))
        assert outputs is not None
        seen.append((os.sched_getaffinity(0), outputs.logits))

    thread = threading.Thread(target=run_on_one_cpu)
    thread.start()
    thread.join()
    assert expected is not None
    assert seen[0][0] == {max(cpus)}
    np.testing.assert_array_equal(seen[0][1], expected.logits)
