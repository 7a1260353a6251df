"""Answers by their address, as HTTP caches want them."""

import pytest

from halfline.cache.fragments import Fragments
from halfline.cache.memory import MemoryTier
from halfline.cache.store import Store
from halfline.request import Choice, FinishReason

pytestmark = pytest.mark.anyio

ADDRESS = bytes(range(32))


def kept(tenant: str = "local", reason: FinishReason = "stop") -> Fragments:
    fragments = Fragments(Store(MemoryTier(1 << 20, 100.0), clock=lambda: 1000.0), 100.0)
    fragments.put(tenant, ADDRESS, (Choice(0, "abc", (1, 2, 3), reason),))
    return fragments


async def test_an_answer_is_found_by_its_address_with_a_strong_etag(on_stage) -> None:
    async with on_stage(fragments=kept()) as stage:
        reply = await stage.client.get(f"/v1/fragments/{ADDRESS.hex()}")
        assert reply.status_code == 200
        assert reply.json()["choices"] == [{"index": 0, "text": "abc", "finish_reason": "stop"}]
        etag = reply.headers["ETag"]
        assert etag.startswith('"') and reply.headers["Cache-Control"] == "private, max-age=100"
        assert (reply.headers["X-Cache"], reply.headers["Vary"]) == ("http", "Authorization")
        for sent in (etag, f'"other", W/{etag}', "*"):
            again = await stage.client.get(f"/v1/fragments/{ADDRESS.hex()}", headers={"If-None-Match": sent})
            assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", etag)
        other = await stage.client.get(f"/v1/fragments/{ADDRESS.hex()}", headers={"If-None-Match": '"other"'})
        assert other.status_code == 200
        metrics = (await stage.client.get("/metrics")).text
    assert 'halfline_answers_total{tier="http"} 5.0' in metrics


@pytest.mark.parametrize(
    ("fragments", "address"),
    [
        (None, ADDRESS.hex()),
        (kept(), "ff" * 32),
        (kept(), "no address"),
        (kept(tenant="another"), ADDRESS.hex()),
        (kept(reason="cancelled"), ADDRESS.hex()),
    ],
    ids=["none are kept", "another address", "no address", "another tenant's", "called off"],
)
async def test_where_there_is_nothing_the_answer_is_404(on_stage, fragments, address: str) -> None:
    async with on_stage(fragments=fragments) as stage:
        reply = await stage.client.get(f"/v1/fragments/{address}")
        assert reply.status_code == 404
        assert reply.json()["error"]["code"] == "unknown_fragment"
