"""What is forced comes first, in the tokens that the model likes best; nothing else is forced."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halfline.engine.hash_executor import hash_logits
from halfline.request import SamplingParams
from halfline.sampling.healing import HealingSampler
from halfline.sampling.reader import Reader
from halfline.sampling.sampler import Sampler, Scored, score
from halfline.text.detokenizer import Detokenizer
from halfline.text.spellings import Spellings
from halfline.text.token_bytes import byte_alphabet
from halfline.text.tokenizer import Tokenizer
from halfline.text.vocab import VocabSpec

_ALPHABET = byte_alphabet()
_SPACE = _ALPHABET[32]
_LONGER = ("se", "sel", "self", f"{_SPACE}s", f"{_SPACE}sel", f"{_SPACE}self", "lf.", "<eos>", "<bos>", "")
TOKENIZER = Tokenizer(
    VocabSpec(
        kind="bpe",
        tokens=(*_ALPHABET.values(), *_LONGER),
        token_types=(1,) * (256 + len(_LONGER) - 3) + (3, 3, 5),
        pre_tokenizer="gpt-2",
        bos_id=256 + len(_LONGER) - 2,
        eos_ids=(256 + len(_LONGER) - 3,),
    )
)
SPELLINGS = Spellings(TOKENIZER)
VOCAB = TOKENIZER.vocab_size


def byte_ids(text: str) -> list[int]:
    order = list(_ALPHABET)
    return [order.index(byte) for byte in text.encode()]


def slowly_allowed(forced: bytes) -> list[int]:
    spelt = [(i, b"" if TOKENIZER.is_special(i) else TOKENIZER.token_bytes(i)) for i in range(VOCAB)]
    return [i for i, data in spelt if data and (data.startswith(forced) or forced.startswith(data))]


def slowly_greedy(prompt: Sequence[int], forced: str, count: int) -> list[int]:
    """Until the forced text is spelt the best of all tokens that agree with it, then the best of all; that many."""
    tokens, left = list(prompt), forced.encode()
    for _ in range(count):
        logits = hash_logits(tokens, VOCAB)
        allowed = slowly_allowed(left) if left else range(VOCAB)
        best = max(allowed, key=lambda i: (logits[i], -i))
        tokens.append(best)
        left = left[len(TOKENIZER.token_bytes(best)) :]
    return tokens[len(prompt) :]


def sampled(sampler: Sampler, prompt: Sequence[int], count: int) -> list[Scored]:
    tokens, scored = list(prompt), []
    for _ in range(count):
        scored.append(sampler.sample(hash_logits(tokens, VOCAB)))
        tokens.append(scored[-1].token_id)
    return scored


@pytest.mark.parametrize("forced", [b" sel", b"s", b"self", b"self.x", b"\n", "é".encode(), b"<eos>", b"zz"])
def test_tokens_that_agree_are_found(forced: bytes) -> None:
    assert sorted(SPELLINGS.agreeing(forced).tolist()) == slowly_allowed(forced)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 255), min_size=1, max_size=4), st.text("self. \né", min_size=1, max_size=6))
def test_greedy_healing_is_greedy_among_those_that_agree(prompt: list[int], forced: str) -> None:
    sampler = HealingSampler(SamplingParams(), prompt, 0, SPELLINGS, forced)
    tokens = [each.token_id for each in sampled(sampler, prompt, 12)]
    assert tokens == slowly_greedy(prompt, forced, 12)
    spelt = b"".join(TOKENIZER.token_bytes(i) for i in tokens if not TOKENIZER.is_special(i))
    assert spelt.startswith(forced.encode())


@pytest.mark.parametrize("seed", range(5))
def test_what_is_drawn_agrees_and_is_scored_as_the_model_has_it(seed: int) -> None:
    params = SamplingParams(temperature=1.5, top_p=0.9, seed=seed, logprobs=2)
    scored = sampled(HealingSampler(params, [1], 0, SPELLINGS, " self"), [1], 10)
    data = b"".join(TOKENIZER.token_bytes(each.token_id) for each in scored)
    assert data.startswith(b" self")
    tokens = [1]
    for each in scored:
        expected = score(hash_logits(tokens, VOCAB), each.token_id, 2)
        assert each.logprob == pytest.approx(expected.logprob)
        assert [token_id for token_id, _ in each.top] == [token_id for token_id, _ in expected.top]
        tokens.append(each.token_id)


def test_once_it_is_spelt_the_draws_are_a_common_sampler_s() -> None:
    params = SamplingParams(temperature=1.0, seed=3)
    healing = HealingSampler(params, [1], 0, SPELLINGS, "s")
    common = Sampler(params, [1])
    logits = hash_logits([1], VOCAB)
    only = np.full_like(logits, -np.inf)
    only[byte_ids("s")] = 0.0
    assert healing.sample(logits.copy()).token_id in slowly_allowed(b"s")
    common.sample(only)
    for n in range(20):
        row = hash_logits([n], VOCAB)
        assert healing.sample(row).token_id == common.sample(row).token_id


def test_a_model_without_a_finite_opinion_on_what_may_come_is_an_error() -> None:
    logits = np.zeros(VOCAB, np.float32)
    logits[slowly_allowed(b"s")] = -np.inf
    with pytest.raises(FloatingPointError):
        HealingSampler(SamplingParams(), [1], 0, SPELLINGS, "s").sample(logits)


def test_tokens_behind_the_model_s_logits_are_not_looked_at() -> None:
    logits = np.zeros(256, np.float32)
    token_id = HealingSampler(SamplingParams(), [1], 0, SPELLINGS, "sel").sample(logits).token_id
    assert [token_id] == byte_ids("s")


def ids(*texts: str) -> list[int]:
    table = {TOKENIZER.token_text(i): i for i in range(256 + len(_LONGER) - 3)}
    return [table[text] for text in texts]


@pytest.mark.parametrize(
    ("tokens", "num_forced"),
    [
        (ids(" ", "self", ".", "x"), 1),
        (ids(" sel", "f", ".", "x"), 1),
        (ids(" ", "s", "e", "l", "f", ".", "x"), 4),
    ],
)
def test_a_reader_shows_only_what_stands_behind_the_forced_text(tokens: list[int], num_forced: int) -> None:
    reader = Reader(Detokenizer(TOKENIZER), forced_text=" sel")
    said, text, shown, starts = "", "", [], []
    for token_id in tokens:
        piece = reader.push(Scored(token_id))
        said += TOKENIZER.token_text(token_id)
        assert reader.forcing is (len(said) < 4)
        text += piece.text
        shown += [each.token_id for each in piece.tokens]
        starts += piece.starts
    text += reader.finish().text
    assert text == "f.x"
    assert reader.num_forced == num_forced
    assert shown == tokens[num_forced:]
    assert starts == [0, 1, 2]


def test_characters_spread_over_tokens_are_forced_and_shown_whole() -> None:
    reader = Reader(Detokenizer(TOKENIZER), forced_text="é")
    pieces = [reader.push(Scored(byte)) for byte in byte_ids("é🎉x")]
    assert [piece.text for piece in pieces] == ["", "", "", "", "", "🎉", "x"]
    assert reader.num_forced == 2
    assert [each.token_id for piece in pieces for each in piece.tokens] == byte_ids("🎉x")


def test_what_ends_before_the_forced_text_is_spelt_shows_nothing() -> None:
    reader = Reader(Detokenizer(TOKENIZER), forced_text="éé")
    reader.push(Scored(byte_ids("é")[0]))
    assert reader.finish().text == ""


def test_only_behind_the_forced_text_the_largest_logit_is_taken_whatever_it_spells() -> None:
    prompt, forced = byte_ids("x = "), "sel"
    sampler = HealingSampler(SamplingParams(), prompt, 0, SPELLINGS, forced)
    while not sampler.takes_the_largest:
        forced = forced[len(TOKENIZER.token_bytes(sampled(sampler, prompt, 1)[0].token_id)) :]
    assert forced == ""
