"""At every place of a document the answer is what greedy says behind the forced text, and no character breaks."""

import asyncio
from dataclasses import replace
from typing import Literal

import pytest

from halfline.engine.handle import EngineHandle
from halfline.engine.hash_executor import HashExecutor, hash_logits
from halfline.engine.options import EngineOptions
from halfline.pipeline.complete import CompletionPipeline
from halfline.pipeline.options import PipelineOptions
from halfline.pipeline.prompt import Prompt, PromptBuilder
from halfline.request import CompletionRequest, Document, SamplingParams
from halfline.sampling.stop import StopStrings
from halfline.text.detokenizer import Detokenizer
from halfline.text.spellings import Spellings
from halfline.text.token_bytes import byte_alphabet
from halfline.text.tokenizer import Tokenizer
from halfline.text.vocab import VocabSpec

TEXT = "def f(x):\r\n\treturn '日本語 🎉' + self.x\n\n\n    # ünïcode  self.\n\tselfish(\n"
MAX_TOKENS = 6
OPTIONS = PipelineOptions(postprocess=False, suggestions="off")


def tokenizer() -> Tokenizer:
    """Bytes, and some words, each with a blank before it and without."""
    bytes_ = byte_alphabet()
    space = bytes_[ord(" ")]
    merges = [("s", "e"), ("l", "f"), ("se", "lf"), (space, "self"), ("r", "e"), (space, "re")]
    tokens = (*bytes_.values(), *("".join(pair) for pair in merges), "<eos>")
    return Tokenizer(
        VocabSpec(
            kind="bpe",
            tokens=tokens,
            token_types=(1,) * (len(tokens) - 1) + (3,),
            merges=tuple(" ".join(pair) for pair in merges),
            pre_tokenizer="qwen2",
            eos_ids=(len(tokens) - 1,),
        )
    )


TOKENIZER = tokenizer()
SPELLINGS = Spellings(TOKENIZER)


def request(place: int, path: str | None = "a.py", **params: object) -> CompletionRequest:
    chosen = SamplingParams(**params)  # type: ignore[arg-type]
    document = Document(TEXT[:place], TEXT[place:], path)
    return CompletionRequest(id=f"r{place}", prompt=document, params=chosen, max_tokens=MAX_TOKENS)


def slowly(prompt: Prompt, count: int) -> str:
    """Greedy behind the prompt, only what agrees while something is forced; `count` tokens beyond that."""
    tokens, left = list(prompt.token_ids), prompt.forced_text.encode()
    detokenizer, text, num_new = Detokenizer(TOKENIZER), "", 0
    while num_new < count:
        logits = hash_logits(tokens, TOKENIZER.vocab_size)
        spelt = [SPELLINGS.of(token_id) for token_id in range(TOKENIZER.vocab_size)]
        allowed = [
            i
            for i, data in enumerate(spelt)
            if not left or (data and (data.startswith(left) or left.startswith(data)))
        ]
        best = max(allowed, key=lambda i: (logits[i], -i))
        if best in prompt.stop_token_ids:
            break
        num_new += len(spelt[best]) > len(left) or not left
        left = left[len(spelt[best]) :]
        tokens.append(best)
        text += detokenizer.push(best)
    text += detokenizer.finish()
    return text[len(prompt.forced_text) :]


async def answers(
    requests: list[CompletionRequest], speculation: Literal["auto", "off"]
) -> list[tuple[str, int, int, int]]:
    """Of each its text, its generated and forced tokens, and how many steps it took."""
    executor = HashExecutor(256, vocab_size=TOKENIZER.vocab_size)
    engine = EngineHandle(executor, EngineOptions(speculation=speculation))
    engine.start()
    pipeline = CompletionPipeline(engine, TOKENIZER, executor.spec, OPTIONS)
    found = []
    try:
        for each in requests:
            num_steps = engine.stats().total_steps
            completion = await pipeline.complete(each)
            forced = completion.receipt.drafted_tokens.get("forced", 0)
            num_steps = engine.stats().total_steps - num_steps
            found.append(
                (completion.choices[0].text, completion.receipt.num_generated_tokens, forced, num_steps)
            )
    finally:
        await asyncio.to_thread(engine.close, 0.0)
    return found


@pytest.mark.parametrize("speculation", ["auto", "off"])
@pytest.mark.parametrize("path", ["a.py", None], ids=["named", "nobody's"])
def test_at_every_place_the_answer_is_constrained_greedy_s(
    speculation: Literal["auto", "off"], path: str | None
) -> None:
    requests = [request(place, path) for place in range(len(TEXT) + 1)]
    builder = PromptBuilder(TOKENIZER, OPTIONS, TOKENIZER.vocab_size, 4096)

    async def expected() -> list[str]:
        return [slowly(await builder.build(each), MAX_TOKENS) for each in requests]

    found = asyncio.run(answers(requests, speculation))
    assert [text for text, *_ in found] == asyncio.run(expected())
    assert all(num_generated <= MAX_TOKENS for _, num_generated, _, _ in found)


def test_what_is_forced_costs_no_step_of_its_own() -> None:
    """Where the model agrees with the usual tokens of the forced text, they are run with the prompt's last one."""
    requests = [
        replace(request(place), params=SamplingParams(ignore_eos=True)) for place in range(1, len(TEXT))
    ]
    found = asyncio.run(answers(requests, "off"))
    num_forced = sum(forced for *_, forced, _ in found)
    assert num_forced > len(TEXT)
    assert sum(num_steps for *_, num_steps in found) <= len(requests) * (MAX_TOKENS + 1)


def test_logprobs_and_stop_strings_begin_behind_the_forced_text() -> None:
    place = TEXT.index("return") + 3

    async def main() -> None:
        executor = HashExecutor(256, vocab_size=TOKENIZER.vocab_size)
        engine = EngineHandle(executor, EngineOptions())
        engine.start()
        pipeline = CompletionPipeline(engine, TOKENIZER, executor.spec, OPTIONS)
        try:
            asked = request(place, logprobs=1, ignore_eos=True)
            choice = (await pipeline.complete(asked)).choices[0]
            assert choice.logprobs is not None
            assert len(choice.logprobs) == len(choice.token_ids) == MAX_TOKENS
            assert choice.logprobs[0].offset == 0
            stop = choice.text[1]
            cut = StopStrings([stop])
            expected = cut.push(choice.text)
            stopped = await pipeline.complete(request(place, stop=(stop, "ret"), ignore_eos=True))
            assert stopped.choices[0].text == expected, "what is forced stops nothing"
        finally:
            await asyncio.to_thread(engine.close, 0.0)

    asyncio.run(main())


def test_draws_agree_with_what_stands_before_the_cursor() -> None:
    requests = [request(place, temperature=1.3, seed=place) for place in range(1, len(TEXT), 3)]
    first = asyncio.run(answers(requests, "auto"))
    assert first == asyncio.run(answers(requests, "auto"))
    assert len({text for text, *_ in first}) > len(requests) // 2


def test_healing_can_be_left_out() -> None:
    unhealed = PromptBuilder(TOKENIZER, PipelineOptions(healing="off"), TOKENIZER.vocab_size, 512)
    prompt = asyncio.run(unhealed.build(request(TEXT.index("lf.x"))))
    assert prompt.forced_text == ""
    assert TOKENIZER.decode(prompt.token_ids).endswith("+ se")
