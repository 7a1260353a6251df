"""What Ollama's clients ask about models: the one served here, in Ollama's words."""

import hashlib
from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field

from halfline.api.dialects.ollama_reply import timestamp
from halfline.api.serving import Loaded, ServedModel

# Clients that can infill look for `.Suffix` in it. Never rendered: what the model reads is decided elsewhere.
_TEMPLATE = "{{ if .Suffix }}{{ .Prompt }}{{ .Suffix }}{{ else }}{{ .System }}{{ .Prompt }}{{ end }}"

# Clients compare it with the version that brought a feature; nothing of Ollama later than this is claimed.
VERSION = "0.12.0"

_KEPT_UNTIL = "2099-01-01T00:00:00Z"  # the model never leaves


class ShowBody(BaseModel):
    """POST /api/show: any model's name, in either field."""

    model_config = ConfigDict(extra="ignore")

    model: str | None = None
    name: str | None = Field(None, description="The same as `model`.")


def tags(model: ServedModel) -> Mapping[str, object]:
    """The models that are there."""
    return {"models": [{**_entry(model), "modified_at": timestamp(model.modified_at)}]}


def running(model: ServedModel) -> Mapping[str, object]:
    """The models in memory."""
    entry = {
        **_entry(model),
        "expires_at": _KEPT_UNTIL,
        "size_vram": 0,
        "context_length": model.max_context,
    }
    return {"models": [entry]}


def card(loaded: Loaded) -> Mapping[str, object]:
    """What is known of the model."""
    model = loaded.model
    return {
        "license": "",
        "modelfile": f"FROM {model.name}\n",
        "parameters": f"num_ctx                        {model.max_context}",
        "template": _TEMPLATE,
        "details": _details(model),
        "model_info": {
            "general.architecture": model.family,
            "general.parameter_count": model.num_parameters,
            f"{model.family}.context_length": model.max_context,
            "tokenizer.chat_template": loaded.chat.source,
        },
        "capabilities": ["completion", "insert"],
        "modified_at": timestamp(model.modified_at),
    }


def _entry(model: ServedModel) -> Mapping[str, object]:
    """The digest names the file by what is known without reading all of it."""
    identity = f"{model.name}\n{model.num_bytes}\n{model.modified_at}"
    return {
        "name": model.name,
        "model": model.name,
        "size": model.num_bytes,
        "digest": hashlib.sha256(identity.encode()).hexdigest(),
        "details": _details(model),
    }


def _details(model: ServedModel) -> Mapping[str, object]:
    return {
        "parent_model": "",
        "format": "gguf",
        "family": model.family,
        "families": [model.family],
        "parameter_size": _rounded(model.num_parameters),
        "quantization_level": "unknown",
    }


def _rounded(num_parameters: int) -> str:
    if num_parameters >= 1e9:
        return f"{num_parameters / 1e9:.1f}B"
    return f"{num_parameters / 1e6:.0f}M"
