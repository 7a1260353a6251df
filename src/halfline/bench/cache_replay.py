"""What the caches of answers are worth: many requests, most of them asked before, asked of one server in this process.

Each reply says which tier answered. A client remembers what it was answered, so it can type it, or fetch it by its
address; it checks every answer that it knows already, and has the server compute anew (`no-cache`) every answer that a
guess had part in, and one in `check_every` of the others. So a false hit would be seen. Answers are compared where
their address is the same: a document's prompt depends on what was asked for it before, so the same place may be another
question later.

The baseline of a tier are the requests of the same run that nobody knew anything of (`miss`). A hit that is known
computes nothing; of a guess that was right the model reads all tokens at once, which saves steps of decoding and
nothing of the prompt, so of those the decoding is compared too, per token.
"""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field

from fastapi import FastAPI

from halfline.api.app import create_app
from halfline.api.options import ApiOptions
from halfline.api.serving import Loaded
from halfline.bench.cache_requests import Place, Way, edited, renamed
from halfline.bench.in_process import Reply, call, until_healthy

_GUESSED = ("syntax", "semantic")
_DECODE = re.compile(r"decode;dur=([\d.]+)")


@dataclass(frozen=True, slots=True)
class Asked:
    """One request. `decode_ms` and `num_tokens` 0 where the reply does not say."""

    way: Way
    source: str
    tier: str
    wall_ms: float
    thread_ms: float
    decode_ms: float
    num_tokens: int


@dataclass(slots=True)
class Replayed:
    """All of it. `num_checked` answers were compared with what they have to be, `false` are those that differ."""

    asked: list[Asked] = field(default_factory=list)
    num_checked: Counter[str] = field(default_factory=Counter)  # by tier
    num_moved: int = 0  # could not be checked: the window had moved
    false: list[Mapping[str, str]] = field(default_factory=list)
    guesses: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


def replay_caches(
    load: Callable[[], Loaded],
    requests: Iterable[tuple[Way, Place]],
    max_tokens: int,
    check_every: int,
    progress: Callable[[int], None],
) -> Replayed:
    """Ask for all of them, one after the other. `progress` is told how many were."""
    return asyncio.run(_replay(load, requests, max_tokens, check_every, progress))


async def _replay(
    load: Callable[[], Loaded],
    requests: Iterable[tuple[Way, Place]],
    max_tokens: int,
    check_every: int,
    progress: Callable[[int], None],
) -> Replayed:
    loaded: list[Loaded] = []

    def remembered() -> Loaded:
        loaded.append(load())
        return loaded[0]

    app = create_app(remembered, ApiOptions())
    replayed = Replayed()
    async with app.router.lifespan_context(app):
        await until_healthy(app)
        client = _Client(app, max_tokens, check_every, replayed)
        for number, (way, place) in enumerate(requests):
            await client.ask(way, place)
            progress(number + 1)
        state = loaded[0].cache_state
        if state is not None:
            replayed.guesses = {tier: asdict(totals) for tier, totals in state.guesses().items()}  # type: ignore[call-overload]
    return replayed


@dataclass(slots=True)
class _Known:
    text: str
    address: str | None
    etag: str | None = None


class _Client:
    """Remembers what it was answered at each place."""

    def __init__(self, app: FastAPI, max_tokens: int, check_every: int, replayed: Replayed) -> None:
        self._app = app
        self._max_tokens = max_tokens
        self._check_every = check_every
        self._replayed = replayed
        self._known: dict[Place, _Known] = {}
        self._computed: dict[str, str] = {}  # by address: what the model said, nothing being known

    async def ask(self, way: Way, place: Place) -> None:
        known = self._known.get(place)
        if way == "fetch" and known is not None and known.address is not None:
            await self._fetch(place, known, known.address)
            return
        if way == "typed" and known is not None and len(known.text) > 1:
            typed = known.text[: 1 + len(self._replayed.asked) % (len(known.text) - 1)]
            place = Place(place.source, place.path, place.before + typed, place.behind)
        elif way == "renamed":
            place = renamed(place) or place
        elif way == "edited":
            place = edited(place)
        await self._complete(way, place)

    async def _fetch(self, place: Place, known: _Known, address: str) -> None:
        headers = {} if known.etag is None else {"if-none-match": known.etag}
        reply = await call(self._app, "GET", address, headers=headers)
        self._replayed.asked.append(
            Asked("fetch", place.source, reply.cache, reply.wall_ms, reply.thread_ms, 0.0, 0)
        )
        if reply.status == 200:
            known.etag = reply.headers["etag"]
            self._check(place, "http", json.loads(reply.body)["choices"][0]["text"], known.text)

    async def _complete(self, way: Way, place: Place) -> None:
        reply = await self._post(place)
        said = json.loads(reply.body)
        text = said["choices"][0]["text"]
        decode = _DECODE.search(reply.headers["server-timing"])
        tier = reply.cache
        self._replayed.asked.append(
            Asked(
                way,
                place.source,
                tier,
                reply.wall_ms,
                reply.thread_ms,
                float(decode[1]) if decode else 0.0,
                said["usage"]["completion_tokens"],
            )
        )
        address = reply.headers.get("content-location")
        if place not in self._known:
            self._known[place] = _Known(text, address)
        if tier == "miss" and address is not None and address not in self._computed:
            self._computed[address] = text
        elif address in self._computed:
            self._check(place, tier, text, self._computed[address])
        elif tier in _GUESSED or len(self._replayed.asked) % self._check_every == 0:
            await self._check_anew(place, tier, text, address)

    async def _check_anew(self, place: Place, tier: str, text: str, address: str | None) -> None:
        """A window may have moved since: then it is another question, which has another address."""
        anew = await self._post(place, {"cache-control": "no-cache"})
        right = json.loads(anew.body)["choices"][0]["text"]
        moved_to = anew.headers.get("content-location")
        if moved_to is not None:
            self._computed[moved_to] = right
        if moved_to == address:
            self._check(place, tier, text, right)
        else:
            self._replayed.num_moved += 1

    async def _post(self, place: Place, headers: Mapping[str, str] | None = None) -> Reply:
        body = {
            "prompt": place.before,
            "suffix": place.behind,
            "max_tokens": self._max_tokens,
            "metadata": {"path": place.path},
            "postprocess": False,
        }
        reply = await call(self._app, "POST", "/v1/completions", json.dumps(body).encode(), headers)
        if reply.status != 200:
            raise RuntimeError(f"the server answered {reply.status}: {reply.body[:200]!r}")
        return reply

    def _check(self, place: Place, tier: str, text: str, right: str) -> None:
        self._replayed.num_checked[tier] += 1
        if text != right:
            self._replayed.false.append(
                {"tier": tier, "path": place.path, "text": text, "right": right, "before": place.before}
            )
