"""With the real model: whatever is reused, copied or fetched from disk, logits are bitwise those of a cold start.

Prompts are pieces of halfline's own sources, of exactly k blocks and one token more or less. Each is asked for cold in
a namespace of its own, then again, then in another where a prompt with the same beginning was asked for, then by a
server that has it on disk only. Many run in one batch, which changes nothing and takes a third of the time.
"""

import asyncio
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from random import Random

import pytest

import halfline
from halfline.engine.handle import EngineHandle
from halfline.engine.options import EngineOptions
from halfline.engine.sequence import Work
from halfline.kv.disk_store import DiskStore
from halfline.model.executor import BLOCK_TOKENS
from halfline.model.kv_format import F16, INT8, KvFormat
from halfline.model.load import open_checkpoint
from halfline.native.executor import NativeExecutor
from halfline.request import SamplingParams
from halfline.sampling.reader import Reader
from halfline.sampling.sampler import Row, Sampler, Scored
from halfline.sampling.top_row import TopRow
from halfline.text.detokenizer import Detokenizer
from halfline.text.tokenizer import Tokenizer

NEW_TOKENS = 2
SCOPE = b"s" * 32
PATIENCE_S = 60.0


class Recorder(Sampler):
    """Remembers the very bits of all logits it was shown."""

    def __init__(self, prompt_ids: list[int]) -> None:
        super().__init__(SamplingParams(), prompt_ids)
        self.seen: list[bytes] = []

    @property
    def takes_the_largest(self) -> bool:
        return False  # it wants to see all of them

    def sample(self, logits: Row, top: TopRow | None = None) -> Scored:
        self.seen.append(blake2b(logits.tobytes(), digest_size=16).digest())
        return super().sample(logits, top)


@dataclass(frozen=True)
class Answer:
    token_ids: tuple[int, ...]
    logits: tuple[bytes, ...]
    num_reused: int

    @property
    def said(self) -> tuple[tuple[int, ...], tuple[bytes, ...]]:
        return self.token_ids, self.logits


class Model:
    """The embedded model in one engine after the other, and the sources as tokens."""

    def __init__(self, path: Path, kv_format: KvFormat) -> None:
        with closing(open_checkpoint(path)) as checkpoint:
            # One thread: what is compared does not depend on it, and on a busy machine two wait for each other.
            self.executor = NativeExecutor(checkpoint, num_blocks=512, num_threads=1, kv_format=kv_format)
            self.tokenizer = Tokenizer(checkpoint.vocab)
        sources = sorted(Path(halfline.__file__).parent.rglob("*.py"))
        text = "".join(path.read_text(encoding="utf-8") for path in sources)
        self.token_ids = self.tokenizer.encode(text[:400_000])
        self.engine = self.new_engine()

    def new_engine(self, disk: DiskStore | None = None) -> EngineHandle:
        # Time stands still: no read is given up because the machine is busy.
        options = EngineOptions(step_tokens=64, max_num_seqs=16)
        self.engine = EngineHandle(self.executor, options, clock=lambda: 0.0, disk=disk)
        self.engine.start()
        return self.engine

    def reusable(self, num_tokens: int) -> int:
        """What of that many known tokens is reused: a block that is not full only where the format shares it."""
        shares = self.executor.kv_format.shares_open_blocks
        return num_tokens if shares else num_tokens // BLOCK_TOKENS * BLOCK_TOKENS

    def piece(self, random: Random, length: int) -> list[int]:
        start = random.randrange(len(self.token_ids) - length)
        return list(self.token_ids[start : start + length])

    def ask(self, *prompts: list[int], namespace: str, new_tokens: int = NEW_TOKENS) -> list[Answer]:
        """All at once, in one batch if they fit."""
        return self.ask_each(list(prompts), [namespace] * len(prompts), new_tokens)

    def ask_each(
        self, prompts: list[list[int]], namespaces: list[str], new_tokens: int = NEW_TOKENS
    ) -> list[Answer]:
        """As `ask`, each in a namespace of its own."""
        return asyncio.run(self._ask(prompts, namespaces, new_tokens))

    def wait_until_saved(self, num_blocks: int) -> None:
        """An engine with nothing else to do saves what it computed."""
        deadline = time.monotonic() + PATIENCE_S
        while self.engine.stats().total_saved_blocks < num_blocks:
            assert time.monotonic() < deadline, self.engine.stats()
            time.sleep(0.01)

    async def _ask(self, prompts: list[list[int]], namespaces: list[str], new_tokens: int) -> list[Answer]:
        samplers = [Recorder(prompt) for prompt in prompts]
        generation = self.engine.submit(
            [
                Work(
                    prompt_ids=tuple(prompt),
                    max_new_tokens=new_tokens,
                    sampler=sampler,
                    reader=Reader(Detokenizer(self.tokenizer)),
                    stop_token_ids=frozenset(),
                    namespace=namespace,
                )
                for prompt, sampler, namespace in zip(prompts, samplers, namespaces, strict=True)
            ]
        )
        token_ids: list[list[int]] = [[] for _ in prompts]
        async for position, progress in generation:
            token_ids[position] += [token.token_id for token in progress.piece.tokens]
        return [
            Answer(tuple(ids), tuple(sampler.seen), generation.outcomes[position].stats.num_reused)
            for position, (ids, sampler) in enumerate(zip(token_ids, samplers, strict=True))
        ]


@pytest.fixture(scope="module", params=[F16, INT8], ids=lambda kv_format: kv_format.name)
def model(embedded_model: Path, request: pytest.FixtureRequest) -> Iterator[Model]:
    model = Model(embedded_model, request.param)
    yield model
    model.engine.close(0.0)
    assert model.engine.failure is None


def check_hits(model: Model, random: Random, lengths: list[int], directory: Path) -> None:
    """One prompt of each length, in batches of ten."""
    for first in range(0, len(lengths), 10):
        prompts = [model.piece(random, length) for length in lengths[first : first + 10]]
        own, shared = ([f"{name} {number}" for number in range(len(prompts))] for name in ("own", "shared"))
        cuts = [random.randint(1, len(prompt) - 1) for prompt in prompts]
        begin_alike = [
            prompt[:cut] + model.piece(random, random.randint(1, 20))
            for prompt, cut in zip(prompts, cuts, strict=True)
        ]
        model.engine.close(0.0)
        model.new_engine(DiskStore(directory / str(first), SCOPE, 1 << 30))
        cold = model.ask_each(prompts, own)
        assert [answer.num_reused for answer in cold] == [0] * len(prompts)
        again = model.ask_each(prompts, own)
        assert [answer.num_reused for answer in again] == [
            model.reusable(len(prompt) - 1) for prompt in prompts
        ]
        model.ask_each(begin_alike, shared, new_tokens=1)
        parted = model.ask_each(prompts, shared)
        assert all(answer.num_reused >= model.reusable(cut) for answer, cut in zip(parted, cuts, strict=True))
        num_full = sum((len(prompt) + NEW_TOKENS - 1) // BLOCK_TOKENS for prompt in prompts)
        model.wait_until_saved(2 * num_full)
        model.engine.close(0.0)
        model.new_engine(DiskStore(directory / str(first), SCOPE, 1 << 30))
        fetched = model.ask_each(prompts, own)
        for length, answer in zip(map(len, prompts), fetched, strict=True):
            assert answer.num_reused == (length - 1) // BLOCK_TOKENS * BLOCK_TOKENS
        for warm in (again, parted, fetched):
            assert [answer.said for answer in warm] == [answer.said for answer in cold]


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_hit_says_bitwise_what_a_cold_start_says(model: Model, tmp_path: Path, more: int) -> None:
    lengths = [num_blocks * BLOCK_TOKENS + more for num_blocks in range(1, 11)]
    check_hits(model, Random(more), lengths, tmp_path)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(10))
def test_five_hundred_hits_say_bitwise_what_a_cold_start_says(
    model: Model, tmp_path: Path, part: int
) -> None:
    random = Random(1000 + part)
    lengths = [random.randint(1, 16) * BLOCK_TOKENS + number % 3 - 1 for number in range(50)]
    check_hits(model, random, lengths, tmp_path)


def test_siblings_that_share_one_prefill_say_what_each_says_alone(model: Model) -> None:
    random = Random(7)
    prompt = model.piece(random, 39)
    others = [prompt[:cut] + model.piece(random, 39 - cut) for cut in (3, 20, 35)]
    prompts = [prompt, prompt, *others, prompt]
    together = model.ask(*prompts, namespace="together", new_tokens=20)
    assert sum(answer.num_reused for answer in together) >= 2 * model.reusable(38)
    for position, asked in enumerate(prompts):
        (cold,) = model.ask(asked, namespace=f"sibling {position}", new_tokens=20)
        assert together[position].said == cold.said


def test_a_prompt_that_continues_a_generated_text_hits_it_bitwise(model: Model) -> None:
    prompt = model.piece(Random(8), 30)
    (first,) = model.ask(prompt, namespace="talk", new_tokens=25)
    longer = [*prompt, *first.token_ids]
    (warm,) = model.ask([*longer, *prompt[:3]], namespace="talk")
    (cold,) = model.ask([*longer, *prompt[:3]], namespace="cold talk")
    assert warm.num_reused == model.reusable(len(longer) - 1), "the last generated token was never run"
    assert warm.said == cold.said


def test_blocks_from_disk_say_bitwise_what_was_computed(model: Model, tmp_path: Path) -> None:
    prompts = [model.piece(Random(seed), 80 + seed) for seed in range(6)]
    model.engine.close(0.0)
    engine = model.new_engine(DiskStore(tmp_path, SCOPE, 1 << 30))
    cold = [model.ask(prompt, namespace="me")[0] for prompt in prompts]
    engine.close(0.0)
    engine = model.new_engine(DiskStore(tmp_path, SCOPE, 1 << 30))
    for prompt, before in zip(prompts, cold, strict=True):
        (warm,) = model.ask(prompt, namespace="me")
        assert len(prompt) - warm.num_reused <= BLOCK_TOKENS
        assert warm.said == before.said
    assert engine.stats().total_fetched_blocks == sum((len(prompt) - 1) // BLOCK_TOKENS for prompt in prompts)
    engine.close(0.0)
    model.new_engine()
