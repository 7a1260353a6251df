"""Answers by their address, as HTTP caches want them."""

import pytest

from halfline.cache.fragments import Fragments
from halfline.cache.memory import MemoryTier
from halfline.cache.store import Store
from halfline.request import Choice

pytestmark = pytest.mark.anyio

ANSWER = (Choice(0, "abc", (1, 2, 3), "stop"),)


def kept(tenant: str = "local") -> tuple[Fragments, str]:
    fragments = Fragments(Store(MemoryTier(1 << 20, 100.0), clock=lambda: 1000.0), b"", 100.0)
    address = fragments.put(tenant, b"question", ANSWER)
    assert address is not None
    return fragments, address


async def test_an_answer_is_found_by_its_address_with_a_strong_etag(on_stage) -> None:
    fragments, address = kept()
    async with on_stage(fragments=fragments) as stage:
        reply = await stage.client.get(f"/v1/fragments/{address}")
        assert reply.status_code == 200
        assert reply.json()["choices"] == [{"index": 0, "text": "abc", "finish_reason": "stop"}]
        etag = reply.headers["ETag"]
        assert etag.startswith('"') and reply.headers["Cache-Control"] == "private, max-age=100"
        assert reply.headers["X-Cache"] == "http"
        assert reply.headers["Vary"] == "Authorization, x-api-key, api-key"
        for sent in (etag, f'"other", W/{etag}', "*"):
            again = await stage.client.get(f"/v1/fragments/{address}", headers={"If-None-Match": sent})
            assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", etag)
        for sent in ('"other"', '"one, *, tag"', etag[:-1], f"w/{etag}", '"*"', ","):
            other = await stage.client.get(f"/v1/fragments/{address}", headers={"If-None-Match": sent})
            assert other.status_code == 200
        metrics = (await stage.client.get("/metrics")).text
        head = await stage.client.head(f"/v1/fragments/{address}")
        del head.headers["X-Request-Id"], reply.headers["X-Request-Id"]
        assert (head.status_code, head.headers) == (200, reply.headers)
    assert 'halfline_answers_total{tier="http"} 10.0' in metrics


@pytest.mark.parametrize(
    ("fragments", "address"),
    [
        (None, kept()[1]),
        (kept()[0], "ff" * 32),
        (kept()[0], "no address"),
        kept(tenant="another"),
    ],
    ids=["none are kept", "another address", "no address", "another tenant's"],
)
async def test_where_there_is_nothing_the_answer_is_404(on_stage, fragments, address: str) -> None:
    async with on_stage(fragments=fragments) as stage:
        reply = await stage.client.get(f"/v1/fragments/{address}")
        assert reply.status_code == 404
        assert reply.json()["error"]["code"] == "unknown_fragment"


async def test_a_reply_names_its_address_unless_it_leaves_out_choices_that_are_there(on_stage) -> None:
    async with on_stage() as stage:
        stage.pipeline.address = "ab12"
        whole = await stage.complete(prompt="x", max_tokens=1, n=2, best_of=2)
        best = await stage.complete(prompt="x", max_tokens=1, n=1, best_of=2)
        two = await stage.complete(prompt=["x", "y"], max_tokens=1)
        stage.pipeline.address = None
        unkept = await stage.complete(prompt="x", max_tokens=1)
    assert whole.headers["Content-Location"] == "/v1/fragments/ab12"
    for reply in (best, two, unkept):
        assert reply.status_code == 200
        assert "Content-Location" not in reply.headers
