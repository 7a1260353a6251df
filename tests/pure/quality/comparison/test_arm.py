"""An arm on a tiny random model: it forces as it serves, the identity passes the gate and every fault fails it."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from halfline.context.options import ContextOptions
from halfline.context.surroundings import Surroundings
from halfline.engine.options import EngineOptions
from halfline.model.executor import Executor
from halfline.model.random_model import random_checkpoint
from halfline.model.reference import ReferenceExecutor
from halfline.pipeline.options import PipelineOptions
from halfline.quality.comparison.arm import Arm, Way
from halfline.quality.comparison.case import Case
from halfline.quality.comparison.lines import Lines
from halfline.quality.comparison.run import compare
from halfline.quality.damage import PLANTS, NoisyLogits
from halfline.quality.divergence import ExecutorLogits
from halfline.quality.gate_file import read_gate_file
from halfline.quality.infilling.suites import Task
from halfline.quality.regression_test import Verdict, run_regression_test, worst
from halfline.request import Part, SamplingParams
from halfline.text.token_bytes import byte_alphabet
from halfline.text.tokenizer import Tokenizer
from halfline.text.vocab import VocabSpec

CHECKPOINT = random_checkpoint()
WAY = Way(engine=EngineOptions(), pipeline=PipelineOptions(), params=SamplingParams(), max_tokens=6)


MARKERS = ("<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<repo_name>", "<file_sep>")
INFILLS = VocabSpec(
    kind="bpe",
    tokens=(*byte_alphabet().values(), *MARKERS),
    token_types=(1,) * 256 + (3,) * len(MARKERS),
    pre_tokenizer="gpt-2",
)


def task(seed: int) -> Task:
    chance = random.Random(seed)
    words = [chance.choice(["alpha", "beta", "(", ")", "=", "\n"]) for _ in range(12)]
    return Task(
        id=f"t{seed}",
        problem=f"p{seed % 2}",
        path="task.py",
        prefix=" ".join(words) + "\n",
        suffix="\nend\n",
        wanted="gamma = 1",
        single_line=False,
        checks=None,
    )


TASKS = [task(seed) for seed in range(3)]


def executor() -> ReferenceExecutor:
    return ReferenceExecutor(CHECKPOINT, num_blocks=64)


def arm(executor: Executor) -> Arm:
    return Arm(executor, Tokenizer(CHECKPOINT.vocab), WAY)


def compared(candidate: Executor) -> list[Case]:
    async def run() -> list[Case]:
        with Lines(None, {}) as lines:
            return await compare(
                TASKS, lambda: arm(executor()), lambda: arm(candidate), lambda program: "passed", lines
            )

    return asyncio.run(run())


def judged(candidate: Executor) -> Verdict:
    return run_regression_test(compared(candidate), read_gate_file().margins["lossless"])


def test_the_identity_is_at_zero_and_passes() -> None:
    verdict = judged(executor())
    assert verdict.passed
    assert (verdict.report.divergence.max_kl, verdict.report.fidelity["same"].value) == (0.0, 1.0)


@pytest.mark.parametrize("name", PLANTS)
def test_every_planted_fault_trips_the_gate(name: str) -> None:
    plant: Callable[[Executor], Executor] = PLANTS[name]
    verdict = judged(plant(executor()))
    assert {breach.metric for breach in verdict.breaches} >= {"mean_kl", "p99_kl"}


def test_forced_logits_are_those_of_the_whole_text_at_once() -> None:
    async def forced() -> tuple[list[int], np.ndarray]:
        one = arm(executor())
        true_ids = await one.true_ids(TASKS[0])
        return true_ids, await one.logits(TASKS[0], true_ids)

    true_ids, logits = asyncio.run(forced())
    tokenizer = Tokenizer(CHECKPOINT.vocab)
    assert len(true_ids) == WAY.max_tokens
    written = TASKS[0].prefix + TASKS[0].wanted
    start = written.index(tokenizer.decode(true_ids, continues=True))  # the healed word before the hole, too
    text = np.array(tokenizer.encode(written[:start]) + true_ids, np.int32)
    (whole,) = ExecutorLogits(executor()).pieces(text[:-1], 512)
    np.testing.assert_allclose(logits, whole[-len(true_ids) :], rtol=1e-4, atol=1e-5)


def test_shortening_other_files_shows_in_what_the_model_expects_and_in_the_prompts_length() -> None:
    tokenizer = Tokenizer(INFILLS)
    checkpoint = random_checkpoint(vocab_size=261)
    brings = replace(TASKS[0], parts=(Part("# what delta is about\ndelta = 1\n", "other.py"),))

    def infilling(**options: tuple[str, ...]) -> Arm:
        surroundings = Surroundings(tokenizer, 261, ContextOptions(**options))  # type: ignore[arg-type]
        return Arm(ReferenceExecutor(checkpoint, 64), tokenizer, replace(WAY, surroundings=surroundings))

    async def run() -> list[Case]:
        with Lines(None, {}) as lines:
            return await compare(
                [brings],
                infilling,
                lambda: infilling(compression=("comments",)),
                lambda program: "passed",
                lines,
            )

    (case,) = asyncio.run(run())
    assert case.worst_kl > 0
    saved = case.baseline.prompt_tokens - case.candidate.prompt_tokens
    assert saved == len("# what delta is about\n")


def test_a_little_noise_is_seen_and_the_worst_comes_first() -> None:
    cases = compared(NoisyLogits(executor(), 1e-3, np.random.default_rng(0)))
    ordered = worst(cases, 2)
    assert len(ordered) == 2
    assert ordered[0].worst_kl >= ordered[1].worst_kl > 0
