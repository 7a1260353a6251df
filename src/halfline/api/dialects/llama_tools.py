"""llama-server's routes beside completions: tokens, templates, and what it tells of itself."""

import json
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from halfline.api.dialects.chat_messages import MessagesField, read_messages
from halfline.api.dialects.json_body import read_body
from halfline.api.serving import Loaded
from halfline.errors import BadRequest
from halfline.telemetry.metrics import EngineState

_MOST_TOKENS = 1 << 20


class TokenizeBody(BaseModel):
    """POST /tokenize."""

    model_config = ConfigDict(extra="ignore")

    content: str = ""
    add_special: bool = Field(False, description="Begin with BOS if the model's texts do.")
    parse_special: bool = Field(True, description="Read special tokens that the text spells out.")
    with_pieces: bool = Field(False, description="Answer `id` and `piece` of each.")


class DetokenizeBody(BaseModel):
    """POST /detokenize."""

    model_config = ConfigDict(extra="ignore")

    tokens: Annotated[list[int], Field(max_length=_MOST_TOKENS, fail_fast=True)] = []


class TemplateBody(BaseModel):
    """POST /apply-template."""

    model_config = ConfigDict(extra="ignore")

    messages: MessagesField = None


def tokenized(body: bytes, loaded: Loaded) -> bytes:
    """The reply, as JSON. Raises BadRequest, also for a text of too many tokens to be told of."""
    given = read_body(TokenizeBody, body)
    tokenizer = loaded.tokenizer
    if given.parse_special:
        token_ids = loaded.chat.marked.encode(given.content, add_bos=given.add_special and tokenizer.adds_bos)
    else:
        token_ids = tokenizer.encode(given.content, add_bos=given.add_special and tokenizer.adds_bos)
    if len(token_ids) > _MOST_TOKENS:
        raise BadRequest(f"`content` has {len(token_ids)} tokens, at most {_MOST_TOKENS} are told", "content")
    told: Iterable[str] = map(str, token_ids)
    if given.with_pieces:
        pieces = {each: json.dumps(_piece(tokenizer.token_bytes(each))) for each in set(token_ids)}
        told = (f'{{"id":{each},"piece":{pieces[each]}}}' for each in token_ids)
    # Written token by token: a million of them at once would let nobody else do anything for seconds.
    return f'{{"tokens":[{",".join(told)}]}}'.encode()


def detokenized(body: bytes, loaded: Loaded) -> Mapping[str, object]:
    """Raises BadRequest. Special tokens are spelt out."""
    given = read_body(DetokenizeBody, body)
    size = loaded.tokenizer.vocab_size
    for token_id in given.tokens:
        if not 0 <= token_id < size:
            raise BadRequest(f"`tokens` holds {token_id}, the vocabulary has {size}", "tokens")
    joined = b"".join(map(loaded.tokenizer.token_bytes, given.tokens))
    return {"content": joined.decode(errors="replace")}


def templated(body: bytes, loaded: Loaded) -> Mapping[str, object]:
    """Raises BadRequest."""
    return {"prompt": loaded.chat.text(read_messages(read_body(TemplateBody, body).messages))}


def props(loaded: Loaded, version: str, num_slots: int) -> Mapping[str, object]:
    """What llama-server's clients ask before anything else; no path of this machine is among it."""
    model, tokenizer = loaded.model, loaded.tokenizer

    def spelling(token_id: int | None) -> str:
        return "" if token_id is None else tokenizer.token_text(token_id)

    return {
        "default_generation_settings": {
            "n_ctx": model.max_context,
            "id": 0,
            "id_task": -1,
            "is_processing": False,
            "params": {"n_predict": -1, "temperature": 0.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0},
        },
        "total_slots": num_slots,
        "model_alias": model.name,
        "model_path": model.name,
        "chat_template": loaded.chat.source,
        "bos_token": spelling(tokenizer.bos_id),
        "eos_token": spelling(min(tokenizer.eos_ids, default=None)),
        "build_info": f"halfline-{version}",
        "modalities": {"vision": False, "audio": False},
        "is_sleeping": False,
    }


def slots(state: EngineState, loaded: Loaded, num_slots: int) -> list[dict[str, Any]]:
    """As many busy ones as sequences run; whose they are and what they hold is nobody's business."""
    return [
        {
            "id": slot_id,
            "id_task": -1,
            "n_ctx": loaded.model.max_context,
            "speculative": False,
            "is_processing": slot_id < state.num_running,
            "params": {},
            "next_token": {"has_next_token": slot_id < state.num_running, "n_remain": -1, "n_decoded": 0},
        }
        for slot_id in range(num_slots)
    ]


def _piece(data: bytes) -> str | list[int]:
    """Its text, or its bytes where they are only a part of a character."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return list(data)
