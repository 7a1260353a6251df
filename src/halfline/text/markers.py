"""The special tokens models are known by: infill markers, separators of files, ends of turn.

Plain tables of token texts. Which of them a vocabulary has, and what follows from it, is decided in
`tokenizer` (their text in a user's file is never the token) and `infill`.
"""

from dataclasses import dataclass
from typing import Literal

Order = Literal["psm", "spm", "suffix_first"]


@dataclass(frozen=True, slots=True)
class InfillMarkers:
    """The three markers of one infill format, and the orders its models were trained on, best first.

    psm           <prefix> before <suffix> after <middle>
    spm           <prefix> <suffix> after <middle> before
    suffix_first  <suffix> after <prefix> before <middle>

    `middle` None: the model goes on right behind the text before the cursor.
    """

    name: str
    prefix: str
    suffix: str
    middle: str | None
    orders: tuple[Order, ...]


INFILL_MARKERS = (
    # Qwen2.5-Coder, Qwen3-Coder, CodeGemma, Granite 4
    InfillMarkers("qwen", "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", ("psm", "spm")),
    # StarCoder, StarCoder2, StableCode, Granite Code, Refact, CodeQwen1.5
    InfillMarkers("starcoder", "<fim_prefix>", "<fim_suffix>", "<fim_middle>", ("psm", "spm")),
    InfillMarkers("santacoder", "<fim-prefix>", "<fim-suffix>", "<fim-middle>", ("psm", "spm")),
    InfillMarkers("deepseek", "<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>", ("psm",)),
    InfillMarkers("codellama", "▁<PRE>", "▁<SUF>", "▁<MID>", ("psm", "spm")),
    InfillMarkers("codellama", "<PRE>", "<SUF>", "<MID>", ("psm", "spm")),
    InfillMarkers("seed", "<[fim-prefix]>", "<[fim-suffix]>", "<[fim-middle]>", ("suffix_first",)),
    InfillMarkers("glm", "<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>", ("psm",)),
    InfillMarkers("falcon", "<|prefix|>", "<|suffix|>", "<|middle|>", ("psm",)),
    InfillMarkers("codestral", "[PREFIX]", "[SUFFIX]", None, ("suffix_first",)),
)

# Where one repository, or one file of it, begins; the first that a vocabulary has is its own.
REPOSITORY_MARKERS = ("<|repo_name|>", "<repo_name>", "<reponame>")
FILE_MARKERS = ("<|file_sep|>", "<file_sep>", "<|file_separator|>", "<filename>")

_ENDS = (
    *("<|endoftext|>", "<|end_of_text|>", "<｜end▁of▁sentence｜>", "<[end▁of▁sentence]>", "<eos>", "</s>"),
    *("<EOT>", "▁<EOT>", "<|EOT|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<|im_end|>", "<end_of_turn>"),
    *("<|im_start|>", "<start_of_turn>", "<|user|>", "<|cursor|>"),
)
_PADDING = ("<|fim_pad|>", "<fim_pad>", "<fim-pad>", "[MIDDLE]")
_NOT_CODE = (
    *("<gh_stars>", "<issue_start>", "<issue_comment>", "<issue_closed>", "<empty_output>"),
    *("<jupyter_start>", "<jupyter_text>", "<jupyter_code>", "<jupyter_output>", "<jupyter_script>"),
)

# Tokens behind which nothing belongs to the file being completed any more.
STOP_TEXTS = frozenset(
    (
        *_ENDS,
        *_PADDING,
        *_NOT_CODE,
        *REPOSITORY_MARKERS,
        *FILE_MARKERS,
        *(text for m in INFILL_MARKERS for text in (m.prefix, m.suffix, m.middle) if text is not None),
    )
)
