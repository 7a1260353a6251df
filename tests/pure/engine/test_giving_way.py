"""Who gives way to a prompt that waits: batch work that decodes, a flood, and whoever computes what it begins with."""

import pytest
from character_work import prompt_of
from turn_simulation import Simulation, alone, planned, work

from halfline.engine.options import EngineOptions
from halfline.engine.sequence import Work


def test_batch_work_that_decodes_has_the_time_that_a_keystroke_leaves() -> None:
    engine = Simulation(num_blocks=2000, options=EngineOptions(step_tokens=256, max_num_seqs=128))
    engine.add(work(prompt_of(400, seed=999), key="typed"))
    engine.run()  # what a row takes is known
    batch = [engine.add(work(prompt_of(4, seed=n), 300, priority="batch", key="batch")) for n in range(60)]
    while len(engine.first_planned) < 61:
        engine.step()
    engine.step()
    assert engine.step_ms[-1] > 60.0, "with nobody else all of them decode"
    engine.step_ms.clear()
    before = engine.computed["batch"]
    typed = engine.add(work(prompt_of(300, seed=1000), 5, key="typed"))
    while typed not in engine.outcomes:
        assert typed in planned(engine.step())
    assert max(engine.step_ms) <= 32.0, "as long as a step may take, and what was learned too well"
    assert engine.computed["batch"] > before, "they go on beside it"
    engine.run()
    for number in batch:
        assert engine.tokens[number] == alone(list(engine.works[number].prompt_ids), 300)


def test_batch_work_waits_for_no_longer_than_its_patience_beside_many_that_are_typed() -> None:
    engine = Simulation(
        num_blocks=2000, options=EngineOptions(step_tokens=64, max_num_seqs=64, patience_s=0.5)
    )
    batch = engine.add(work(prompt_of(4, seed=0), 30, priority="batch", key="batch"))
    engine.step()
    for number in range(1, 50):
        engine.add(work(prompt_of(4, seed=number), 200, user=str(number)))
    while batch not in engine.outcomes:
        engine.step()
    assert engine.latency_ms(batch) < 500.0 + 35 * 100.0


def test_who_waits_for_the_blocks_of_one_that_has_less_right_lends_it_its_turn() -> None:
    """What both begin with was begun by a key that is far ahead of three others, which type all the time."""

    def latency_ms(seed: int) -> float:
        engine = Simulation(2000, EngineOptions(step_tokens=128, max_num_seqs=64))
        engine.add(work(prompt_of(30, seed=9), 900, key="c", namespace="team"))
        engine.add(work(prompt_of(3000, seed=8), key="ahead", namespace="team"))
        for _ in range(40):
            engine.step()
        engine.add(work(prompt_of(2000, seed=1), key="ahead", namespace="team"))
        engine.step()

        def step() -> None:
            for key in "cd":
                if all(each.key != key or n in engine.outcomes for n, each in engine.works.items() if n > 2):
                    engine.add(work(prompt_of(400, seed=100 + len(engine.works)), key=key, namespace="team"))
            engine.step()

        for _ in range(3):
            step()
        waits = engine.add(work(prompt_of(2000, seed=seed)[:300], key="b", namespace="team"))
        while waits not in engine.outcomes:
            step()
        return engine.latency_ms(waits)

    assert latency_ms(seed=1) <= latency_ms(seed=2), "at least as fast as one that begins like nobody's"


def test_prompts_of_one_key_that_do_not_fit_keep_nobody_else_from_being_tried() -> None:
    engine = Simulation(num_blocks=65, options=EngineOptions(step_tokens=128, max_num_seqs=64))
    for number in range(20):
        engine.add(work(prompt_of(900, seed=number), 120 if number == 0 else 5, key="large"))
    for _ in range(12):
        engine.step()
    for number in range(30):  # so often that this key is ahead of the other
        small = engine.add(work(prompt_of(60, seed=1000 + number), 2, key="small"))
        engine.step_ms.clear()
        while small not in engine.outcomes:
            engine.step()
        assert len(engine.step_ms) < 10, f"there is room for number {number}"


def flood(num_blocks: int, max_num_seqs: int, asked: Work) -> tuple[Simulation, int]:
    """Somebody's long answers hold all that there is when another asks."""
    options = EngineOptions(step_tokens=128, max_num_seqs=max_num_seqs, patience_s=0.5)
    engine = Simulation(num_blocks, options)
    for number in range(8):
        engine.add(work(prompt_of(40, seed=number), 500, key="key", user="flood"))
    for _ in range(20):
        engine.step()
    waits = engine.add(asked)
    while waits not in engine.outcomes:
        engine.step()
    return engine, waits


@pytest.mark.parametrize(("num_blocks", "max_num_seqs"), [(300, 4), (40, 64)])
@pytest.mark.parametrize(("key", "user"), [("other", ""), ("key", "other")])
def test_nobody_waits_for_as_long_as_the_answers_are_of_who_holds_all_places_or_blocks(
    num_blocks: int, max_num_seqs: int, key: str, user: str
) -> None:
    engine, waits = flood(num_blocks, max_num_seqs, work(prompt_of(300, seed=99), 2, key=key, user=user))
    assert engine.latency_ms(waits) <= 2500.0, "an answer of the flood takes more than four seconds"
    engine.run()
    for number, asked in engine.works.items():
        assert engine.tokens[number] == alone(list(asked.prompt_ids), asked.max_new_tokens)


def test_who_has_as_much_as_others_takes_nothing_from_them() -> None:
    engine = Simulation(300, EngineOptions(step_tokens=128, max_num_seqs=4, patience_s=0.2))
    for number in range(8):
        engine.add(work(prompt_of(40, seed=number), 300, key="ab"[number % 2]))
    engine.run()
    assert engine.scheduler.stats().total_preemptions == 0
