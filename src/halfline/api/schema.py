"""What /openapi.json says of bodies that routes read themselves."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel


def body_schema(*models: type[BaseModel]) -> dict[str, Any]:
    """For a route's `openapi_extra`: a body of one of the models."""
    schemas = []
    for model in models:
        schema = model.model_json_schema()
        schemas.append(_inlined(schema, schema.get("$defs", {})))
    body = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": body}}}}


def _inlined(schema: Any, definitions: Mapping[str, Any]) -> Any:
    """With every reference replaced by what it means: `#/$defs` of a body is nowhere in the whole document."""
    if isinstance(schema, list):
        return [_inlined(entry, definitions) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        meant = definitions[schema["$ref"].rpartition("/")[2]]
        return _inlined({**meant, **{k: v for k, v in schema.items() if k != "$ref"}}, definitions)
    return {key: _inlined(value, definitions) for key, value in schema.items() if key != "$defs"}
