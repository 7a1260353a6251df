"""Answers shared through a real Redis, and what happens when it goes."""

import asyncio
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis_server import RedisServer

from halfline.cache.memory import Kept, MemoryTier
from halfline.cache.redis_tier import RedisTier
from halfline.cache.store import Store


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path)
    yield server
    server.kill()


def test_what_one_server_puts_another_finds(redis: RedisServer) -> None:
    async def main() -> None:
        stores = [
            Store(MemoryTier(1 << 20, 100.0), [RedisTier(redis.url, 100.0)], patience_s=60.0)
            for _ in range(2)
        ]
        stores[0].put(b"key", b"value \x00\xff")
        await asyncio.to_thread(stores[0].flush)
        assert stores[1].get(b"key", "exact") is None
        assert await stores[1].fetch(b"key") == b"value \x00\xff"
        assert stores[1].get(b"key", "exact") == b"value \x00\xff", "now in memory"
        assert await stores[1].fetch(b"another") is None
        for store in stores:
            await asyncio.to_thread(store.close)

    asyncio.run(main())


def test_a_redis_that_goes_costs_nothing_but_its_answers_and_comes_back(redis: RedisServer) -> None:
    now = [0.0]
    tier = RedisTier(redis.url, 100.0, clock=lambda: now[0])
    tier.open()
    tier.put([(b"key", Kept(b"value", 0.0))], [], 0.0)
    assert tier.get(b"key", 0.0) == Kept(b"value", 0.0)
    redis.kill()
    assert tier.get(b"key", 0.0) is None and tier.num_failures == 1
    assert not tier.may_hold(b"key"), "left alone for a moment"
    tier.put([(b"key", Kept(b"value", 0.0))], [], 0.0)
    assert tier.num_failures == 1
    redis.start()
    now[0] = 2.0
    assert tier.may_hold(b"key") and tier.get(b"key", 2.0) is None, "it lost everything"
    tier.put([(b"key", Kept(b"value", 2.0))], [], 2.0)
    assert tier.get(b"key", 2.0) == Kept(b"value", 2.0)
    tier.close()


def test_what_is_too_old_or_another_wrote_is_not_believed(redis: RedisServer) -> None:
    from redis import Redis as Client

    tier = RedisTier(redis.url, 10.0)
    tier.open()
    tier.put([(b"key", Kept(b"value", 100.0)), (b"other", Kept(b"value", 100.0))], [], 100.0)
    assert tier.get(b"key", 109.0) is not None and tier.get(b"key", 111.0) is None
    with Client.from_url(redis.url) as client:
        client.set(b"halfline:1:key", client.get(b"halfline:1:other"))
        client.set(b"halfline:1:other", b"short")
    assert tier.get(b"key", 100.0) is None and tier.get(b"other", 100.0) is None
    tier.close()


def test_a_redis_gone_while_it_is_asked_is_a_miss(redis: RedisServer) -> None:
    async def main() -> None:
        store = Store(MemoryTier(1 << 20, 100.0), [RedisTier(redis.url, 100.0)])
        store.put(b"key", b"value")
        await asyncio.to_thread(store.flush)
        asking = [asyncio.create_task(store.fetch(b"other %d" % number)) for number in range(50)]
        await asyncio.sleep(0)
        redis.kill()
        async with asyncio.timeout(30):
            assert await asyncio.gather(*asking) == [None] * 50
        assert store.get(b"key", "exact") == b"value"
        store.put(b"new", b"value")
        assert store.get(b"new", "exact") == b"value"
        await asyncio.to_thread(store.close)

    asyncio.run(main())


@pytest.mark.parametrize(
    "reply", [b"$abc\r\n", b":x\r\n", b"+OK\r\n", b"*1\r\n$1\r\na\r\n", b"HTTP/1.1 400\r\n\r\n"]
)
def test_what_speaks_something_else_at_the_address_is_a_redis_that_does_not_answer(reply: bytes) -> None:
    class Speaks(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            while self.request.recv(1 << 16):
                self.request.sendall(reply)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        block_on_close = False

    with Server(("127.0.0.1", 0), Speaks) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        now = [0.0]
        tier = RedisTier(f"redis://127.0.0.1:{server.server_address[1]}/0", 100.0, clock=lambda: now[0])
        tier.open()
        assert tier.get(b"key", 0.0) is None and tier.num_failures == 1
        now[0] = 2.0
        tier.put([(b"key", Kept(b"value", 0.0))], [], 0.0)
        assert tier.get(b"key", 0.0) is None
        tier.close()
        server.shutdown()
