"""How each kind of byte-level BPE vocabulary cuts text into words before it merges.

The names are those of GGUF's `tokenizer.ggml.pre`, the patterns those the models were trained with, as
llama.cpp applies them: one after the other, each cutting the pieces that the previous ones left. A piece
is a text of its own: `(?!\\S)` at its end holds whatever comes behind it in the file.
"""

from dataclasses import dataclass

from tokenizers import Regex, pre_tokenizers

from halfline.errors import UnsupportedModel


@dataclass(frozen=True, slots=True)
class PreTokenizer:
    """`patterns` in the order they cut; with `whole_words` a word that is a token is not built by merging."""

    patterns: tuple[str, ...]
    whole_words: bool = False

    def build(self) -> pre_tokenizers.PreTokenizer:
        cuts = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in self.patterns]
        to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        return pre_tokenizers.Sequence([*cuts, to_bytes])


def find_pre_tokenizer(name: str) -> PreTokenizer:
    """Raises UnsupportedModel, naming the supported ones."""
    if name not in PRE_TOKENIZERS:
        supported = ", ".join(sorted(PRE_TOKENIZERS))
        raise UnsupportedModel(
            "tokenizer", f"its pre-tokenizer {name!r} is unknown here; supported are {supported}"
        )
    return PRE_TOKENIZERS[name]


_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
# Spelt out and not (?i:…): case folding would also take ſ for s.
_CONTRACTION = r"'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]"
_WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_SYMBOLS = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_CJK = "[一-龥ࠀ-一가-퟿]+"

_smollm = PreTokenizer((r"\p{N}", _GPT2))
_gpt2 = PreTokenizer((_GPT2,))
_qwen2 = PreTokenizer((rf"{_CONTRACTION}|{_WORD}|\p{{N}}|{_SYMBOLS}|{_SPACES}",))
_llama3_pattern = rf"{_CONTRACTION}|{_WORD}|\p{{N}}{{1,3}}|{_SYMBOLS}|{_SPACES}"
_llama3 = PreTokenizer((_llama3_pattern,), whole_words=True)

PRE_TOKENIZERS = {
    "default": PreTokenizer((r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]")),
    "gpt-2": _gpt2,
    "phi-2": _gpt2,
    "mellum": _gpt2,
    "smollm": _smollm,
    "starcoder": _smollm,
    "refact": _smollm,
    "command-r": _smollm,
    "codeshell": _smollm,
    "qwen2": _qwen2,
    "deepseek-r1-qwen": _qwen2,
    "stablelm2": _qwen2,
    "llama-bpe": _llama3,
    "llama3": _llama3,
    "llama-v3": _llama3,
    "falcon3": _llama3,
    "dbrx": PreTokenizer((_llama3_pattern,)),
    "smaug-bpe": PreTokenizer((_llama3_pattern,)),
    "seed-coder": PreTokenizer((rf"{_CONTRACTION}|{_WORD}|\p{{N}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|{_SPACES}",)),
    "deepseek-coder": PreTokenizer((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _CJK, r"\p{N}")),
}
