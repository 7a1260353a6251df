"""What two ways of giving sequences their KV memory waste, on the same replayed requests. Accounts only, no clock.

    blocks      fixed blocks of 16 places out of one arena that is never given back: what halfline does
    doubling    one contiguous piece per sequence, twice as large whenever it is full, freed when the sequence ends;
                pieces are placed first-fit, in units of 16 places: the naive dynamic allocator

Both serve the same requests in the same order, `num_slots` at a time; every step adds one token to each sequence that
runs. All numbers are in places; one place is the KV of one token over all layers.
"""

import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from halfline.model.executor import BLOCK_TOKENS


@dataclass(frozen=True, slots=True)
class Request:
    """Lengths in tokens."""

    prompt: int
    answer: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Waste:
    """Of one allocator over one replay."""

    peak_used: int
    """Most places that held a token at one time."""
    peak_reserved: int
    """Most places that belonged to some sequence at one time, the copies while a piece grows included."""
    peak_span: int
    """Highest address ever used: the memory it needs so that nobody waits."""
    inside: float
    """Share of the reserved places that held no token, mean over the steps."""
    between: float
    """Share of the memory below the highest piece in use that no piece covers, mean over the steps."""
    copied: int
    """Places copied because a piece had to move."""


class Allocator(Protocol):
    """Gives sequences room and says how much it holds for them."""

    def grow(self, sequence: int, num_tokens: int) -> None:
        """Room for at least `num_tokens` in all."""

    def free(self, sequence: int) -> None: ...

    @property
    def reserved(self) -> int: ...

    @property
    def span(self) -> int:
        """Where the highest piece in use ends; blocks are interchangeable, so theirs is what is reserved."""

    @property
    def peak_reserved(self) -> int: ...

    @property
    def peak_span(self) -> int: ...

    @property
    def copied(self) -> int: ...


class Blocks:
    """What kv/block_pool.py does with blanks, as bare accounts: any free block will do, so the arena has no holes that
    a sequence could not use."""

    copied = 0

    def __init__(self) -> None:
        self._num_held: dict[int, int] = {}
        self.reserved = 0
        self.peak_reserved = 0

    @property
    def span(self) -> int:
        return self.reserved

    @property
    def peak_span(self) -> int:
        return self.peak_reserved

    def grow(self, sequence: int, num_tokens: int) -> None:
        held = self._num_held.get(sequence, 0)
        wanted = max(held, -(-num_tokens // BLOCK_TOKENS))
        self._num_held[sequence] = wanted
        self.reserved += (wanted - held) * BLOCK_TOKENS
        self.peak_reserved = max(self.peak_reserved, self.reserved)

    def free(self, sequence: int) -> None:
        self.reserved -= self._num_held.pop(sequence) * BLOCK_TOKENS


class Doubling:
    """Contiguous pieces over an address space without end."""

    def __init__(self) -> None:
        self._pieces: dict[int, tuple[int, int]] = {}  # sequence → [start, stop)
        self.reserved = 0
        self.peak_reserved = 0
        self.peak_span = 0
        self.copied = 0

    @property
    def span(self) -> int:
        return max(stop for _, stop in self._pieces.values())

    def grow(self, sequence: int, num_tokens: int) -> None:
        old = self._pieces.get(sequence)
        size = old[1] - old[0] if old else 0
        if num_tokens <= size:
            return
        wanted = max(2 * size, -(-num_tokens // BLOCK_TOKENS) * BLOCK_TOKENS)
        # Its old piece is read from meanwhile, so that place is taken too.
        start = self._first_fit(wanted)
        self._pieces[sequence] = (start, start + wanted)
        self.copied += size
        self.reserved += wanted - size
        self.peak_reserved = max(self.peak_reserved, self.reserved + size)
        self.peak_span = max(self.peak_span, start + wanted)

    def free(self, sequence: int) -> None:
        start, stop = self._pieces.pop(sequence)
        self.reserved -= stop - start

    def _first_fit(self, size: int) -> int:
        end = 0
        for start, stop in sorted(self._pieces.values()):
            if start - end >= size:
                return end
            end = max(end, stop)
        return end


def replay(requests: Iterable[Request], allocator: Allocator, num_slots: int) -> Waste:
    """Run all requests to their end."""
    waiting = list(enumerate(requests))[::-1]
    running: dict[int, tuple[int, int]] = {}  # sequence → tokens so far, tokens at its end
    inside, between = [], []
    peak_used = 0
    while waiting or running:
        while waiting and len(running) < num_slots:
            sequence, request = waiting.pop()
            running[sequence] = (request.prompt, request.prompt + request.answer)
            allocator.grow(sequence, request.prompt)
        used = sum(tokens for tokens, _ in running.values())
        peak_used = max(peak_used, used)
        inside.append(1 - used / allocator.reserved)
        between.append(1 - allocator.reserved / allocator.span)
        for sequence, (tokens, end) in list(running.items()):
            if tokens == end:
                allocator.free(sequence)
                del running[sequence]
            else:
                allocator.grow(sequence, tokens + 1)
                running[sequence] = (tokens + 1, end)
    return Waste(
        peak_used=peak_used,
        peak_reserved=allocator.peak_reserved,
        peak_span=allocator.peak_span,
        inside=sum(inside) / len(inside),
        between=sum(between) / len(between),
        copied=allocator.copied,
    )


def editor_requests(count: int, *, max_tokens: int, seed: int = 0) -> list[Request]:
    """Lengths like an editor's: prompts log-normal around 400 tokens, answers of a few to 64, none beyond
    `max_tokens` together. Made up, and the same for every allocator.
    """
    generator = random.Random(seed)
    requests = []
    for _ in range(count):
        answer = min(64, 1 + int(generator.expovariate(1 / 20)))
        prompt = min(max_tokens - answer, max(1, int(generator.lognormvariate(6.0, 0.7))))
        requests.append(Request(prompt, answer))
    return requests
