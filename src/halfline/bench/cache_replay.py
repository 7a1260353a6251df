"""What the caches of answers are worth: many requests, most of them asked before, asked of one server in this process.

Each reply says which tier answered. A client remembers what it was answered, so it can type it, or fetch it by its
address. Of every question it has the server compute the answer anew once, with all tiers passed by (`no-cache`), and
compares every answer to that question with it, the first one too. So a false hit would be seen, whatever tier it came
from. What the model is shown of a document depends on what was asked for it before, so a question is told by that: the
text of the window, which the receipt measures (`/v1/completions/{id}/why`).

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
from hashlib import blake2b
from typing import Any

from fastapi import FastAPI

from halfline.api.app import create_app
from halfline.api.options import ApiOptions
from halfline.api.serving import Loaded
from halfline.bench.cache_requests import Place, Way, edited, renamed
from halfline.bench.in_process import Reply, call, until_healthy

GUESSING = ("syntax", "semantic")
"""Tiers that propose an answer for the model to agree with."""

_DECODE = re.compile(r"decode;dur=([\d.]+)")


@dataclass(frozen=True, slots=True)
class Asked:
    """One request. `decode_ms` and `num_tokens` 0 where the reply does not say; of its tokens `num_agreed` were guessed
    by the tier `guessed_by`, and the model agreed; "" and 0 where nothing was.
    """

    way: Way
    source: str
    tier: str
    wall_ms: float
    thread_ms: float
    decode_ms: float
    num_tokens: int
    num_agreed: int = 0
    guessed_by: str = ""


@dataclass(slots=True)
class Replayed:
    """All of it. `num_checked` answers were compared with what they have to be, `false` are those that differ.
    `num_questions` were computed with all tiers passed by. Of `num_moved` answers it is not known what they have to be:
    the window moved before that was computed.
    """

    asked: list[Asked] = field(default_factory=list)
    num_questions: int = 0
    num_moved: int = 0
    num_checked: Counter[str] = field(default_factory=Counter)  # by tier
    false: list[Mapping[str, str]] = field(default_factory=list)
    guesses: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


def replay_caches(
    load: Callable[[], Loaded],
    requests: Iterable[tuple[Way, Place]],
    max_tokens: int,
    progress: Callable[[Asked], None],
) -> Replayed:
    """Ask for all of them, one after the other. `progress` is told of each."""
    return asyncio.run(_replay(load, requests, max_tokens, progress))


async def _replay(
    load: Callable[[], Loaded],
    requests: Iterable[tuple[Way, Place]],
    max_tokens: int,
    progress: Callable[[Asked], None],
) -> Replayed:
    loaded: list[Loaded] = []

    def remembered() -> Loaded:
        loaded.append(load())
        return loaded[0]

    app = create_app(remembered, ApiOptions())
    replayed = Replayed()
    async with app.router.lifespan_context(app):
        await until_healthy(app)
        client = _Client(app, max_tokens, replayed)
        for way, place in requests:
            await client.ask(way, place)
            progress(replayed.asked[-1])
        state = loaded[0].cache_state
        if state is not None:
            replayed.guesses = {tier: asdict(totals) for tier, totals in state.guesses().items()}  # type: ignore[call-overload]
    return replayed


@dataclass(slots=True)
class _Known:
    text: str
    question: bytes
    address: str | None
    etag: str | None = None


class _Client:
    """Remembers what it was answered at each place."""

    def __init__(self, app: FastAPI, max_tokens: int, replayed: Replayed) -> None:
        self._app = app
        self._max_tokens = max_tokens
        self._replayed = replayed
        self._known: dict[Place, _Known] = {}
        self._question_at: dict[str, bytes] = {}  # an address names a question and an answer to it
        self._right: dict[bytes, str] = {}  # by question: what the model said, nothing being known

    async def ask(self, way: Way, place: Place) -> None:
        known = self._known.get(place)
        if way == "fetch" and known is not None and known.address is not None:
            await self._fetch(place, known, known.address)
            return
        if way == "typed" and known is not None and len(known.text) > 1:
            typed = known.text[: len(known.text) * (1 + len(self._replayed.asked) % 2) // 3 or 1]
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
            text = json.loads(reply.body)["choices"][0]["text"]
        else:  # as it was
            text = known.text
        self._check(place, "http", text, known.question)

    async def _complete(self, way: Way, place: Place) -> None:
        reply = await self._post(place)
        said = json.loads(reply.body)
        text = said["choices"][0]["text"]
        decode = _DECODE.search(reply.headers["server-timing"])
        tier = reply.cache
        address = reply.headers.get("content-location")
        question = None if address is None else self._question_at.get(address)
        why: Mapping[str, Any] = {} if question is not None else await self._why(said["id"])
        self._replayed.asked.append(
            Asked(
                way,
                place.source,
                tier,
                reply.wall_ms,
                reply.thread_ms,
                float(decode[1]) if decode else 0.0,
                said["usage"]["completion_tokens"],
                *_agreed(why),
            )
        )
        if question is None:
            question = _question(place, why)
        if address is not None:
            self._question_at[address] = question
        if question not in self._right:
            await self._compute(place)
        if place not in self._known:
            self._known[place] = _Known(text, question, address)
        self._check(place, tier, text, question)

    async def _compute(self, place: Place) -> None:
        anew = await self._post(place, {"cache-control": "no-cache"})
        said = json.loads(anew.body)
        self._right[_question(place, await self._why(said["id"]))] = said["choices"][0]["text"]
        self._replayed.num_questions += 1

    async def _why(self, completion_id: str) -> dict[str, Any]:
        reply = await call(self._app, "GET", f"/v1/completions/{completion_id}/why")
        receipt: dict[str, Any] = json.loads(reply.body)
        return receipt

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

    def _check(self, place: Place, tier: str, text: str, question: bytes) -> None:
        right = self._right.get(question)
        if right is None:
            self._replayed.num_moved += 1
            return
        self._replayed.num_checked[tier] += 1
        if text != right:
            self._replayed.false.append(
                {"tier": tier, "path": place.path, "text": text, "right": right, "before": place.before}
            )


def _agreed(receipt: Mapping[str, Any]) -> tuple[int, str]:
    """How many tokens were guessed right by a tier, and which; of a receipt that may not be there."""
    accepted: Mapping[str, int] = receipt.get("accepted_tokens", {})
    agreed = [(accepted[tier], tier) for tier in GUESSING if accepted.get(tier)]
    return max(agreed, default=(0, ""))


def _question(place: Place, receipt: Mapping[str, Any]) -> bytes:
    """A digest of what the model was shown, and of what has to come first in the answer."""
    seen: Mapping[str, Any] = receipt["ledger"]
    before = place.before[-seen["prefix_characters"] :] if seen["prefix_characters"] else ""
    behind = place.behind if seen["suffix_tokens"] else ""
    numbers = [seen[each] for each in ("prompt_tokens", "suffix_tokens", "forced_characters", "order")]
    return blake2b(json.dumps([before, behind, *numbers]).encode(), digest_size=16).digest()
