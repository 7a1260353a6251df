"""What /openapi.json says of bodies that routes read themselves."""

from typing import Any

from pydantic import BaseModel


def body_schema(model: type[BaseModel]) -> dict[str, Any]:
    """For a route's `openapi_extra`."""
    schema = model.model_json_schema()
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}
