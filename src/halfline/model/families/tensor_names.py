"""What Hugging Face and GGUF call the tensors that `model/checkpoint.py` names; the same in every family."""

import re

_CONFIG_PARTS = {
    "embed": "model.embed_tokens",
    "head": "lm_head",
    "final_norm": "model.norm",
    "attn_norm": "input_layernorm",
    "q": "self_attn.q_proj",
    "k": "self_attn.k_proj",
    "v": "self_attn.v_proj",
    "o": "self_attn.o_proj",
    "q_norm": "self_attn.q_norm",
    "k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "gate": "mlp.gate_proj",
    "up": "mlp.up_proj",
    "down": "mlp.down_proj",
}
# StarCoder 2's names for the same two matrices.
_CONFIG_ALIASES = {"mlp.c_fc": "up", "mlp.c_proj": "down"}

_GGUF_PARTS = {
    "embed": "token_embd",
    "head": "output",
    "final_norm": "output_norm",
    "attn_norm": "attn_norm",
    "q": "attn_q",
    "k": "attn_k",
    "v": "attn_v",
    "o": "attn_output",
    "q_norm": "attn_q_norm",
    "k_norm": "attn_k_norm",
    "ffn_norm": "ffn_norm",
    "gate": "ffn_gate",
    "up": "ffn_up",
    "down": "ffn_down",
}

_FROM_CONFIG = {stored: part for part, stored in _CONFIG_PARTS.items()} | _CONFIG_ALIASES
_FROM_GGUF = {stored: part for part, stored in _GGUF_PARTS.items()}
_STORED_NAME = re.compile(r"(?:(?:model\.layers|blk)\.(\d+)\.)?(.+)\.(weight|bias)")


def canonical_from_config(stored: str) -> str | None:
    """Our name for a tensor of a Hugging Face checkpoint; None when it is none that we know."""
    return _canonical(stored, _FROM_CONFIG)


def canonical_from_gguf(stored: str) -> str | None:
    """Our name for a tensor of a GGUF file; None when it is none that we know."""
    return _canonical(stored, _FROM_GGUF)


def _canonical(stored: str, parts: dict[str, str]) -> str | None:
    match = _STORED_NAME.fullmatch(stored)
    if match is None or match[2] not in parts:
        return None
    layer = "" if match[1] is None else f"layers.{match[1]}."
    return f"{layer}{parts[match[2]]}.{match[3]}"
