"""What became of each version's answers: how many were asked for, shown, accepted, dismissed."""

import threading
from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Outcome = Literal["shown", "accepted", "dismissed"]

_MAX_REMEMBERED = 4096


@dataclass(slots=True)
class _Answer:
    task: str
    version: str
    told: set[Outcome]


class TaskOutcomes:
    """Remembers which version gave the latest answers. What is told of one twice counts once. Safe to share among
    threads.
    """

    def __init__(self) -> None:
        self._answers: OrderedDict[tuple[str, str], _Answer] = OrderedDict()  # by tenant and completion
        self._counts: dict[tuple[str, str, str], Counter[str]] = {}  # by tenant, task and version
        self._lock = threading.Lock()

    def asked(self, tenant: str, completion_id: str, task: str, version: str) -> None:
        with self._lock:
            self._answers[tenant, completion_id] = _Answer(task, version, set())
            if len(self._answers) > _MAX_REMEMBERED:
                self._answers.popitem(last=False)
            self._count(tenant, task, version, "asked")

    def told(self, tenant: str, completion_id: str, outcome: Outcome) -> None:
        """Of an answer that is no task's, or that was too long ago, nothing is counted."""
        with self._lock:
            answer = self._answers.get((tenant, completion_id))
            if answer is not None and outcome not in answer.told:
                answer.told.add(outcome)
                self._count(tenant, answer.task, answer.version, outcome)

    def counts(self, tenant: str, task: str, version: str) -> Mapping[str, int]:
        """What a tenant may know: of its own answers, asked, shown, accepted, dismissed, since the start."""
        return _named(self._counts.get((tenant, task, version), Counter()))

    def all(self) -> list[tuple[str, str, Mapping[str, int]]]:
        """Of every version that was asked for, by all tenants together."""
        with self._lock:
            known = [(key, Counter(counts)) for key, counts in self._counts.items()]
        sums: dict[tuple[str, str], Counter[str]] = {}
        for (_, task, version), counts in known:
            sums.setdefault((task, version), Counter()).update(counts)
        return [(task, version, _named(counts)) for (task, version), counts in sums.items()]

    def _count(self, tenant: str, task: str, version: str, kind: str) -> None:
        self._counts.setdefault((tenant, task, version), Counter())[kind] += 1


def _named(counts: Counter[str]) -> dict[str, int]:
    return {kind: counts[kind] for kind in ("asked", "shown", "accepted", "dismissed")}
