"""What /openapi.json says of bodies that routes read themselves."""

from typing import Any

from pydantic import BaseModel


def body_schema(*models: type[BaseModel]) -> dict[str, Any]:
    """For a route's `openapi_extra`: a body of one of the models."""
    schemas = [model.model_json_schema() for model in models]
    schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}
