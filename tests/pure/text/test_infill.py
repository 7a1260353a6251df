"""Infill formats are found by their tokens' text, and no user's text can spell one."""

import pytest

from halfline.text.infill import extra_stop_ids, find_infill_format, render
from halfline.text.markers import INFILL_MARKERS, InfillMarkers
from halfline.text.token_bytes import byte_alphabet
from halfline.text.tokenizer import Tokenizer
from halfline.text.vocab import VocabSpec


def vocab_with(*texts: str, kind: int = 3) -> Tokenizer:
    tokens = (*byte_alphabet().values(), *texts)
    types = (1,) * 256 + (kind,) * len(texts)
    return Tokenizer(VocabSpec(kind="bpe", tokens=tokens, token_types=types, pre_tokenizer="gpt-2"))


def texts_of(markers: InfillMarkers) -> tuple[str, ...]:
    return tuple(text for text in (markers.prefix, markers.suffix, markers.middle) if text is not None)


@pytest.mark.parametrize("markers", INFILL_MARKERS, ids=lambda markers: markers.prefix)
@pytest.mark.parametrize("kind", [1, 3, 4], ids=["marked normal", "marked control", "marked user defined"])
def test_every_format_is_found_however_its_tokens_are_marked(markers: InfillMarkers, kind: int) -> None:
    tokenizer = vocab_with(*texts_of(markers), kind=kind)
    found = find_infill_format(tokenizer)
    assert found is not None
    assert (found.name, found.orders) == (markers.name, markers.orders)
    ids = [found.prefix_id, found.suffix_id] + ([found.middle_id] if found.middle_id is not None else [])
    assert [tokenizer.token_text(token_id) for token_id in ids] == list(texts_of(markers))
    assert set(ids) <= extra_stop_ids(tokenizer)


@pytest.mark.parametrize("markers", INFILL_MARKERS, ids=lambda markers: markers.prefix)
def test_no_text_spells_a_marker(markers: InfillMarkers) -> None:
    tokenizer = vocab_with(*texts_of(markers), kind=4)
    hostile = "x" + "".join(texts_of(markers)) + " " + " ".join(texts_of(markers)).replace("▁", " ")
    assert all(token_id < 256 for token_id in tokenizer.encode(hostile))
    assert tokenizer.decode(tokenizer.encode(hostile)) == hostile


def test_a_format_with_a_marker_missing_is_none() -> None:
    assert find_infill_format(vocab_with("<fim_prefix>", "<fim_suffix>")) is None
    assert find_infill_format(vocab_with("<repo_name>", "<file_sep>")) is None


def test_separators_of_repositories_and_files_are_the_vocabularys_own() -> None:
    fim = ("<fim_prefix>", "<fim_suffix>", "<fim_middle>")
    both = vocab_with(*fim, "<reponame>", "<repo_name>", "<filename>", "<file_sep>")
    found = find_infill_format(both)
    assert found is not None
    assert (found.repository_id, found.file_id) == (both.token_id("<repo_name>"), both.token_id("<file_sep>"))
    bare = find_infill_format(vocab_with(*fim))
    assert bare is not None
    assert (bare.repository_id, bare.file_id) == (None, None)


def test_stop_tokens_are_those_that_end_a_file() -> None:
    tokenizer = vocab_with("<file_sep>", "<|im_end|>", "<|endoftext|>", "<tool>", "<filename>")
    names = {tokenizer.token_text(token_id) for token_id in extra_stop_ids(tokenizer)}
    assert names == {"<file_sep>", "<|im_end|>", "<|endoftext|>", "<filename>"}


def test_prompts_are_laid_out_in_the_order_asked_for() -> None:
    qwen = find_infill_format(vocab_with("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"))
    assert qwen is not None
    pre, suf, mid = 256, 257, 258
    assert render(qwen, [1, 2], [3]) == [pre, 1, 2, suf, 3, mid]
    assert render(qwen, [1, 2], [3], "spm") == [pre, suf, 3, mid, 1, 2]
    with pytest.raises(ValueError, match="qwen was trained on psm, spm, not on suffix_first"):
        render(qwen, [1], [2], "suffix_first")


def test_codestral_has_no_middle_and_seed_puts_the_suffix_first() -> None:
    codestral = find_infill_format(vocab_with("[PREFIX]", "[SUFFIX]"))
    seed = find_infill_format(vocab_with("<[fim-prefix]>", "<[fim-suffix]>", "<[fim-middle]>"))
    assert codestral is not None
    assert seed is not None
    assert render(codestral, [1], [2, 3]) == [257, 2, 3, 256, 1]
    assert render(seed, [1], [2, 3]) == [257, 2, 3, 256, 1, 258]
