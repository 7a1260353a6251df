"""The tokenizer of a Hugging Face directory, as plain data: tokenizer.json and what the configs add to it."""

from collections.abc import Mapping
from pathlib import Path

from halfline.errors import DamagedModel, UnsupportedModel
from halfline.model.facts import Facts
from halfline.model.json_file import parse_json_object, read_bounded, read_json_object
from halfline.text.vocab import VocabSpec

_TOKENIZER = "tokenizer.json"
_SENTENCEPIECE = "tokenizer.model"
_TOKENIZER_CONFIG = "tokenizer_config.json"
_GENERATION_CONFIG = "generation_config.json"
_TEMPLATE = "chat_template.jinja"


def read_hf_vocab(directory: Path, config: Mapping[str, object]) -> VocabSpec:
    """Raises DamagedModel, and UnsupportedModel for a directory with only a SentencePiece model."""
    source = str(directory)
    text = _read_tokenizer(directory)
    tokenizer = parse_json_object(str(directory / _TOKENIZER), text)
    tokenizer_config = Facts(source, _read_optional(directory / _TOKENIZER_CONFIG))
    generation = _read_optional(directory / _GENERATION_CONFIG)
    bos_ids = _ids(source, "bos_token_id", config, generation)
    return VocabSpec(
        kind="tokenizer_json",
        tokenizer_json=text,
        bos_id=bos_ids[0] if bos_ids else None,
        eos_ids=_ids(source, "eos_token_id", config, generation),
        add_bos=bool(bos_ids) and tokenizer_config.flag("add_bos_token", _begins_with_special(tokenizer)),
        chat_template=_chat_template(directory, tokenizer_config),
    )


def _read_tokenizer(directory: Path) -> bytes:
    path = directory / _TOKENIZER
    if path.is_file():
        return read_bounded(path)
    if (directory / _SENTENCEPIECE).is_file():
        raise UnsupportedModel(
            str(directory),
            f"it has {_SENTENCEPIECE} but no {_TOKENIZER}; save it with a fast tokenizer of `transformers`, or"
            " convert the model to GGUF",
        )
    raise DamagedModel(str(directory), f"{_TOKENIZER} is missing")


def _read_optional(path: Path) -> dict[str, object]:
    return read_json_object(path) if path.is_file() else {}


def _ids(source: str, key: str, *places: Mapping[str, object]) -> tuple[int, ...]:
    """One id, a list of them or null, from each of the places; each id once."""
    found: dict[int, None] = {}
    for place in places:
        value = place.get(key)
        for token_id in value if isinstance(value, list) else [value]:
            if token_id is None:
                continue
            if type(token_id) is not int or token_id < 0:
                raise DamagedModel(source, f"{key!r} is {value!r}, not a token id or a list of them")
            found[token_id] = None
    return tuple(found)


def _begins_with_special(tokenizer: Mapping[str, object]) -> bool:
    """Whether the tokenizer's own post-processor puts a special token before a text, as Llama's does with BOS."""
    post_processor = tokenizer.get("post_processor")
    steps = [post_processor]
    if isinstance(post_processor, dict) and isinstance(post_processor.get("processors"), list):
        steps = post_processor["processors"]
    templates = [step.get("single") for step in steps if isinstance(step, dict)]
    return any(
        isinstance(template, list)
        and bool(template)
        and isinstance(template[0], dict)
        and "SpecialToken" in template[0]
        for template in templates
    )


def _chat_template(directory: Path, tokenizer_config: Facts) -> str | None:
    """Its own file where there is one, else a text in the config, or the one called "default" of a list there."""
    path = directory / _TEMPLATE
    if path.is_file():
        return read_bounded(path).decode(errors="replace")
    template = tokenizer_config.values.get("chat_template")
    for named in template if isinstance(template, list) else []:
        if isinstance(named, dict) and named.get("name") == "default":
            template = named.get("template")
    return template if isinstance(template, str) else None
