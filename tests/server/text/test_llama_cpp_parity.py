"""The embedded vocabulary gives llama.cpp's token ids; the expected ones come from a recorded run.

tests/data/tokenizer_parity.json.gz is written by bench/peers/tokenizer_parity.py --write:
    strings   fuzzed texts
    ids       llama.cpp's token ids of each of them
    files     {sha256 of a standard library source, 16 digits: blake2b-8 of its ids}, Python 3.11.7
    NAME      blake2b-4 of the ids of each string under another pre-tokenizer
It holds no text of others.
"""

import dataclasses
import gzip
import hashlib
import json
import re
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from halfline.model.gguf_checkpoint import open_gguf
from halfline.text.infill import extra_stop_ids, find_infill_format
from halfline.text.pretokenizers import PRE_TOKENIZERS
from halfline.text.tokenizer import Tokenizer
from halfline.text.vocab import VocabSpec

FIXTURE = Path(__file__).parents[2] / "data" / "tokenizer_parity.json.gz"
RECORDED: dict[str, Any] = json.loads(gzip.decompress(FIXTURE.read_bytes()))
# There we follow the model's own tokenizer, llama.cpp does not: see bench/peers/tokenizer_parity.py.
SPACES_IN_CJK_RANGE = re.compile("[\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")
OTHERS = sorted(RECORDED.keys() & PRE_TOKENIZERS.keys() - {"smollm"})


@pytest.fixture(scope="module")
def vocab(embedded_model: Path) -> VocabSpec:
    checkpoint = open_gguf(embedded_model)
    vocab = checkpoint.vocab
    checkpoint.close()
    return vocab


@pytest.fixture(scope="module")
def tokenizer(vocab: VocabSpec) -> Tokenizer:
    return Tokenizer(vocab)


def digest(ids: list[int], size: int) -> str:
    return hashlib.blake2b(np.asarray(ids, np.int32).tobytes(), digest_size=size).hexdigest()


def test_fuzzed_strings_have_llama_cpps_ids(tokenizer: Tokenizer) -> None:
    assert len(RECORDED["strings"]) >= 5000
    for text, expected in zip(RECORDED["strings"], RECORDED["ids"], strict=True):
        assert tokenizer.encode(text) == expected, ascii(text)


@pytest.mark.parametrize("name", OTHERS)
def test_other_pre_tokenizers_have_llama_cpps_ids(vocab: VocabSpec, name: str) -> None:
    tokenizer = Tokenizer(dataclasses.replace(vocab, pre_tokenizer=name))
    compared = 0
    for text, expected in zip(RECORDED["strings"], RECORDED[name], strict=True):
        if name == "deepseek-coder" and SPACES_IN_CJK_RANGE.search(text):
            continue
        assert digest(tokenizer.encode(text), 4) == expected, ascii(text)
        compared += 1
    assert compared > 4500


def test_the_standard_library_has_llama_cpps_ids(tokenizer: Tokenizer) -> None:
    compared = 0
    for path in Path(sysconfig.get_path("stdlib")).rglob("*.py"):
        data = path.read_bytes()
        expected = RECORDED["files"].get(hashlib.sha256(data).hexdigest()[:16])
        if expected is not None:
            assert digest(tokenizer.encode(data.decode()), 8) == expected, path
            compared += 1
    # Other releases share some sources with the recorded one, empty __init__.py files at the least.
    assert compared >= (1700 if sys.version_info[:3] == (3, 11, 7) else 1)


def test_the_texts_come_back_but_for_bytes_the_vocabulary_lacks(tokenizer: Tokenizer) -> None:
    known = {byte for i in range(tokenizer.vocab_size) for byte in tokenizer.token_bytes(i)}
    for text in RECORDED["strings"]:
        expected = bytes(byte for byte in text.encode() if byte in known)
        assert tokenizer.decode(tokenizer.encode(text)) == expected.decode(errors="replace"), ascii(text)


def test_markers_are_control_tokens_and_infill_is_not_claimed(tokenizer: Tokenizer) -> None:
    assert find_infill_format(tokenizer) is None
    assert [tokenizer.token_id(t) for t in ("<|im_start|>", "<|im_end|>", "<file_sep>", "<filename>")] == [
        1,
        2,
        5,
        6,
    ]
    assert {0, 1, 2, 5, 6} <= extra_stop_ids(tokenizer)
    assert not {0, 1, 2, 5, 6} & set(tokenizer.encode("<|im_start|><file_sep><filename><|endoftext|>"))


def test_it_is_built_in_a_fraction_of_a_second(vocab: VocabSpec) -> None:
    started = time.process_time()
    Tokenizer(vocab)
    assert time.process_time() - started < 1.0
