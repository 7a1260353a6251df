"""Infill formats are found by their tokens' text, and no user's text can spell one."""

import pytest

from halfline.text.file_markers import IN_COMMENTS, FileMarkers, find_file_markers
from halfline.text.infill import InfillOrder, extra_stop_ids, find_infill_format, frame
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
    both = vocab_with("<reponame>", "<repo_name>", "<filename>", "<file_sep>")
    assert find_file_markers(both, None) == FileMarkers(
        repository_id=both.token_id("<repo_name>"), file_ids=(both.token_id("<file_sep>"),)
    )
    files = vocab_with("<file_sep>")
    found = find_file_markers(files, None)
    assert found == FileMarkers(repository_id=None, file_ids=(files.token_id("<file_sep>"),))


def test_without_a_separator_only_models_of_plain_text_are_shown_files_and_in_comments() -> None:
    plain = vocab_with("<repo_name>")
    assert find_file_markers(plain, find_infill_format(plain)) == IN_COMMENTS
    infills = vocab_with("<fim_prefix>", "<fim_suffix>", "<fim_middle>")
    assert find_file_markers(infills, find_infill_format(infills)) is None


def test_stop_tokens_are_those_that_end_a_file() -> None:
    tokenizer = vocab_with("<file_sep>", "<|im_end|>", "<|endoftext|>", "<tool>", "<filename>")
    names = {tokenizer.token_text(token_id) for token_id in extra_stop_ids(tokenizer)}
    assert names == {"<file_sep>", "<|im_end|>", "<|endoftext|>", "<filename>"}


def laid_out(tokenizer: Tokenizer, order: InfillOrder) -> list[int]:
    """[1, 2] before the cursor, of which 2 was typed just now; [3, 4] behind it."""
    found = find_infill_format(tokenizer)
    assert found is not None
    parts = frame(found, [3, 4], order)
    return [*parts.before, 1, *parts.between, 2, *parts.behind]


def test_prompts_are_laid_out_in_the_order_asked_for() -> None:
    qwen = vocab_with("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>")
    pre, suf, mid = 256, 257, 258
    assert laid_out(qwen, "psm") == [pre, 1, 2, suf, 3, 4, mid]
    assert laid_out(qwen, "spm") == [pre, suf, 3, 4, mid, 1, 2]
    assert laid_out(qwen, "anchored") == [pre, 1, suf, 3, 4, mid, 2]
    assert laid_out(qwen, "prefix_only") == [1, 2]
    with pytest.raises(
        ValueError, match="qwen infills as psm, spm, anchored, prefix_only, not as suffix_first"
    ):
        laid_out(qwen, "suffix_first")


def test_codestral_has_no_middle_and_seed_puts_the_suffix_first() -> None:
    codestral = vocab_with("[PREFIX]", "[SUFFIX]")
    seed = vocab_with("<[fim-prefix]>", "<[fim-suffix]>", "<[fim-middle]>")
    assert laid_out(codestral, "suffix_first") == [257, 3, 4, 256, 1, 2]
    assert laid_out(seed, "suffix_first") == [257, 3, 4, 256, 1, 2, 258]
