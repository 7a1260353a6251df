"""The tokenizer inside a GGUF file, as plain data."""

from typing import Literal

import numpy as np

from halfline.errors import DamagedModel, UnsupportedModel
from halfline.model.facts import Facts
from halfline.model.gguf import GgufFile
from halfline.text.vocab import VocabSpec

_KEYS = "tokenizer."
_KINDS: dict[str, Literal["bpe", "sentencepiece"]] = {"gpt2": "bpe", "llama": "sentencepiece"}
_NORMAL = 1

# Pre-tokenizers whose models begin every text with BOS although their files need not say so.
_ADD_BOS_UNSAID = {"llama3", "llama-v3", "llama-bpe"}


def read_gguf_vocab(file: GgufFile) -> VocabSpec:
    """Raises DamagedModel for contradictions, UnsupportedModel for a kind of tokenizer we do not have."""
    facts = Facts(file.source, file.scalars(_KEYS), _KEYS)
    stored_kind = facts.text("ggml.model")
    kind = _KINDS.get(stored_kind)
    if kind is None:
        raise UnsupportedModel(
            file.source,
            f"a {stored_kind!r} tokenizer; supported are {', '.join(_KINDS)} (BPE and SentencePiece)",
        )
    tokens = file.strings("tokenizer.ggml.tokens")
    if not tokens:
        raise DamagedModel(file.source, "'tokenizer.ggml.tokens' is missing or empty")
    sentencepiece = kind == "sentencepiece"
    pre_tokenizer = facts.text("ggml.pre", "default")
    bos_id = _id(facts, "ggml.bos_token_id", len(tokens), 1 if sentencepiece else None)
    ends = [
        _id(facts, "ggml.eos_token_id", len(tokens), 2 if sentencepiece else None),
        _id(facts, "ggml.eot_token_id", len(tokens), None),
        _id(facts, "ggml.eom_token_id", len(tokens), None),
    ]
    return VocabSpec(
        kind=kind,
        tokens=tokens,
        token_types=_token_types(file, len(tokens)),
        merges=() if sentencepiece else file.strings("tokenizer.ggml.merges") or (),
        scores=_scores(file, len(tokens)) if sentencepiece else (),
        pre_tokenizer=pre_tokenizer,
        bos_id=bos_id,
        eos_ids=tuple(dict.fromkeys(end for end in ends if end is not None)),
        add_bos=facts.flag("ggml.add_bos_token", sentencepiece or pre_tokenizer in _ADD_BOS_UNSAID),
        add_space_prefix=facts.flag("ggml.add_space_prefix", sentencepiece),
        chat_template=facts.text("chat_template") if facts.has("chat_template") else None,
    )


def _id(facts: Facts, key: str, num_tokens: int, default: int | None) -> int | None:
    if default is None and not facts.has(key):
        return None
    token_id = facts.integer(key, default, minimum=0)
    if token_id >= num_tokens:
        raise facts.damaged(f"'{_KEYS}{key}' is {token_id}, but there are only {num_tokens} tokens")
    return token_id


def _token_types(file: GgufFile, num_tokens: int) -> tuple[int, ...]:
    types = file.numbers("tokenizer.ggml.token_type")
    if types is None:
        return (_NORMAL,) * num_tokens
    _require_length(file, "token_type", len(types), num_tokens)
    return tuple(types.astype(np.int64).tolist())


def _scores(file: GgufFile, num_tokens: int) -> tuple[float, ...]:
    scores = file.numbers("tokenizer.ggml.scores")
    if scores is None:
        raise DamagedModel(file.source, "'tokenizer.ggml.scores' is missing")
    _require_length(file, "scores", len(scores), num_tokens)
    return tuple(scores.astype(np.float64).tolist())


def _require_length(file: GgufFile, key: str, length: int, num_tokens: int) -> None:
    if length != num_tokens:
        raise DamagedModel(file.source, f"{length} entries of 'tokenizer.ggml.{key}' for {num_tokens} tokens")
