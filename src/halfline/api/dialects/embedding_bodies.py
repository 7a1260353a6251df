"""Texts to embed, as OpenAI's and Ollama's clients send them, and the replies these read."""

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from halfline.api.dialects.json_body import read_body
from halfline.api.dialects.openai_prompt import PROMPT_SCHEMA, read_prompts
from halfline.pipeline.embed import Embedding

MOST_INPUTS = 2048
"""As many as OpenAI takes."""

_InputField = Annotated[Any, WithJsonSchema(PROMPT_SCHEMA)]


class EmbeddingsBody(BaseModel):
    """POST /v1/embeddings."""

    model_config = ConfigDict(strict=True, extra="ignore", json_schema_extra={"required": ["input"]})

    model: str | None = None
    input: _InputField = None
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: int | None = Field(None, description="Only the model's own.")
    user: str | None = Field(None, max_length=1024)


class OllamaEmbedBody(BaseModel):
    """POST /api/embed."""

    model_config = ConfigDict(extra="ignore")

    model: str | None = None
    input: _InputField = None
    dimensions: int | None = Field(None, description="Only the model's own.")
    truncate: bool | None = Field(None, description="Ignored: a text that is too long is refused.")


class OllamaEmbeddingBody(BaseModel):
    """POST /api/embeddings."""

    model_config = ConfigDict(extra="ignore")

    model: str | None = None
    prompt: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingCall:
    """Texts or token ids to embed. `dimensions` None: the client takes what there is."""

    inputs: Sequence[str | tuple[int, ...]]
    dimensions: int | None = None
    user: str = ""
    as_base64: bool = False


def read_embeddings(body: bytes, max_context: int) -> EmbeddingCall:
    """Raises BadRequest."""
    given = read_body(EmbeddingsBody, body, {"encoding_format": "it must be float or base64"})
    return EmbeddingCall(
        inputs=_inputs(given.input, max_context),
        dimensions=given.dimensions,
        user=given.user or "",
        as_base64=given.encoding_format == "base64",
    )


def read_ollama_embed(body: bytes, max_context: int) -> EmbeddingCall:
    """Raises BadRequest."""
    given = read_body(OllamaEmbedBody, body)
    return EmbeddingCall(inputs=_inputs(given.input, max_context), dimensions=given.dimensions)


def read_ollama_embedding(body: bytes, max_context: int) -> EmbeddingCall:
    """Raises BadRequest."""
    return EmbeddingCall(inputs=[read_body(OllamaEmbeddingBody, body).prompt])


def embeddings_reply(call: EmbeddingCall, found: Sequence[Embedding], model: str) -> bytes:
    """OpenAI's, as JSON; base64 is of little-endian float32."""
    num_tokens = sum(each.num_tokens for each in found)
    data = (
        f'{{"object":"embedding","index":{index},"embedding":{_written(each, call.as_base64)}}}'
        for index, each in enumerate(found)
    )
    usage = {"prompt_tokens": num_tokens, "total_tokens": num_tokens}
    return _listed("data", data, {"object": "list", "model": model, "usage": usage})


def ollama_embed_reply(found: Sequence[Embedding], model: str, total_s: float) -> bytes:
    """That of /api/embed, as JSON."""
    rest = {
        "model": model,
        "total_duration": round(total_s * 1e9),
        "load_duration": 0,
        "prompt_eval_count": sum(each.num_tokens for each in found),
    }
    return _listed("embeddings", (_written(each) for each in found), rest)


def ollama_embedding_reply(found: Sequence[Embedding]) -> bytes:
    """That of /api/embeddings, as JSON."""
    return f'{{"embedding":{_written(found[0])}}}'.encode()


def _inputs(given: Any, max_context: int) -> Sequence[str | tuple[int, ...]]:
    return read_prompts(given, 0, MOST_INPUTS, max_context, name="input")


def _listed(name: str, entries: Iterable[str], rest: Mapping[str, object]) -> bytes:
    """An object with a list of that name, and the rest. Vectors are written one by one, by whoever asks: thousands at
    once would let nobody else do anything for seconds.
    """
    return f'{{"{name}":[{",".join(entries)}],{json.dumps(rest)[1:]}'.encode()


def _written(each: Embedding, as_base64: bool = False) -> str:
    if as_base64:
        return f'"{base64.b64encode(each.vector.astype(np.dtype("<f4")).tobytes()).decode()}"'
    return json.dumps(each.vector.tolist(), separators=(",", ":"), allow_nan=False)
