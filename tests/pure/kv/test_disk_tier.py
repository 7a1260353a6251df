"""What was computed before a restart is not computed again, and no disk is ever waited for in vain."""

import asyncio
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from character_work import Characters

from halfline.engine.handle import EngineHandle
from halfline.engine.hash_executor import HashExecutor, hash_logits
from halfline.engine.options import EngineOptions
from halfline.engine.sequence import Outcome, Work
from halfline.kv.block_file import BlockHeader
from halfline.kv.disk_store import DiskStore
from halfline.model.executor import Batch
from halfline.request import SamplingParams
from halfline.sampling.reader import Reader
from halfline.sampling.sampler import Sampler

SCOPE = b"s" * 32
VOCAB = 258
PATIENCE_S = 120.0
BLOCK = 16
PROMPT = [place % 251 for place in range(200)]


def alone(prompt: list[int], max_new_tokens: int) -> list[int]:
    tokens = list(prompt)
    for _ in range(max_new_tokens):
        tokens.append(int(hash_logits(tokens, VOCAB).argmax()))
    return tokens[len(prompt) :]


def open_store(directory: Path, max_bytes: int = 1 << 20, name_bytes: int = 16) -> DiskStore:
    return DiskStore(directory, SCOPE, max_bytes, name_bytes)


@contextmanager
def running(store: DiskStore, num_blocks: int = 64) -> Iterator[EngineHandle]:
    engine = EngineHandle(
        HashExecutor(num_blocks), EngineOptions(step_tokens=64, max_num_seqs=64), disk=store
    )
    engine.start()
    try:
        yield engine
    finally:
        engine.close(5.0)
        assert engine.failure is None


async def complete(
    engine: EngineHandle, prompt: list[int], max_new_tokens: int = 3, namespace: str = "me"
) -> tuple[list[int], Outcome]:
    work = Work(
        prompt_ids=tuple(prompt),
        max_new_tokens=max_new_tokens,
        sampler=Sampler(SamplingParams(), prompt),
        reader=Reader(Characters()),
        stop_token_ids=frozenset(),
        namespace=namespace,
    )
    generation = engine.submit([work])
    tokens: list[int] = []
    async with asyncio.timeout(PATIENCE_S):
        async for _, progress in generation:
            tokens += [token.token_id for token in progress.piece.tokens]
    return tokens, generation.outcomes[0]


def num_reused(engine: EngineHandle, prompt: list[int], namespace: str = "me") -> int:
    """After checking that the answer is right."""
    tokens, outcome = asyncio.run(complete(engine, prompt, namespace=namespace))
    assert tokens == alone(prompt, 3)
    return outcome.stats.num_reused


async def saved(directory: Path, num_blocks: int) -> None:
    """Typists pause, and then the engine saves."""
    async with asyncio.timeout(PATIENCE_S):
        while len(list(directory.glob("*.kv"))) < num_blocks:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("length", [17, 32, 33, 160, 175, 200])
def test_after_a_restart_at_most_one_block_of_a_known_prompt_is_computed(tmp_path: Path, length: int) -> None:
    prompt = PROMPT[:length]
    with running(open_store(tmp_path)) as engine:
        assert num_reused(engine, prompt) == 0
    with running(open_store(tmp_path)) as engine:
        assert length - num_reused(engine, prompt) <= BLOCK
        assert engine.stats().total_fetched_blocks == (length - 1) // BLOCK


def test_the_arena_may_be_too_small_for_what_the_disk_has(tmp_path: Path) -> None:
    prompts = [[seed, *PROMPT[:150]] for seed in range(4)]

    with running(open_store(tmp_path), num_blocks=12) as engine:
        for number, prompt in enumerate(prompts):
            num_reused(engine, prompt)
            asyncio.run(saved(tmp_path, (number + 1) * 9))
        assert num_reused(engine, prompts[0]) == 144, "evicted from the arena, read from the disk"


def test_prompts_that_wait_for_the_same_blocks_read_them_once(tmp_path: Path) -> None:
    with running(open_store(tmp_path)) as engine:
        num_reused(engine, PROMPT)

    async def together(engine: EngineHandle) -> None:
        results = await asyncio.gather(*(complete(engine, [*PROMPT, last]) for last in range(5)))
        for last, (tokens, outcome) in enumerate(results):
            assert tokens == alone([*PROMPT, last], 3)
            assert outcome.stats.num_reused >= 192

    with running(open_store(tmp_path)) as engine:
        asyncio.run(together(engine))
        assert engine.stats().total_fetched_blocks == 12


def test_prompts_that_begin_alike_and_part_fetch_what_is_their_own_too(tmp_path: Path) -> None:
    files = [[7] * BLOCK + [number] * 2 * BLOCK + PROMPT[:100] for number in range(4)]
    with running(open_store(tmp_path)) as engine:
        for file in files:
            num_reused(engine, file)

    async def together(engine: EngineHandle) -> None:
        results = await asyncio.gather(*(complete(engine, file) for file in files))
        for file, (tokens, outcome) in zip(files, results, strict=True):
            assert tokens == alone(file, 3)
            assert len(file) - outcome.stats.num_reused <= BLOCK

    with running(open_store(tmp_path)) as engine:
        asyncio.run(together(engine))
        assert engine.stats().total_fetched_blocks == 1 + 4 * 8, "what they begin with is read once"


def test_a_directory_that_can_only_be_read_any_more_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with running(open_store(tmp_path)) as engine:
        num_reused(engine, PROMPT)
        num_reused(engine, PROMPT[100:])
    damaged = min(tmp_path.glob("*.kv"), key=lambda path: path.stat().st_mtime_ns)
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")

    def refuse(*args: object, **kwargs: object) -> None:
        raise OSError(30, "Read-only file system")

    with running(open_store(tmp_path)) as engine:
        monkeypatch.setattr("os.utime", refuse)
        monkeypatch.setattr(Path, "unlink", refuse)
        assert num_reused(engine, PROMPT[100:]) == 96
        assert num_reused(engine, PROMPT) == 0, "its first block is damaged"
        assert num_reused(engine, [*PROMPT[100:], 1, 2]) >= 96
        monkeypatch.undo()
    assert [record.message for record in caplog.records] == ["a KV file cannot be changed"]


def test_an_engine_that_broke_leaves_its_directory_to_the_next_with_what_it_had_saved(tmp_path: Path) -> None:
    def breaks(batch: Batch) -> None:
        raise RuntimeError("the machine is on fire")

    executor = HashExecutor(64)
    engine = EngineHandle(executor, EngineOptions(step_tokens=64, max_num_seqs=64), disk=open_store(tmp_path))
    engine.start()
    num_reused(engine, PROMPT)
    asyncio.run(saved(tmp_path, 12))
    executor.before_run = breaks
    _, outcome = asyncio.run(complete(engine, [1, 2, 3]))
    assert outcome.finish_reason == "failed"
    engine.close(0.0)
    with running(open_store(tmp_path)) as engine:
        assert num_reused(engine, PROMPT) == 192


def test_tenants_find_nothing_of_each_other_on_disk(tmp_path: Path) -> None:
    with running(open_store(tmp_path)) as engine:
        num_reused(engine, PROMPT, "me")
    with running(open_store(tmp_path)) as engine:
        assert num_reused(engine, PROMPT, "you") == 0


def test_of_a_prompt_with_a_damaged_block_what_comes_before_is_used(tmp_path: Path) -> None:
    with running(open_store(tmp_path)) as engine:
        num_reused(engine, PROMPT)
    by_age = sorted(tmp_path.glob("*.kv"), key=lambda path: path.stat().st_mtime_ns)
    damaged = by_age[5].read_bytes()
    by_age[5].write_bytes(damaged[:250] + b"?" + damaged[251:])
    with running(open_store(tmp_path)) as engine:
        assert num_reused(engine, PROMPT) == 5 * BLOCK
    with running(open_store(tmp_path)) as engine:
        assert num_reused(engine, PROMPT) == 192, "and was written again"


def test_answers_are_right_with_names_of_eight_bits(tmp_path: Path) -> None:
    for _ in range(3):
        with running(open_store(tmp_path, name_bytes=1), num_blocks=40) as engine:
            for seed in range(40):
                num_reused(engine, [seed, *PROMPT[: 20 + 4 * seed]])


class SlowStore(DiskStore):
    """Reads wait for `opened`; writes fail if `full`."""

    opened: threading.Event
    full = False

    def read(self, name: bytes, tokens: bytes) -> memoryview | None:
        assert self.opened.wait(PATIENCE_S)
        return super().read(name, tokens)

    def write(self, header: BlockHeader, data: memoryview) -> None:
        if self.full:
            raise OSError(28, "No space left on device")
        super().write(header, data)


@pytest.fixture
def slow_store(tmp_path: Path) -> Iterator[SlowStore]:
    """One that knows the prompt."""
    with running(open_store(tmp_path)) as engine:
        num_reused(engine, PROMPT)
    store = SlowStore(tmp_path, SCOPE, 1 << 20)
    store.opened = threading.Event()
    yield store
    store.opened.set()


def test_a_disk_that_hangs_costs_its_patience_and_no_more(slow_store: SlowStore) -> None:
    with running(slow_store) as engine:
        assert num_reused(engine, PROMPT) == 0
        slow_store.opened.set()


def test_others_go_on_while_a_prompt_waits_for_the_disk(
    slow_store: SlowStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("halfline.kv.disk_tier.PATIENCE_S", PATIENCE_S)  # however slowly the others go on

    async def main(engine: EngineHandle) -> None:
        waiting = asyncio.create_task(complete(engine, PROMPT))
        tokens, _ = await complete(engine, PROMPT[100:], 20)
        assert tokens == alone(PROMPT[100:], 20)
        assert not waiting.done()
        slow_store.opened.set()
        tokens, _ = await waiting
        assert tokens == alone(PROMPT, 3)

    with running(slow_store) as engine:
        asyncio.run(main(engine))


def test_one_that_is_cancelled_while_it_waits_ends_at_once(slow_store: SlowStore) -> None:
    async def main(engine: EngineHandle) -> None:
        waiting = asyncio.create_task(complete(engine, PROMPT))
        await asyncio.sleep(0.05)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    with running(slow_store) as engine:
        asyncio.run(main(engine))
        slow_store.opened.set()
        assert engine.stats().num_held_blocks == 0


def test_a_full_disk_is_said_once_and_changes_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = SlowStore(tmp_path, SCOPE, 1 << 20)
    store.opened, store.full = threading.Event(), True
    store.opened.set()
    with running(store) as engine:
        for seed in range(4):
            num_reused(engine, [seed, *PROMPT])
    assert [record.message for record in caplog.records] == ["KV blocks are no longer written to disk"]


def wander(directory: Path, seed: int, num_lives: int, num_prompts: int) -> None:
    """Servers that live one after the other, some killed: small arenas, a small disk, prompts that meet often."""
    random = Random(seed)

    async def one(engine: EngineHandle) -> None:
        blocks = random.choices([0, 1], k=random.randint(0, 6))
        prompt = [block for block in blocks for _ in range(BLOCK)] + random.choices(
            [0, 1], k=random.randint(1, 20)
        )
        await asyncio.sleep(random.random() * 0.05)
        tokens, outcome = await complete(engine, prompt, random.randint(1, 30))
        assert outcome.finish_reason == "length"
        assert tokens == alone(prompt, len(tokens))

    async def life(engine: EngineHandle) -> None:
        await asyncio.gather(*(one(engine) for _ in range(num_prompts)))

    for number in range(num_lives):
        store = open_store(directory, random.choice([5_000, 20_000]), random.choice([1, 16]))
        with running(store, num_blocks=random.choice([12, 24])) as engine:
            asyncio.run(life(engine))
            if random.random() < 0.5:  # killed here: what a next server finds is what is there now
                left_behind = directory.with_name(f"{directory.name}-{number}")
                shutil.copytree(
                    directory, left_behind, ignore_dangling_symlinks=True, copy_function=_copy_if_there
                )
                directory = left_behind


def _copy_if_there(source: str, target: str) -> None:
    try:
        shutil.copy2(source, target)
    except FileNotFoundError:
        pass  # written or evicted while we look


@pytest.mark.parametrize("seed", range(2))
def test_any_history_of_servers_leaves_every_answer_right(tmp_path: Path, seed: int) -> None:
    wander(tmp_path / "kv", seed, num_lives=4, num_prompts=20)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(100, 140))
def test_long_histories_of_servers_leave_every_answer_right(tmp_path: Path, seed: int) -> None:
    wander(tmp_path / "kv", seed, num_lives=20, num_prompts=50)
