"""Tokens of chunks are kept on disk only where that is asked for, and then for every tokenizer apart."""

from pathlib import Path

from halfline.cli.chunks import open_chunks
from halfline.settings import Settings
from halfline.text.token_bytes import byte_alphabet
from halfline.text.tokenizer import Tokenizer
from halfline.text.vocab import VocabSpec


def tokenizer(**changes: object) -> Tokenizer:
    tokens = ("<|endoftext|>", *byte_alphabet().values(), "ab")
    known = {"token_types": (3,) + (1,) * 257, "pre_tokenizer": "gpt-2", "eos_ids": (0,), "merges": ("a b",)}
    return Tokenizer(VocabSpec(kind="bpe", tokens=tokens, **{**known, **changes}))  # type: ignore[arg-type]


def test_nothing_is_kept_unless_it_is_asked_for(tmp_path: Path) -> None:
    chunks = open_chunks(Settings(cache_dir=tmp_path), tokenizer())
    assert len(chunks.of("ab", "file")) == 1
    chunks.registry.close()
    assert list(tmp_path.iterdir()) == []


def test_a_restart_with_the_same_tokenizer_tokenises_nothing_and_with_another_everything(
    tmp_path: Path,
) -> None:
    settings = Settings(cache_dir=tmp_path, chunk_disk_bytes=1 << 20)  # type: ignore[arg-type]
    for served, num_tokens, num_tokenised in (
        (tokenizer(), 1, 1),
        (tokenizer(), 1, 0),
        (tokenizer(merges=()), 2, 1),
        (tokenizer(merges=()), 2, 0),
    ):
        chunks = open_chunks(settings, served)
        assert len(chunks.of("ab", "file")) == num_tokens
        assert chunks.registry.num_tokenised == num_tokenised
        chunks.registry.close()


def test_a_digest_tells_apart_what_encodes_differently() -> None:
    different = [
        tokenizer(),
        tokenizer(merges=()),
        tokenizer(pre_tokenizer="qwen2"),
        tokenizer(token_types=(3,) + (1,) * 256 + (4,)),
        tokenizer(token_types=(3, 3) + (1,) * 256),
    ]
    assert len({each.digest for each in different}) == len(different)
    assert tokenizer().digest == tokenizer().digest
