"""Scheduler and runner under a simulated clock, on an executor without a model: whose turn it is, seen from outside."""

from collections import defaultdict
from dataclasses import dataclass, field

from character_work import VOCAB, Characters

from halfline.engine.hash_executor import HashExecutor, hash_logits
from halfline.engine.options import EngineOptions
from halfline.engine.plan import Plan
from halfline.engine.runner import Runner
from halfline.engine.scheduler import Scheduler
from halfline.engine.sequence import Outcome, Progress, Work
from halfline.kv.block_pool import BlockPool
from halfline.kv.prefix_index import PrefixIndex
from halfline.request import Priority, SamplingParams
from halfline.sampling.reader import Reader
from halfline.sampling.sampler import Sampler

FIXED_MS, ROW_MS = 4.0, 1.0
PRIORITIES: tuple[Priority, ...] = ("interactive", "batch", "idle")


def work(
    prompt: list[int],
    max_new_tokens: int = 1,
    *,
    priority: Priority = "interactive",
    key: str = "key",
    user: str = "",
    deadline_ms: float | None = None,
    prompt_logprobs: int | None = None,
    namespace: str | None = None,
) -> Work:
    return Work(
        prompt_ids=tuple(prompt),
        max_new_tokens=max_new_tokens,
        sampler=Sampler(SamplingParams(), prompt),
        reader=Reader(Characters()),
        stop_token_ids=frozenset(),
        namespace=namespace or key,
        prompt_logprobs=prompt_logprobs,
        priority=priority,
        key=key,
        user=user,
        deadline_ms=deadline_ms,
    )


def alone(prompt: list[int], max_new_tokens: int) -> list[int]:
    tokens = list(prompt)
    for _ in range(max_new_tokens):
        tokens.append(int(hash_logits(tokens, VOCAB).argmax()))
    return tokens[len(prompt) :]


@dataclass
class Simulation:
    """A step takes FIXED_MS and ROW_MS per row; the books, where they are small, are checked after every call."""

    num_blocks: int = 256
    options: EngineOptions = field(default_factory=lambda: EngineOptions(step_tokens=128, max_num_seqs=64))
    now: float = 100.0

    def __post_init__(self) -> None:
        self.pool = BlockPool(self.num_blocks)
        self.scheduler = Scheduler(self.pool, PrefixIndex(), self.options)
        self.runner = Runner(HashExecutor(self.num_blocks))
        self.works: dict[int, Work] = {}
        self.tokens: dict[int, list[int]] = defaultdict(list)
        self.outcomes: dict[int, Outcome] = {}
        self.submitted_at: dict[int, float] = {}
        self.ended_at: dict[int, float] = {}
        self.admitted_at: dict[int, float] = {}
        self.first_planned: dict[int, float] = {}
        self.own_ms: dict[int, float] = defaultdict(float)  # of steps that had rows for it
        self.computed: dict[str, int] = defaultdict(int)  # by key and user
        self.step_ms: list[float] = []

    def add(self, asked: Work) -> int:
        number = len(self.works)
        self.works[number] = asked
        self.submitted_at[number] = self.now
        self.scheduler.add(number, asked, self.now)
        self._check()
        return number

    def step(self) -> Plan:
        plan = self.scheduler.plan(self.now)
        assert plan.chunks or self.scheduler.idle, "something always advances"
        if plan.chunks:
            for sequence in self.scheduler._running:
                self.admitted_at.setdefault(sequence.id, self.now)
            for chunk in plan.chunks:
                self.first_planned.setdefault(chunk.sequence.id, self.now)
                self.computed[chunk.sequence.work.key + chunk.sequence.work.user] += chunk.num_tokens
            results = self.runner.run(plan)
            assert results is not None
            self.step_ms.append(FIXED_MS + ROW_MS * plan.num_rows)
            self.now += self.step_ms[-1] / 1e3
            for chunk in plan.chunks:
                self.own_ms[chunk.sequence.id] += self.step_ms[-1]
            self._note(self.scheduler.commit(plan, results, self.now))
        self._check()
        return plan

    def abandon(self) -> None:
        """A step that was stopped."""
        if self.scheduler.plan(self.now).chunks:
            self.scheduler.abandon()
        self._check()

    def end(self, number: int) -> None:
        self._note(self.scheduler.end([number], "superseded", self.now))
        self._check()

    def run(self) -> None:
        while not self.scheduler.idle:
            self.step()
        assert self.pool.num_held == 0

    def _check(self) -> None:
        if self.num_blocks <= 64:
            self.scheduler.check()

    def _note(self, progress: list[Progress]) -> None:
        for each in progress:
            assert each.sequence_id not in self.outcomes, "nothing comes after the outcome"
            self.tokens[each.sequence_id] += [token.token_id for token in each.piece.tokens]
            if each.outcome is not None:
                self.outcomes[each.sequence_id] = each.outcome
                self.ended_at[each.sequence_id] = self.now

    def latency_ms(self, number: int) -> float:
        return (self.ended_at[number] - self.submitted_at[number]) * 1e3


def planned(plan: Plan) -> list[int]:
    return [chunk.sequence.id for chunk in plan.chunks]
