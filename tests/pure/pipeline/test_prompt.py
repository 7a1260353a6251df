"""What goes into the prompt, and what the ledger says about it."""

import asyncio
import threading
import time
from collections.abc import Iterable
from dataclasses import replace

import pytest

from halfline.errors import BadRequest, PromptTooLong, UnencodableText
from halfline.model.random_model import BOS_ID, EOS_ID, byte_vocab
from halfline.pipeline.options import PipelineOptions
from halfline.pipeline.prompt import Prompt, PromptBuilder
from halfline.request import CompletionRequest, Document, SamplingParams
from halfline.text.tokenizer import Tokenizer
from halfline.text.vocab import VocabSpec

PLAIN = byte_vocab(262)
PREFIX_ID, SUFFIX_ID, MIDDLE_ID = 258, 259, 260


def infill_vocab(*markers: str) -> VocabSpec:
    tokens = (*PLAIN.tokens[:258], *markers, *PLAIN.tokens[258 + len(markers) :])
    types = PLAIN.token_types[:258] + (3,) * len(markers) + PLAIN.token_types[258 + len(markers) :]
    return replace(PLAIN, tokens=tokens, token_types=types)


PSM = infill_vocab("<fim_prefix>", "<fim_suffix>", "<fim_middle>")
SUFFIX_FIRST = infill_vocab("[PREFIX]", "[SUFFIX]")


def build(
    prompt: str | tuple[int, ...] | Document,
    max_tokens: int = 16,
    vocab: VocabSpec = PLAIN,
    limit: int = 2048,
    params: SamplingParams | None = None,
    echo: bool = False,
) -> Prompt:
    builder = PromptBuilder(Tokenizer(vocab), PipelineOptions(), vocab_size=262, max_sequence_tokens=limit)
    request = CompletionRequest(
        id="r", prompt=prompt, params=params or SamplingParams(), max_tokens=max_tokens, echo=echo
    )
    return asyncio.run(builder.build(request))


def test_a_raw_prompt_is_taken_as_it_is() -> None:
    prompt = build("def f():")
    assert prompt.token_ids == tuple(b"def f():")
    assert prompt.places == range(8)
    assert (prompt.text, prompt.rest_of_line, prompt.max_new_tokens) == ("def f():", "", 16)


def test_a_raw_prompt_over_the_context_is_refused_with_its_numbers() -> None:
    with pytest.raises(PromptTooLong, match=r"has 100 tokens and its answer up to 16, .* at most 115"):
        build("x" * 100, limit=115)
    assert len(build("x" * 100, limit=116).token_ids) == 100


def test_an_enormous_raw_prompt_is_refused_without_being_encoded() -> None:
    started_at = time.process_time()
    with pytest.raises(PromptTooLong, match=r"has at least \d+ tokens"):
        build("x" * 20_000_000)
    assert time.process_time() - started_at < 1.0


def test_too_many_token_ids_are_refused_before_anything_looks_at_them() -> None:
    with pytest.raises(PromptTooLong, match="has 4000000 tokens"):
        build((-1,) * 4_000_000)


@pytest.mark.parametrize("prompt", ["x" * 40_000, (120,) * 10_000], ids=["texts", "echoed token ids"])
def test_prompts_that_come_together_do_not_hold_up_the_event_loop_together(
    prompt: str | tuple[int, ...],
) -> None:
    """One is encoded at once, the others in a thread; so is one more in each later turn of the loop."""
    inline: list[bool] = []

    class Watched(Tokenizer):
        def encode(self, text: str, *, add_bos: bool | None = None, continues: bool = False) -> list[int]:
            inline.append(threading.current_thread() is threading.main_thread())
            return super().encode(text, add_bos=add_bos, continues=continues)

        def decode(self, token_ids: Iterable[int], *, continues: bool = False) -> str:
            inline.append(threading.current_thread() is threading.main_thread())
            return super().decode(token_ids, continues=continues)

    async def main() -> None:
        builder = PromptBuilder(Watched(PLAIN), PipelineOptions(), vocab_size=262, max_sequence_tokens=50_000)
        request = CompletionRequest(id="r", prompt=prompt, params=SamplingParams(), max_tokens=16, echo=True)
        for _ in range(2):
            inline.clear()
            built = await asyncio.gather(*(builder.build(request) for _ in range(5)))
            assert {each.text for each in built} == {prompt if isinstance(prompt, str) else "x" * 10_000}
            assert sorted(inline) == [False] * 4 + [True]

    asyncio.run(main())


def test_a_large_raw_prompt_that_fits_is_encoded_whole() -> None:
    assert len(build("x" * 100_000, limit=200_000).token_ids) == 100_000


@pytest.mark.parametrize("prompt", ["", ()])
def test_an_empty_raw_prompt_becomes_one_token(prompt: str | tuple[int, ...]) -> None:
    assert build(prompt).token_ids == (BOS_ID,)


def test_token_ids_are_a_prompt_and_must_be_in_the_vocabulary() -> None:
    assert build((72, 105)).token_ids == (72, 105)
    assert build((72, 105), echo=True).text == "Hi"
    for bad in (-1, 262):
        with pytest.raises(BadRequest, match=f"token {bad}"):
            build((72, bad))


@pytest.mark.parametrize("prompt", ["a\udc80", Document("a\udc80", "")])
def test_a_lone_surrogate_is_refused(prompt: str | Document) -> None:
    with pytest.raises(UnencodableText, match="character 1"):
        build(prompt)


def test_a_lone_surrogate_behind_the_cursor_is_refused_where_it_is_read() -> None:
    with pytest.raises(UnencodableText, match="character 4"):
        build(Document("abc", "d\ud800"), vocab=PSM)


def test_a_document_without_an_infill_format_is_its_prefix_up_to_the_last_word() -> None:
    prompt = build(Document("def f(", ")\nend\n"))
    assert prompt.token_ids == tuple(b"def f")
    assert (prompt.forced_text, prompt.forced_ids) == ("(", tuple(b"("))
    assert prompt.rest_of_line == ")"
    assert prompt.ledger["infill"] is None
    assert prompt.ledger["suffix_tokens"] == 0
    assert prompt.ledger["suffix_characters"] == 6
    assert prompt.ledger["forced_characters"] == 1


def test_a_document_of_one_word_is_not_left_to_the_model_whole() -> None:
    prompt = build(Document("def", ""))
    assert (prompt.token_ids, prompt.forced_text) == (tuple(b"def"), "")


def test_an_echoed_document_ends_at_its_cursor() -> None:
    prompt = build(Document("def f(", ""), echo=True)
    assert (prompt.token_ids, prompt.forced_text) == (tuple(b"def f("), "")


def test_a_document_is_rendered_in_the_models_infill_format() -> None:
    prompt = build(Document("a b", "yz"), vocab=PSM)
    assert prompt.token_ids == (PREFIX_ID, *b"a", SUFFIX_ID, *b"yz", MIDDLE_ID)
    assert prompt.forced_text == " b"
    assert [prompt.token_ids[place] for place in prompt.places] == list(b"a")
    prompt = build(Document("a b", "yz"), vocab=SUFFIX_FIRST)
    assert prompt.token_ids == (SUFFIX_ID, *b"yz", PREFIX_ID, *b"a")
    assert [prompt.token_ids[place] for place in prompt.places] == list(b"a")


def test_a_vocabulary_that_wants_bos_gets_it_once_and_first() -> None:
    assert build(Document("ab", ""), vocab=replace(PLAIN, add_bos=True)).token_ids == (BOS_ID, *b"ab")
    framed = build(Document("a b", ""), vocab=replace(PSM, add_bos=True))
    assert framed.token_ids == (BOS_ID, PREFIX_ID, *b"a", SUFFIX_ID, MIDDLE_ID)
    assert [framed.token_ids[place] for place in framed.places] == list(b"a")


@pytest.mark.parametrize("vocab", [PLAIN, PSM], ids=["plain", "infill"])
@pytest.mark.parametrize("path", [None, "a.py"], ids=["nobody's", "named"])
def test_what_is_read_and_what_is_forced_are_together_what_stands_before_the_cursor(
    vocab: VocabSpec, path: str | None
) -> None:
    text = "def f(x):\r\n\treturn '日本語 🎉👩‍👩‍👧' + x\n\n\n  # ünïcode"
    tokenizer = Tokenizer(vocab)
    for place in range(len(text) + 1):
        prompt = build(Document(text[:place], text[place:], path), vocab=vocab)
        read = tokenizer.decode(prompt.token_ids[prompt.places.start : prompt.places.stop])
        if place:
            assert read + prompt.forced_text == text[:place]
            assert tokenizer.decode(prompt.forced_ids) == prompt.forced_text
        assert prompt.behind == text[place:]


@pytest.mark.parametrize("line", ["x = 1\n", "x"], ids=["lines", "one endless line"])
@pytest.mark.parametrize("vocab", [PLAIN, PSM], ids=["plain", "infill"])
def test_a_document_of_twenty_megabytes_takes_bounded_time_and_fits(line: str, vocab: VocabSpec) -> None:
    text = line * (10_000_000 // len(line))
    started_at = time.process_time()
    prompt = build(Document(text, text), vocab=vocab)
    assert time.process_time() - started_at < 1.0
    options = PipelineOptions()
    most = options.prefix_tokens + options.suffix_tokens + 3
    assert options.prefix_tokens // 2 <= len(prompt.token_ids) <= most
    assert prompt.ledger["prefix_characters_left_out"] == len(text) - len(prompt.text)
    assert text.endswith(prompt.text)


@pytest.mark.parametrize("limit", [64, 100, 1000])
@pytest.mark.parametrize("max_tokens", [1, 500, 100_000])
@pytest.mark.parametrize("vocab", [PLAIN, PSM], ids=["plain", "infill"])
def test_a_document_always_fits_whatever_is_asked_for(limit: int, max_tokens: int, vocab: VocabSpec) -> None:
    prompt = build(Document("some code\n" * 300, "more\n" * 300), max_tokens, vocab, limit)
    assert len(prompt.token_ids) + prompt.max_new_tokens <= limit
    assert (prompt.text + "$").endswith("\n$"), "the window ends at the cursor"
    assert len(prompt.token_ids) + prompt.max_new_tokens + len(prompt.forced_text.encode()) <= limit
    assert prompt.max_new_tokens == min(max_tokens, limit // 2)


def test_generation_ends_at_eos_and_in_editor_mode_at_every_marker() -> None:
    assert build("a", vocab=PSM).stop_token_ids == {EOS_ID}
    assert build(Document("a", ""), vocab=PSM).stop_token_ids == {EOS_ID, PREFIX_ID, SUFFIX_ID, MIDDLE_ID}
    chosen = SamplingParams(stop_token_ids=(10,), ignore_eos=True)
    assert build(Document("a", ""), vocab=PSM, params=chosen).stop_token_ids == {10}
