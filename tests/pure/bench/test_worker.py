"""A peer in another process: it answers when asked and stands still otherwise."""

import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from halfline.bench.peers.failed import PeerFailed
from halfline.bench.peers.worker import Worker
from halfline.bench.workloads import Sizes

COUNTING = """
import json, sys, threading, time
print("libraries chatter")
count = 0
def busy():
    global count
    while True:
        count += 1
        time.sleep(0.001)
threading.Thread(target=busy, daemon=True).start()
print(json.dumps({"package": "1.2"}), flush=True)
for _ in sys.stdin:
    print(json.dumps({"decode": count, "prefill": json.loads(sys.argv[3])["prefill"], "else": 1}), flush=True)
"""
FAILING = "import sys; sys.exit('this file is not for me')"


@pytest.fixture
def start(tmp_path: Path) -> Callable[[str], Worker]:
    def build(code: str) -> Worker:
        script = tmp_path / "worker.py"
        script.write_text(code)
        return Worker("peer", Path(sys.executable), script, Path("m.gguf"), sizes=Sizes(), threads=1)

    return build


def test_a_worker_tells_its_versions_and_answers_each_turn_with_its_rates(
    start: Callable[[str], Worker],
) -> None:
    worker = start(COUNTING)
    assert worker.versions == {"package": "1.2"}
    rates = worker.measure()
    assert rates.keys() == {"decode", "prefill"}
    assert rates["prefill"] == 512
    worker.close()


def test_a_worker_stands_still_between_its_turns(start: Callable[[str], Worker]) -> None:
    worker = start(COUNTING)
    first = worker.measure()["decode"]
    time.sleep(0.3)
    # Running, it would have counted to about 300 more.
    assert worker.measure()["decode"] - first < 100
    worker.close()


def test_a_worker_that_cannot_load_is_named_with_its_reason(start: Callable[[str], Worker]) -> None:
    with pytest.raises(PeerFailed, match=r"(?s)peer failed.*this file is not for me"):
        start(FAILING)
