"""What guesses save, what is counted of them, and what of their places is kept."""

import pytest
from character_work import alone, ids, prompt_of, work
from guessers import GUESSERS, Guesser, Scripted, far_too_long, half_right, nothing, right, wrong
from stepped_engine import SteppedEngine


def test_right_guesses_save_steps_and_wrong_ones_cost_none() -> None:
    num_steps = {}
    for guess in (nothing, right, wrong, half_right):
        engine = SteppedEngine(drafter=Scripted(guess))
        engine.add(0, work(prompt_of(20, seed=2), 40))
        engine.run()
        num_steps[guess] = len(engine.plans)
    assert num_steps[nothing] == num_steps[wrong] == 40
    assert num_steps[right] == 1, "all but the first token were guessed beside the prompt"
    assert 1 < num_steps[half_right] < 40


def test_the_drafter_is_told_how_many_rows_ran_and_how_long_that_took() -> None:
    drafter = Scripted(half_right)
    engine = SteppedEngine(drafter=drafter)
    engine.add(0, work(prompt_of(20, seed=2), 10))
    while not engine.scheduler.idle:
        plan = engine.scheduler.plan(100.0)
        engine.run_planned(plan, 100.25)
        assert drafter.steps[-1] == (plan.num_rows, 250.0)
    assert [num_rows for num_rows, _ in drafter.steps] == [len(each.token_ids) for each in engine.batches]


@pytest.mark.parametrize("guess", GUESSERS)
def test_places_computed_are_counted_once_and_drafts_by_themselves(guess: Guesser) -> None:
    engine = SteppedEngine(drafter=Scripted(guess))
    engine.add(0, work(prompt_of(20, seed=3), 30))
    engine.run()
    stats, totals = engine.outcomes[0].stats, engine.scheduler.stats()
    assert stats.num_computed == totals.total_computed_tokens == 20 + 29
    assert stats.drafted == totals.total_drafted_tokens
    assert stats.accepted == totals.total_accepted_tokens
    drafted, accepted = sum(stats.drafted.values()), sum(stats.accepted.values())
    assert drafted == sum(chunk.num_rows - chunk.num_tokens for plan in engine.plans for chunk in plan.chunks)
    assert drafted - accepted == sum(len(batch.token_ids) for batch in engine.batches) - 49
    expected: dict[Guesser, tuple[int, int]] = {right: (29, 29), far_too_long: (29, 29), nothing: (0, 0)}
    assert (drafted, accepted) == expected.get(guess, (drafted, accepted))
    assert accepted == 0 or guess is not wrong


def test_rejected_places_are_neither_published_nor_reused() -> None:
    prompt = prompt_of(30, seed=5)
    guessed = [1, 2, 3] * 12

    def one_guess(token_ids: list[int], room: int) -> list[int]:
        return guessed if len(token_ids) == 30 else []

    engine = SteppedEngine(drafter=Scripted(one_guess))
    engine.add(0, work(prompt, 40))
    engine.step()
    engine.step()
    engine.add(1, work(prompt + guessed, 5))
    engine.run()
    reused = engine.outcomes[1].stats.num_reused
    assert reused <= 30, "beyond the prompt the block holds other tokens than were guessed"
    assert engine.tokens[1] == alone(prompt + guessed, 5)


def test_accepted_places_are_reused_by_the_next_prompt() -> None:
    prompt = prompt_of(20, seed=6)
    following = prompt + ids(alone(prompt, 30))
    engine = SteppedEngine(drafter=Scripted(right))
    engine.add(0, work(prompt, 30))
    engine.run()
    engine.add(1, work(following, 5))
    engine.run()
    assert engine.outcomes[1].stats.num_reused >= 48
    assert engine.tokens[1] == alone(following, 5)
