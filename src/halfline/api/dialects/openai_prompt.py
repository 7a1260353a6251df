"""The `prompt` field: its four shapes, told apart by the first entry.

They are checked here and not by the schema: a schema tries every shape on all of millions of entries, and then writes
down what was wrong with them. Here a list that is too long is refused unread.
"""

from typing import Annotated, Any

from pydantic import WithJsonSchema

from halfline.errors import BadRequest, PromptTooLong

_MOST_ID = 2**31 - 1

_IDS_SCHEMA = {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": _MOST_ID}}
PROMPT_SCHEMA = {
    "anyOf": [
        {"type": "string"},
        {"type": "array", "items": {"type": "string"}},
        _IDS_SCHEMA,
        {"type": "array", "items": _IDS_SCHEMA},
    ]
}

PromptField = Annotated[Any, WithJsonSchema(PROMPT_SCHEMA)]


def read_prompts(
    prompt: PromptField, max_tokens: int, max_prompts: int, max_context: int, name: str = "prompt"
) -> list[str | tuple[int, ...]]:
    """One entry per prompt; `name` is the field's. Raises BadRequest, and PromptTooLong for more ids than the model has
    places.
    """
    if prompt is None:
        raise BadRequest(f"`{name}` is missing", name)
    if isinstance(prompt, str):
        return [prompt]
    if not isinstance(prompt, list):
        raise _misshapen(name)
    if not prompt:
        raise BadRequest(f"`{name}` is an empty list", name)
    if not isinstance(prompt[0], str | list):
        return [_token_ids(prompt, max_tokens, max_context, name)]
    if len(prompt) > max_prompts:
        raise BadRequest(f"`{name}` has {len(prompt)} entries, the limit is {max_prompts}", name)
    if isinstance(prompt[0], list):
        return [_token_ids(entry, max_tokens, max_context, name) for entry in prompt]
    if not all(isinstance(entry, str) for entry in prompt):
        raise _misshapen(name)
    return prompt


def _token_ids(entry: Any, max_tokens: int, max_context: int, name: str) -> tuple[int, ...]:
    if not isinstance(entry, list):
        raise _misshapen(name)
    if len(entry) + max_tokens > max_context:
        raise PromptTooLong(len(entry), max_tokens, max_context, field=name)
    # `type`, since JSON's true is one of Python's ints.
    if not all(type(token_id) is int and 0 <= token_id <= _MOST_ID for token_id in entry):
        raise _misshapen(name)
    return tuple(entry)


def _misshapen(name: str) -> BadRequest:
    return BadRequest(
        f"`{name}`: it must be a text, a list of texts, a list of token ids, or a list of such lists", name
    )
