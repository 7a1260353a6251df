"""What greedy decoding is known to say next, so that nobody computes it again.

A place is all tokens up to there: a prompt and what was generated behind it. Of each it is remembered which token came
next. A place is found by a digest of its tokens and then compared token by token, whoever's prompt they were:

    prompt "def f" ── "ib" ── "(" ── "n" ── "):" ── "\\n"        an answer, token by token
                                └─ "a" ── ...                    what came when "(a" had been typed

A request whose prompt ends with "(" starts there, although nobody asked at that place before: it goes on with the
tokens that are known, and only what is behind them is computed. So typing what was predicted costs nothing, going back
finds the older answers, and an edit anywhere in the prompt makes it another prompt.

At a place with text that has to come first (`forced`, sampling/healing.py) the next token is the best of those that
agree with it. The more is forced, the fewer agree: if the best one under less of it agrees with more of it, then it is
the best there too. Nothing else is ever concluded, so what is found is what would be computed.

Knows tokens and their bytes. Knows nothing of stop conditions, limits and filters: whoever walks applies their own.
"""

import struct
from collections import OrderedDict
from collections.abc import Callable, Sequence
from hashlib import blake2b

from halfline.sampling.sampler import Scored

MAX_PLACES = 1 << 14
"""Places that are kept, of half a kilobyte to three each."""

MAX_PROMPT_TOKENS = 1 << 20
"""Tokens of the prompts that they stand behind, four bytes each."""

MAX_ANSWER_TOKENS = 512
"""Of each answer: nobody types through more, and each place holds all tokens from the prompt up to it."""

MAX_FORCED_TEXTS = 128
"""Of which each place knows what came next."""

_TOKEN_BYTES = 4


class _Prompt:
    """The tokens that several places have in common, their namespace in front."""

    __slots__ = ("num_places", "tokens")

    def __init__(self, tokens: bytes) -> None:
        self.tokens = tokens
        self.num_places = 0


class _Place:
    """`behind` are the tokens behind the prompt, `onward` the next one by the text that was forced. `unasked` are those
    of it that were computed ahead, and nobody has asked for them yet.
    """

    __slots__ = ("behind", "onward", "prompt", "unasked")

    def __init__(self, prompt: _Prompt, behind: bytes) -> None:
        self.prompt = prompt
        self.behind = behind
        self.onward: dict[bytes, Scored] = {}
        self.unasked: set[bytes] = set()

    def holds(self, tokens: bytes) -> bool:
        prompt = self.prompt.tokens
        return tokens.startswith(prompt) and tokens[len(prompt) :] == self.behind


class Suggestions:
    """Keeps the places used last, of all documents. Lives on the event loop.

    `bytes_of` a token: its part of the text, b"" for a token that is not text.
    """

    def __init__(
        self,
        bytes_of: Callable[[int], bytes],
        max_places: int = MAX_PLACES,
        max_prompt_tokens: int = MAX_PROMPT_TOKENS,
    ) -> None:
        self._bytes_of = bytes_of
        self._max_places = max_places
        self._max_prompt_bytes = max_prompt_tokens * _TOKEN_BYTES
        self._places: OrderedDict[bytes, _Place] = OrderedDict()  # by digest, the one used last at the end
        self._prompt_bytes = 0
        self.num_computed_ahead = 0
        """Tokens that were computed for guesses, and those of them that somebody asked for."""
        self.num_used_ahead = 0

    def __len__(self) -> int:
        return len(self._places)

    @property
    def num_prompt_tokens(self) -> int:
        """Of the prompts that are kept, their namespaces counted as tokens too."""
        return self._prompt_bytes // _TOKEN_BYTES

    def walk(
        self, namespace: str, prompt_ids: Sequence[int], forced: bytes = b"", *, ahead: bool = False
    ) -> "Walk":
        """Start behind the prompt with `forced` to come first. `ahead`: for a guess, nobody has asked for it.

        `namespace` (kv/namespace.py) keeps apart what must never be shared.
        """
        head = namespace.encode("utf-8", "surrogatepass") + b"\xff"  # in no UTF-8
        return Walk(self, head + struct.pack(f"<{len(prompt_ids)}i", *prompt_ids), forced, ahead)

    def onward(self, tokens: bytes, key: bytes, forced: bytes, ahead: bool) -> Scored | None:
        """What comes next behind the tokens; None when it is not known."""
        place = self._places.get(key)
        if place is None or not place.holds(tokens):
            return None
        for length in range(len(forced) + 1):
            known = place.onward.get(forced[:length])
            if known is not None and self._agrees(known.token_id, forced):
                self._places.move_to_end(key)
                if not ahead and forced[:length] in place.unasked:
                    place.unasked.discard(forced[:length])
                    self.num_used_ahead += 1
                return known
        return None

    def put(
        self, tokens: bytes, key: bytes, prompt: _Prompt, forced: bytes, token: Scored, ahead: bool
    ) -> None:
        """The token was computed to come next. `prompt`: what a new place shares with others of the same walk."""
        if len(tokens) - len(prompt.tokens) >= MAX_ANSWER_TOKENS * _TOKEN_BYTES:
            return
        place = self._places.get(key)
        if place is None or not place.holds(tokens):
            self._drop(key)
            place = self._places[key] = _Place(prompt, tokens[len(prompt.tokens) :])
            prompt.num_places += 1
            if prompt.num_places == 1:
                self._prompt_bytes += len(prompt.tokens)
        place.onward[forced] = token
        if len(place.onward) > MAX_FORCED_TEXTS:  # behind the same text so many words were begun
            oldest = next(iter(place.onward))
            del place.onward[oldest]
            place.unasked.discard(oldest)
        if ahead:
            place.unasked.add(forced)
            self.num_computed_ahead += 1
        self._places.move_to_end(key)
        while len(self._places) > self._max_places or self._prompt_bytes > self._max_prompt_bytes:
            self._drop(next(iter(self._places)))

    def rest(self, token_id: int, forced: bytes) -> bytes:
        """What has still to come behind a token that agreed with `forced`."""
        return forced[len(self._bytes_of(token_id)) :] if forced else b""

    def _agrees(self, token_id: int, forced: bytes) -> bool:
        if not forced:
            return True
        text = self._bytes_of(token_id)
        return bool(text) and (text.startswith(forced) or forced.startswith(text))

    def _drop(self, key: bytes) -> None:
        place = self._places.pop(key, None)
        if place is not None:
            place.prompt.num_places -= 1
            if place.prompt.num_places == 0:
                self._prompt_bytes -= len(place.prompt.tokens)


class Walk:
    """From a prompt on, token by token: those that are known, then those that the model gives.

    `forced` has still to come. Made by `Suggestions.walk`.
    """

    def __init__(self, suggestions: Suggestions, tokens: bytes, forced: bytes, ahead: bool) -> None:
        self._suggestions = suggestions
        self._prompt = _Prompt(tokens)
        self._tokens = tokens  # up to here, the prompt's among them
        self._digest = blake2b(tokens, digest_size=16)
        self._ahead = ahead
        self.forced = forced

    def known(self) -> Scored | None:
        """The next token, stepped onto, if it is known."""
        token = self._suggestions.onward(self._tokens, self._digest.digest(), self.forced, self._ahead)
        if token is not None:
            self._step(token)
        return token

    def learn(self, token: Scored) -> None:
        """The model gave the next token: step onto it. Greedily, from all that it may choose under `forced`."""
        self._suggestions.put(
            self._tokens, self._digest.digest(), self._prompt, self.forced, token, self._ahead
        )
        self._step(token)

    def _step(self, token: Scored) -> None:
        added = struct.pack("<i", token.token_id)
        self._tokens += added
        self._digest.update(added)
        self.forced = self._suggestions.rest(token.token_id, self.forced)
