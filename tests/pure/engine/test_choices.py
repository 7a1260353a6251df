"""An executor that chooses is asked for greedy sequences' tokens, and everybody gets what they would get anyway."""

import pytest
from character_work import alone, prompt_of, work
from decoding import Decoding
from guessers import GUESSERS, Guesser, Scripted
from overflowing import OverflowingFrom
from stepped_engine import SteppedEngine

from halfline.engine.options import EngineOptions
from halfline.model.kv_format import F16, INT8, KvFormat
from halfline.request import SamplingParams

GREEDY = SamplingParams()
LOOKED_AT = [
    SamplingParams(temperature=0.8, seed=3),
    SamplingParams(logprobs=2),
    SamplingParams(logit_bias={5: 2.0}),
    SamplingParams(repetition_penalty=1.4, logprobs=0),
]


@pytest.mark.parametrize("kv_format", [F16, INT8], ids=["f16", "int8"])
@pytest.mark.parametrize("guess", GUESSERS)
@pytest.mark.parametrize("step_tokens", [7, 64])
def test_in_mixed_steps_everybody_gets_their_own_tokens_and_scores(
    guess: Guesser, step_tokens: int, kv_format: KvFormat
) -> None:
    options = EngineOptions(step_tokens=step_tokens, max_num_seqs=7)
    engine = SteppedEngine(Decoding(96, kv_format=kv_format), options, Scripted(guess))
    asked = [GREEDY, LOOKED_AT[0], GREEDY, *LOOKED_AT[1:], GREEDY]
    prompts = [prompt_of(11 + 5 * number, seed=number) for number in range(len(asked))]
    for number, (prompt, params) in enumerate(zip(prompts, asked, strict=True)):
        # Of one greedy sequence the prompt is scored: its rows stand in both lists.
        engine.add(number, work(prompt, 12, params, prompt_logprobs=1 if number == 2 else None))
    engine.run()
    for number, (prompt, params) in enumerate(zip(prompts, asked, strict=True)):
        assert engine.tokens[number] == alone(prompt, 12, params)
    assert len(engine.prompt_scores[2]) == len(prompts[2]) - 1
    kinds = {(len(batch.logit_rows) > 0, len(batch.choice_rows) > 0) for batch in engine.batches}
    assert (True, True) in kinds


@pytest.mark.parametrize("params", [GREEDY, *LOOKED_AT])
def test_logits_are_wanted_of_those_alone_whose_sampler_looks_at_them(params: SamplingParams) -> None:
    engine = SteppedEngine(Decoding(64), EngineOptions(step_tokens=64, max_num_seqs=8, run_tokens=1))
    for number in range(3):
        engine.add(number, work(prompt_of(20, seed=number), 6, params))
    engine.run()
    for batch in engine.batches:
        looked_at, chosen = len(batch.logit_rows), len(batch.choice_rows)
        assert (looked_at == 0 and chosen > 0) if params == GREEDY else (looked_at > 0 and chosen == 0)
        assert batch.top_k == 0 or params != GREEDY


def test_who_gets_no_choice_fails_and_its_mates_go_on() -> None:
    long, short = prompt_of(40, seed=1), prompt_of(10, seed=2)
    engine = SteppedEngine(OverflowingFrom(44))
    engine.add(0, work(long, 12))
    engine.add(1, work(short, 12))
    engine.run()
    assert engine.outcomes[0].finish_reason == "failed"
    assert engine.outcomes[0].failure == "the largest logit is not finite"
    assert engine.tokens[0] == alone(long, 5)[: len(engine.tokens[0])] and engine.tokens[0]
    assert engine.tokens[1] == alone(short, 12)
