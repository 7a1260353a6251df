"""What Tabby's agent asks besides completions: health, settings, and events of its user."""

import os
import platform
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from halfline.api.dialects.json_body import read_body
from halfline.api.serving import ServedModel

# The agent compares it with versions of Tabby to know what a server can do; that it is halfline is said beside.
_SPEAKS_TABBY = "v0.30.0"

SETTING: Mapping[str, object] = {"disable_client_side_telemetry": True}


class TabbyEvent(BaseModel):
    """POST /v1/events: what became of a completion that was shown."""

    model_config = ConfigDict(extra="ignore")

    type: Literal["view", "select", "dismiss"]
    completion_id: str = Field(max_length=256)
    choice_index: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    view_id: str | None = Field(None, max_length=256)
    select_kind: Literal["line"] | None = None
    elapsed: Annotated[int, Field(ge=0, le=2**63 - 1)] | None = None


def read_event(body: bytes) -> TabbyEvent:
    """Raises BadRequest for another type of event."""
    return read_body(TabbyEvent, body, {"type": "it must be view, select or dismiss"})


def health(model: ServedModel, version: str) -> Mapping[str, object]:
    """Tabby's fields, and llama-server's `status` for whoever asks by that path."""
    device = "cpu"
    return {
        "status": "ok",
        "model": model.name,
        "chat_model": model.name,
        "device": device,
        "arch": platform.machine(),
        "cpu_info": platform.processor() or platform.machine(),
        "cpu_count": os.cpu_count() or 1,
        "cuda_devices": [],
        "models": {"completion": {"local": {"model_id": model.name, "device": device}}, "chat": None},
        "version": {
            "build_date": "",
            "build_timestamp": "",
            "git_sha": f"halfline-{version}",
            "git_describe": _SPEAKS_TABBY,
        },
        "webserver": False,
    }
