"""The `messages` of a chat, as every dialect has them: a role each, and a content of text."""

from typing import Annotated, Any

from pydantic import WithJsonSchema

from halfline.api.chat_template import Message
from halfline.errors import BadRequest

_MOST = 4096

_TEXT = {"type": "object", "properties": {"type": {"const": "text"}, "text": {"type": "string"}}}
_SCHEMA = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["role", "content"],
        "properties": {
            "role": {"type": "string"},
            "content": {"anyOf": [{"type": "string"}, {"type": "array", "items": _TEXT}]},
        },
    },
}

# Checked here and not by the schema: a schema writes down what is wrong with each of a million entries.
MessagesField = Annotated[Any, WithJsonSchema(_SCHEMA)]


def read_messages(messages: Any) -> list[Message]:
    """Raises BadRequest for anything else than texts: images, calls of tools."""
    if not isinstance(messages, list) or not messages:
        raise BadRequest("`messages`: it must be a list with at least one message", "messages")
    if len(messages) > _MOST:
        raise BadRequest(f"`messages` has {len(messages)} entries, the limit is {_MOST}", "messages")
    return [_message(message, position) for position, message in enumerate(messages)]


def _message(message: Any, position: int) -> Message:
    where = f"messages.{position}"
    if not isinstance(message, dict) or not isinstance(message.get("role"), str) or not message["role"]:
        raise BadRequest(f"`{where}`: it must be an object with a `role`", "messages")
    if message.get("tool_calls"):
        raise BadRequest(f"`{where}.tool_calls`: this server calls no tools", "messages")
    role = "system" if message["role"] == "developer" else message["role"]
    return {"role": role, "content": _content(message.get("content"), where)}


def _content(content: Any, where: str) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list) or len(content) > _MOST:
        raise BadRequest(f"`{where}.content`: it must be a text or a list of texts", "messages")
    texts = []
    for part in content:
        if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str):
            raise BadRequest(f'`{where}.content`: only parts of the type "text" are read', "messages")
        texts.append(part["text"])
    return "".join(texts)
