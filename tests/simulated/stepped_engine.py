"""Scheduler and runner without a thread, a step at a time, on an executor without a model."""

from collections import defaultdict

from halfline.engine.drafting import Drafter
from halfline.engine.greedy_runs import longest_run
from halfline.engine.hash_executor import HashExecutor
from halfline.engine.options import EngineOptions
from halfline.engine.plan import Plan
from halfline.engine.runner import Runner
from halfline.engine.scheduler import Scheduler
from halfline.engine.sequence import Outcome, Progress, Work
from halfline.kv.block_pool import BlockPool
from halfline.kv.prefix_index import PrefixIndex
from halfline.model.executor import Batch
from halfline.sampling.sampler import Scored


class SteppedEngine:
    """The books are checked after every call. Time is the step number.

    What each sequence was told is kept by its id, what ran by step.
    """

    def __init__(
        self,
        executor: HashExecutor | None = None,
        options: EngineOptions | None = None,
        drafter: Drafter | None = None,
    ) -> None:
        self.executor = executor or HashExecutor(64)
        self.pool = BlockPool(self.executor.num_blocks)
        options = options or EngineOptions(step_tokens=64, max_num_seqs=8)
        self.scheduler = Scheduler(
            self.pool,
            PrefixIndex(),
            options,
            drafter,
            self.executor.kv_format,
            max_run_tokens=longest_run(self.executor, options),
        )
        self._runner = Runner(self.executor)
        self.plans: list[Plan] = []
        self.batches: list[Batch] = []
        self.executor.before_run = self.batches.append
        self.tokens: dict[int, list[Scored]] = defaultdict(list)
        self.texts: dict[int, str] = defaultdict(str)
        self.prompt_scores: dict[int, list[Scored]] = defaultdict(list)
        self.outcomes: dict[int, Outcome] = {}

    def add(self, sequence_id: int, asked: Work) -> None:
        self.scheduler.add(sequence_id, asked, self.now)
        self.scheduler.check()

    def step(self) -> Plan:
        plan = self.scheduler.plan(self.now)
        assert plan.chunks or self.scheduler.idle, "something always advances"
        self.scheduler.check()
        if plan.chunks:
            self.run_planned(plan, self.now)
        self.scheduler.check()
        return plan

    def run_planned(self, plan: Plan, now: float) -> None:
        """The plan that the scheduler made last; its books are not looked at."""
        self.plans.append(plan)
        results = self._runner.run(plan)
        assert results is not None
        self._note(self.scheduler.commit(plan, results, now))

    def stop_a_step(self) -> None:
        """One is planned and stopped while it runs: it counts for nothing."""
        self.executor.stop_flag.set()
        assert self._runner.run(self.scheduler.plan(self.now)) is None
        self.executor.stop_flag.clear()
        self.scheduler.abandon()
        self.scheduler.check()

    def cancel(self, sequence_id: int) -> None:
        self._note(self.scheduler.end([sequence_id], "cancelled", self.now))
        self.scheduler.check()

    def run(self) -> None:
        """Until nobody has anything left to do; then nobody holds anything."""
        while not self.scheduler.idle:
            self.step()
        assert self.pool.num_held == 0

    @property
    def now(self) -> float:
        return float(self.scheduler.stats().total_steps)

    def _note(self, progress: list[Progress]) -> None:
        for each in progress:
            assert each.sequence_id not in self.outcomes, "nothing comes after the outcome"
            self.tokens[each.sequence_id] += each.piece.tokens
            self.texts[each.sequence_id] += each.piece.text
            self.prompt_scores[each.sequence_id] += each.prompt_scores
            if each.outcome is not None:
                self.outcomes[each.sequence_id] = each.outcome


def sizes(plan: Plan) -> dict[int, int]:
    """How many places of each sequence the plan computes."""
    return {chunk.sequence.id: chunk.num_tokens for chunk in plan.chunks}
