"""Tabby's POST /v1/completions as its agent sends it, turned into a `CompletionRequest`, and the reply it reads.

The path is OpenAI's too; `is_tabby` tells by the body whose it is.
"""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from halfline.api.call import Arrival
from halfline.api.dialects.json_body import read_body
from halfline.api.dialects.sampling_fields import temperature
from halfline.errors import BadRequest, UnsupportedField
from halfline.request import (
    Completion,
    CompletionRequest,
    Document,
    Identity,
    Part,
    SamplingParams,
)

_MODE = "standard"

_MOST_PARTS = 1024
_MAX_CLIPBOARD = 4096  # characters; a longer one is a file


class _Snippet(BaseModel):
    model_config = ConfigDict(extra="ignore")

    filepath: str | None = None
    body: str = ""


_Snippets = Annotated[list[_Snippet], Field(max_length=_MOST_PARTS)]


class _Segments(BaseModel):
    model_config = ConfigDict(extra="ignore")

    prefix: str
    suffix: str | None = None
    filepath: str | None = None
    clipboard: str | None = None
    declarations: _Snippets | None = None
    relevant_snippets_from_changed_files: _Snippets | None = None
    relevant_snippets_from_recently_opened_files: _Snippets | None = None


class _DebugOptions(BaseModel):
    model_config = ConfigDict(extra="ignore")

    raw_prompt: str | None = None


class TabbyBody(BaseModel):
    """What Tabby's agent sends; the rest of it is for Tabby's own index."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    language: str | None = None
    segments: _Segments | None = Field(
        None, description="The text around the cursor, and pieces of other files."
    )
    user: str | None = Field(None, max_length=1024)
    temperature: float | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**64)] | None = None
    mode: str | None = Field(None, description="Only `standard`.")
    debug_options: _DebugOptions | None = Field(None, description="`raw_prompt` instead of segments.")


class _Whose(BaseModel):
    """Just enough to tell the two dialects of one path apart."""

    model_config = ConfigDict(extra="ignore")

    prompt: Any = None
    segments: Any = None
    debug_options: Any = None


def is_tabby(body: bytes) -> bool:
    """Whether a body of /v1/completions has `segments` or a raw prompt of Tabby's, and no `prompt`."""
    if b'"segments"' not in body and b'"raw_prompt"' not in body:
        return False
    try:
        whose = _Whose.model_validate_json(body)
    except ValueError:
        return False  # whoever reads it says what is wrong with it
    raw = isinstance(whose.debug_options, dict) and "raw_prompt" in whose.debug_options
    return whose.prompt is None and (whose.segments is not None or raw)


def read_tabby(body: bytes, arrival: Arrival) -> CompletionRequest:
    """Raises BadRequest."""
    given = read_body(TabbyBody, body)
    if given.mode not in (None, _MODE):
        raise UnsupportedField("mode", given.mode[:40], _MODE)
    prompt = _prompt(given)
    profile = arrival.options.find_profile(None)
    identity = None
    if given.user and isinstance(prompt, Document) and prompt.path:
        identity = Identity(arrival.tenant, given.user, prompt.path)
    return CompletionRequest(
        id=arrival.call_id,
        prompt=prompt,
        params=SamplingParams(
            temperature=temperature(profile, given.temperature),
            top_k=profile.top_k,
            top_p=profile.top_p,
            min_p=profile.min_p,
            seed=None if given.seed is None else given.seed % 2**64,
        ),
        max_tokens=profile.max_new_tokens,
        tenant=arrival.tenant,
        user=given.user or "",
        identity=identity,
    )


def _prompt(given: TabbyBody) -> str | Document:
    if given.debug_options is not None and given.debug_options.raw_prompt is not None:
        return given.debug_options.raw_prompt
    segments = given.segments
    if segments is None:
        raise BadRequest("`segments` is missing", "segments")
    # What is most worth reading last: snippets come with the best first, and a declaration is better than any.
    snippets = [
        *reversed(segments.relevant_snippets_from_recently_opened_files or ()),
        *reversed(segments.relevant_snippets_from_changed_files or ()),
        *reversed(segments.declarations or ()),
    ]
    parts = [Part(snippet.body, snippet.filepath or None) for snippet in snippets]
    if segments.clipboard and segments.clipboard.strip() and len(segments.clipboard) <= _MAX_CLIPBOARD:
        # Nothing changes as often: behind it little has to be read anew.
        parts.append(Part(segments.clipboard))
    return Document(segments.prefix, segments.suffix or "", segments.filepath or None, tuple(parts))


class TabbyReply:
    """One object; there are no streams."""

    def __init__(self, call_id: str) -> None:
        self._call_id = call_id

    def whole(self, completions: Sequence[Completion]) -> dict[str, object]:
        (completion,) = completions
        choices = [{"index": choice.index, "text": choice.text} for choice in completion.choices]
        return {"id": self._call_id, "choices": choices, "mode": _MODE}
