"""What /openapi.json says of bodies that routes read themselves.

Describing them all takes as long as a third of the application, and hardly anybody asks: it is done then.
"""

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from pydantic import BaseModel


class BodySchema(dict[str, Any]):
    """For a route's `openapi_extra`: a body of one of the models. Empty until `describe` is called."""

    def __init__(self, *models: type[BaseModel]) -> None:
        super().__init__()
        self._models = models

    def describe(self) -> None:
        schemas = []
        for model in self._models:
            schema = model.model_json_schema()
            schemas.append(_inlined(schema, schema.get("$defs", {})))
        body = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
        self["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}


class DescribedApp(FastAPI):
    """Describes the bodies of its routers when it is asked for its page."""

    def __init__(self, **settings: Any) -> None:
        self._bodies: list[BodySchema] = []
        super().__init__(**settings)

    def include_router(self, router: APIRouter, *arguments: Any, **settings: Any) -> None:
        self._bodies += [
            route.openapi_extra
            for route in router.routes
            if isinstance(route, APIRoute) and isinstance(route.openapi_extra, BodySchema)
        ]
        super().include_router(router, *arguments, **settings)

    def openapi(self) -> dict[str, Any]:
        while self._bodies:
            self._bodies.pop().describe()
        return super().openapi()


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
