"""What an operator is told of a tier that is not installed, or of a number that makes no sense."""

import asyncio
import sys

import pytest
from pydantic import ByteSize

from halfline.cache import embedding, syntax
from halfline.cache.embedding import StaticVectors
from halfline.cache.memory import MemoryTier
from halfline.cache.options import CacheOptions
from halfline.cache.redis_tier import RedisTier
from halfline.cache.semantic import SemanticTier
from halfline.cache.store import Store
from halfline.cache.syntax import SyntaxTier
from halfline.errors import BadSettings, MissingExtra


@pytest.mark.parametrize(
    "options",
    [
        {"memory_bytes": ByteSize(-1)},
        {"disk_bytes": ByteSize(-1)},
        {"min_similarity": 0.0},
        {"min_similarity": 1.1},
        {"max_age_s": 0.0},
        {"redis_url": "nowhere"},
    ],
)
def test_a_number_that_makes_no_sense_is_refused_by_its_name(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        CacheOptions(**options)  # type: ignore[arg-type]


def test_a_tier_without_its_extra_says_which_one_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syntax, "has_grammars", lambda: False)
    with pytest.raises(MissingExtra, match="syntax"):
        SyntaxTier(Store(MemoryTier(1 << 20, 1.0)))
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(MissingExtra, match="semantic"):
        SemanticTier(StaticVectors(), 0.9)
    monkeypatch.setattr(embedding, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match="semantic"):
        StaticVectors()
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(MissingExtra, match="redis"):
        RedisTier("redis://127.0.0.1:1/0", 1.0)


def test_an_address_that_is_none_is_refused_by_its_setting() -> None:
    with pytest.raises(BadSettings, match=r"cache\.redis_url"):
        RedisTier("nowhere", 1.0).open()


@pytest.mark.parametrize("url", ["nowhere", "redis://127.0.0.1:1/0"], ids=["no address", "nobody there"])
def test_a_store_goes_on_without_a_tier_that_cannot_be_had(url: str) -> None:
    async def main() -> None:
        store = Store(MemoryTier(1 << 20, 1e9), [RedisTier(url, 1e9)])
        store.put(b"key", b"value")
        async with asyncio.timeout(30):
            assert await store.fetch(b"other") is None
        assert store.get(b"key", "exact") == b"value"
        await asyncio.to_thread(store.close)

    asyncio.run(main())
