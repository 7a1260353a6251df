"""A context holds the chunks of other files that share names with what they are read for, as many as fit."""

from halfline.context.chunks.chunk_tokens import tokens_in_memory
from halfline.context.chunks.filling import filled_context
from halfline.request import Part
from halfline.text.token_bytes import byte_alphabet
from halfline.text.tokenizer import Tokenizer
from halfline.text.vocab import VocabSpec

LETTERS = Tokenizer(
    VocabSpec(
        kind="bpe",
        tokens=("<|endoftext|>", *byte_alphabet().values()),
        token_types=(3,) + (1,) * 256,
        pre_tokenizer="gpt-2",
        eos_ids=(0,),
    )
)


def function(name: str, size: int = 200) -> str:
    return f"def {name}():\n    return '{'x' * size}'\n\n\n"


FILES = (
    Part(function("alpha") + function("beta") + function("gamma"), "one.py"),
    Part(function("delta") + function("epsilon"), "two.py"),
)


def test_chunks_come_under_their_files_names_in_their_order_and_the_helpful_ones_first() -> None:
    tokens = tokens_in_memory(LETTERS)
    filled = filled_context(FILES, "x = epsilon() + gamma()", 600, tokens)
    assert filled == f"--- one.py\n{function('gamma')}--- two.py\n{function('epsilon')}"
    everything = filled_context(FILES, "", 10_000, tokens)
    assert everything == f"--- one.py\n{FILES[0].text}--- two.py\n{FILES[1].text}"
    assert filled_context(FILES, "epsilon", 20, tokens) == filled_context((), "", 100, tokens) == ""


def test_never_more_tokens_than_there_is_room_for() -> None:
    tokens = tokens_in_memory(LETTERS)
    for room in range(0, 1500, 50):
        assert len(LETTERS.encode(filled_context(FILES, "beta", room, tokens))) <= room


def test_a_text_without_a_line_end_gets_one_and_one_without_a_path_a_name() -> None:
    filled = filled_context([Part("abc"), Part("def", "b")], "", 1000, tokens_in_memory(LETTERS))
    assert filled == "--- untitled\nabc\n--- b\ndef\n"


def test_the_second_time_nothing_is_tokenised() -> None:
    tokens = tokens_in_memory(LETTERS)
    first = filled_context(FILES, "beta", 700, tokens)
    num_tokenised = tokens.registry.num_tokenised
    assert filled_context(FILES, "beta", 700, tokens) == first
    assert tokens.registry.num_tokenised == num_tokenised > 0
