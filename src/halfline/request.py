"""The nouns every stage shares: what was asked, and what came of it.

JSON becomes a `CompletionRequest` in api/dialects, a `Completion` comes back from pipeline. Nothing
here knows tokens' meaning, HTTP or the model.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from halfline.errors import BadRequest

FinishReason = Literal["stop", "length", "deadline", "cancelled", "superseded", "shed", "failed"]
"""How a choice ended: by itself, at its limit, when its time was up, called off, replaced by a newer request of the
same identity, given up under overload, or lost."""

Tier = Literal["miss", "exact", "typed", "continued", "syntax", "semantic", "http"]
"""Where an answer came from: computed; known as a whole because exactly that was asked before, or because it was
predicted; known in its beginning; guessed as a whole, and the model agreed, from code that differs in names only or
from text that means about the same; or fetched by its address."""

Caching = Literal["use", "refresh", "none"]
"""Whether a request may be answered from what is known, is to be computed anew and kept, or computed and not kept."""

Priority = Literal["interactive", "batch", "idle"]
"""Somebody waits for it; somebody wants it; it is welcome if there is nothing else to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """How temperature and top-k change from token to token (sampling/schedules.py), `by` the number of tokens before or
    the entropy of each. Raises BadRequest naming the field for a value outside its range.
    """

    by: Literal["step", "entropy"] = "step"
    base_temp: float = 0.8
    min_temp: float = 0.1
    k_min: int = 20
    k_max: int = 100
    decay_rate: float = 0.1

    # A settings file's table may hold no other names.
    __pydantic_config__: ClassVar[Mapping[str, str]] = {"extra": "forbid"}

    def __post_init__(self) -> None:
        _require("min_temp", self.min_temp, 0.01, 100.0)
        _require("base_temp", self.base_temp, self.min_temp, 100.0)
        _require("k_min", self.k_min, 1, 2**31 - 1)
        _require("k_max", self.k_max, self.k_min, 2**31 - 1)
        _require("decay_rate", self.decay_rate, 0.0, 100.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How the next token is chosen. The defaults are greedy and neutral. A `schedule` takes the place of `temperature`
    and `top_k`.

    `temperature` 0 is greedy. `top_k` 0, `top_p` 1, `min_p` 0, `repetition_penalty` 1 and the other
    two penalties 0 switch each filter off. `logprobs` asks for that many alternatives beside the chosen
    token; None asks for none, 0 for the chosen token's alone. `seed` None draws a fresh one.
    Raises BadRequest naming the field for a value outside its range, NaN and infinities included.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    seed: int | None = None
    logprobs: int | None = None
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    schedule: Schedule | None = None

    def __post_init__(self) -> None:
        _require("temperature", self.temperature, 0.0, 100.0)
        _require("top_k", self.top_k, 0, 2**31 - 1)
        _require("top_p", self.top_p, 0.0, 1.0)
        _require("min_p", self.min_p, 0.0, 1.0)
        _require("repetition_penalty", self.repetition_penalty, 0.01, 100.0)
        _require("presence_penalty", self.presence_penalty, -100.0, 100.0)
        _require("frequency_penalty", self.frequency_penalty, -100.0, 100.0)
        if self.logprobs is not None:
            _require("logprobs", self.logprobs, 0, 100)
        if len(self.stop) > 64 or any(len(text) > 4096 for text in self.stop):
            raise BadRequest("`stop` takes at most 64 strings of at most 4096 characters", "stop")
        if "" in self.stop:
            raise BadRequest("`stop` holds an empty string, which would stop at once", "stop")
        for token_id, bias in self.logit_bias.items():
            _require(f"logit_bias[{token_id}]", bias, -1000.0, 1000.0)

    @property
    def greedy(self) -> bool:
        return self.temperature == 0.0 and self.schedule is None


def _require(name: str, value: float, low: float, high: float) -> None:
    if not (math.isfinite(value) and low <= value <= high):
        raise BadRequest(f"`{name}` is {value}, it must be between {low} and {high}", name.split("[")[0])


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of another file that the client finds worth reading; `path` None where it does not say which."""

    text: str
    path: str | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """A file with a cursor in it: `prefix` before, `suffix` behind; `parts` of others, the most worth reading last.

    `source` is where requests come from that name no path: the keystrokes of one editor are taken to follow each other.
    None: each stands alone.
    """

    prefix: str
    suffix: str
    path: str | None = None
    parts: tuple[Part, ...] = ()
    source: str | None = None

    @property
    def series(self) -> str | None:
        """What one user's requests for it have in common; None: nobody knows."""
        return self.path if self.path is not None else self.source


@dataclass(frozen=True, slots=True)
class Identity:
    """Whose cursor, in which document: of two requests with the same identity only the newer one is wanted (C4).

    `key` is the id of the API key that it was asked with: what one asks ends nothing of another's, also of a tenant.
    """

    tenant: str
    user: str
    path: str
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Where an answer ends, besides stop strings and its most tokens: at a new line indented by less than `min_indent`
    characters; `line_time_ms` after its first text, once it holds a line break. 0 and None: nowhere.
    """

    min_indent: int = 0
    line_time_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionRequest:
    """One completion asked for, whichever dialect it came in.

    `prompt` decides the mode. Text or token ids are *raw*: no window, no post-processing, too long is an
    error. A `Document` is *editor* mode: any length, the server owns the window and trims the answer.

    `tenant` is with whom KV and answers are shared. `key` is the id of the API key, "" where nobody needs one, and
    `user` one of its users, for fair shares; "" is one too. `deadline_ms`, counted from the arrival, puts it before
    others of its class; None: any time will do. `identity` None: it supersedes nobody and nobody it.

    `num_pinned_tokens` of a prompt of token ids are what many others begin with: worth keeping.

    `postprocess` False leaves an editor's answer as the model wrote it. `min_confidence` is how probable the model has
    to find its first tokens, on average, for the answer to be shown; 0: always. None in either: the server's own habit.
    `caching` "use" lets it be answered from what is known.
    """

    id: str
    prompt: str | tuple[int, ...] | Document
    params: SamplingParams
    max_tokens: int
    bounds: Bounds = Bounds()
    num_choices: int = 1
    echo: bool = False
    tenant: str = "local"
    key: str = ""
    user: str = ""
    priority: Priority = "interactive"
    deadline_ms: int | None = None
    identity: Identity | None = None
    num_pinned_tokens: int = 0
    postprocess: bool | None = None
    min_confidence: float | None = None
    caching: Caching = "use"

    def __post_init__(self) -> None:
        _require("max_tokens", self.max_tokens, 0, 2**31 - 1)
        if self.min_confidence is not None:
            _require("min_confidence", self.min_confidence, 0.0, 1.0)
        _require("n", self.num_choices, 1, 128)


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """Natural log-probability of a token in the model's own distribution, before any sampling filter.

    `logprob` is None for the first token of an echoed prompt, which nothing predicts. `offset` is where the token's
    text starts in the choice's: a character split over tokens counts once, where it became whole, and a control token,
    whose `text` is only its name, not at all.
    """

    token_id: int
    text: str
    logprob: float | None
    offset: int
    top: tuple[tuple[int, str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Choice:
    index: int
    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason
    logprobs: tuple[TokenLogprob, ...] | None = None


@dataclass(frozen=True, slots=True)
class ChoiceDelta:
    """What one choice gained since the last delta; the last one of a choice carries its finish_reason.

    `tier` is that of the whole answer.
    """

    index: int
    text: str
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprob, ...] | None = None
    finish_reason: FinishReason | None = None
    tier: Tier = "miss"


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """Where the milliseconds and tokens of one request went (C11).

    `num_prompt_tokens` is the prompt actually used, `num_reused_tokens` those of it whose KV this request
    did not compute. `coalesced_with` is the request that computed the answer of this one, which was the same; None:
    it was computed for this one. `drafted_tokens` were guessed and run beside others, the model agreed with
    `accepted_tokens` of them; both by where the guess came from: own, given, recent.

    `num_known_tokens` of the generated ones had been computed before, and all of them where the tier is "typed".
    `num_unshown_tokens` were computed for this request and are no part of its answer: behind its end, or in vain.

    `cut_characters` were generated and not shown, by the rule that kept them back; `ended_by` is, of each choice that
    came to its end, the rule that ended it; None: none did. `confidence` is how probable the
    model found the first choice's first tokens; None: nobody looked. `tenant` is whose request it was, and who alone
    may see this. `address` is where the answer can be fetched again, in hexadecimal digits; None: nowhere.
    """

    request_id: str
    num_prompt_tokens: int
    num_reused_tokens: int
    num_computed_tokens: int
    num_generated_tokens: int
    queue_ms: float
    prefill_ms: float
    decode_ms: float
    total_ms: float
    finish_reasons: tuple[FinishReason, ...]
    drafted_tokens: Mapping[str, int] = field(default_factory=dict)
    accepted_tokens: Mapping[str, int] = field(default_factory=dict)
    coalesced_with: str | None = None
    tier: Tier = "miss"
    num_known_tokens: int = 0
    num_unshown_tokens: int = 0
    cut_characters: Mapping[str, int] = field(default_factory=dict)
    ended_by: tuple[str | None, ...] = ()
    confidence: float | None = None
    ledger: Mapping[str, object] = field(default_factory=dict)
    tenant: str = "local"
    address: str | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    request_id: str
    choices: tuple[Choice, ...]
    receipt: Receipt
