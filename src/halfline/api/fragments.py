"""The route of answers by their address: what was answered once, without asking again."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from halfline.api.answering import FRAGMENTS_PATH, Answering
from halfline.api.tenants import tenant_of
from halfline.errors import UnknownFragment

_VARY = "Authorization, x-api-key, api-key"  # a key comes in one of these and decides the tenant


def fragments_router(answering: Answering) -> APIRouter:
    router = APIRouter()

    @router.get(FRAGMENTS_PATH + "/{address}")
    @router.head(FRAGMENTS_PATH + "/{address}", include_in_schema=False)
    async def fragment(request: Request, address: str) -> Response:
        """The answer whose reply had this path in its `Content-Location`; 304 where the client has it already."""
        fragments = answering.serving.loaded.fragments
        found = None if fragments is None else await fragments.get(tenant_of(request), address)
        if found is None:
            raise UnknownFragment(address[:100])
        headers = {
            "ETag": found.etag,
            # Only for whom it was answered: no proxy that others use may keep it.
            "Cache-Control": f"private, max-age={int(found.max_age_s)}",
            "Vary": _VARY,
            "X-Cache": "http",
        }
        answering.metrics.fetched()
        if _has(request.headers.getlist("if-none-match"), found.etag):
            return Response(status_code=304, headers=headers)
        return Response(found.body, media_type="application/json", headers=headers)

    return router


def _has(if_none_match: list[str], etag: str) -> bool:
    """RFC 9110, section 13.1.2: weak comparison, any of a list, or any at all."""
    tags = {tag.strip().removeprefix("W/") for line in if_none_match for tag in line.split(",")}
    return etag in tags or "*" in if_none_match  # a star within a tag is one of its characters
