"""What /openapi.json says of bodies that routes read themselves, of keys and of failures.

Describing them all takes as long as a third of the application, and hardly anybody asks: it is done then.
"""

from collections.abc import Collection, Mapping
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from pydantic import BaseModel

_KEYS: Mapping[str, Mapping[str, str]] = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "x-api-key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
    "api-key": {"type": "apiKey", "in": "header", "name": "api-key"},
}

_METHODS = ("get", "post")

# Every dialect has its own words inside.
_FAILURE = {
    "description": "Refused, or failed: `error` says why, in the words of the route's dialect.",
    "content": {"application/json": {"schema": {"type": "object", "required": ["error"]}}},
}


class BodySchema(dict[str, Any]):
    """For a route's `openapi_extra`: a body of one of the models, answered as JSON, and where `streams` is a media type
    also as that. Empty until `describe` is called.
    """

    def __init__(self, *models: type[BaseModel], streams: str | None = None) -> None:
        super().__init__()
        self._models = models
        self._streams = streams

    def describe(self) -> None:
        schemas = []
        for model in self._models:
            schema = model.model_json_schema()
            schemas.append(_inlined(schema, schema.get("$defs", {})))
        body = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
        self["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
        if self._streams is not None:
            self["responses"] = {"200": {"content": {self._streams: {}}}}


class DescribedApp(FastAPI):
    """Describes the bodies of its routers when it is asked for its page. `keyless` paths want no key of anybody."""

    def __init__(self, *, keyless: Collection[str], **settings: Any) -> None:
        self._keyless = keyless
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
        page = super().openapi()
        page.setdefault("components", {})["securitySchemes"] = dict(_KEYS)
        page["security"] = [{}, *({name: []} for name in _KEYS)]  # {}: where nobody is asked for one
        for path, operations in page["paths"].items():
            for method in operations.keys() & _METHODS:
                responses = operations[method]["responses"]
                responses.pop("422", None)  # the framework's own, which no route here answers with
                responses["default"] = _FAILURE
                if path in self._keyless:
                    operations[method]["security"] = []
        return page


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
