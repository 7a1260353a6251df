"""A tokenizer as plain data, as model files carry it."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class VocabSpec:
    """A tokenizer as data, wherever it was stored.

    `kind` "bpe" carries merges and a pre-tokenizer name; "sentencepiece" carries scores. `token_types`
    uses GGUF's numbers: 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte. `tokenizer_json`
    is set instead of tokens when the model came as a Hugging Face directory.
    """

    kind: Literal["bpe", "sentencepiece", "tokenizer_json"]
    tokens: tuple[str, ...] = ()
    token_types: tuple[int, ...] = ()
    merges: tuple[str, ...] = ()
    scores: tuple[float, ...] = ()
    pre_tokenizer: str = "default"
    tokenizer_json: bytes | None = None
    bos_id: int | None = None
    eos_ids: tuple[int, ...] = ()
    add_bos: bool = False
    add_space_prefix: bool = True
    chat_template: str | None = None
