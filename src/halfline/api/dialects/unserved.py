"""Fields of other servers that would change the answer and that we do not serve.

OpenAI's, vLLM's, llama.cpp's and SGLang's. One that only steers another of them (`mirostat_tau`) is not here.
"""

from collections.abc import Mapping

from halfline.errors import UnsupportedField

# By name the values that ask for nothing; the first is the one to recommend. None always asks for nothing.
_NEUTRAL_VALUES: Mapping[str, tuple[object, ...]] = {
    # What the text has to be like.
    "response_format": ({"type": "text"}, None),
    "structured_outputs": (None, {}),
    "guided_json": (None,),
    "guided_regex": (None, ""),
    "guided_choice": (None, []),
    "guided_grammar": (None, ""),
    "grammar": (None, ""),
    "json_schema": (None, {}),
    "regex": (None, ""),
    "ebnf": (None, ""),
    "bad_words": ([],),
    "allowed_token_ids": (None,),
    # How long it gets.
    "min_tokens": (0,),
    "n_predict": (-1,),
    "n_indent": (0,),
    "t_max_predict_ms": (0, -1),
    # How tokens are chosen.
    "use_beam_search": (False,),
    "length_penalty": (1.0,),
    "repeat_penalty": (1.0,),
    "repetition_detection": (None,),
    "no_repeat_ngram_size": (0,),
    "typical_p": (1.0,),
    "tfs_z": (1.0,),
    "top_a": (0.0,),
    "top_n_sigma": (-1.0, 0.0),
    "dynatemp_range": (0.0,),
    "mirostat": (0,),
    "dry_multiplier": (0.0,),
    "xtc_probability": (0.0,),
    "min_keep": (0, 1),
    "logits_processors": (None, []),
    "lora": ([],),
    # What comes back.
    "prompt_logprobs": (None,),
    "n_probs": (0,),
    "post_sampling_probs": (False,),
    "return_token_ids": (False,),
    "return_tokens_as_token_ids": (False,),
    "include_stop_str_in_output": (False,),
    "skip_special_tokens": (True,),
    # What the model reads.
    "chat_template": (None, ""),
    "prompt_embeds": (None,),
    "truncate_prompt_tokens": (None,),
    "cache_salt": (None, ""),
    "add_special_tokens": (True,),
}

UNSERVED = tuple(_NEUTRAL_VALUES)


def refuse_unserved(given: Mapping[str, object]) -> list[str]:
    """The names of `given` that nobody knows. Raises UnsupportedField for a known one that asks for something."""
    unknown = []
    for name, value in given.items():
        neutral = _NEUTRAL_VALUES.get(name)
        if neutral is None:
            unknown.append(name[:64])
        elif value is not None and not any(_same(value, each) for each in neutral):
            raise UnsupportedField(name, _short(value), neutral[0])
    return unknown


def _same(value: object, neutral: object) -> bool:
    """Python takes true for 1; a client that sends it meant something else."""
    return value == neutral and isinstance(value, bool) == isinstance(neutral, bool)


def _short(value: object) -> object:
    """To be repeated in a sentence: lists and objects may be megabytes, so they are not spelt out."""
    match value:
        case bool() | int() | float():
            return value
        case str():
            return value[:40]
        case list():
            return f"a list of {len(value)}"
        case {"type": str(kind)}:
            return f"an object of the type {kind[:40]}"
        case _:
            return "an object"
