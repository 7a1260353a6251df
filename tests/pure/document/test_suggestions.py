"""What is remembered of greedy answers, against what a toy model computes."""

from collections.abc import Sequence
from hashlib import blake2b

from hypothesis import given, settings
from hypothesis import strategies as st

from halfline.document.suggestions import MAX_ANSWER_TOKENS, MAX_FORCED_TEXTS, Suggestions
from halfline.sampling.sampler import Scored

VOCAB = [b"", b"a", b"b", b"ab", b"ba", b"aab", b"\xc3", b"\xa9"]
"""Token 0 is no text."""


def bytes_of(token_id: int) -> bytes:
    return VOCAB[token_id]


def agreeing(forced: bytes) -> list[int]:
    texts = enumerate(VOCAB)
    if not forced:
        return list(range(len(VOCAB)))
    return [i for i, text in texts if text and (text.startswith(forced) or forced.startswith(text))]


def model(tokens: Sequence[int], forced: bytes) -> int:
    """The best of those that agree with what is forced."""
    return max(agreeing(forced), key=lambda each: blake2b(bytes([*tokens, each]), digest_size=8).digest())


def computed(prompt: Sequence[int], forced: bytes, count: int) -> list[int]:
    tokens = list(prompt)
    for _ in range(count):
        token = model(tokens, forced)
        forced = forced[len(VOCAB[token]) :]
        tokens.append(token)
    return tokens[len(prompt) :]


def answer(
    suggestions: Suggestions, prompt: Sequence[int], forced: bytes, count: int
) -> tuple[list[int], int]:
    """The next tokens, and how many of them were known."""
    walk = suggestions.walk("me", prompt, forced)
    found: list[int] = []
    while len(found) < count and (token := walk.known()) is not None:
        found.append(token.token_id)
    num_known = len(found)
    while len(found) < count:
        forced_left = walk.forced
        token_id = model([*prompt, *found], forced_left)
        walk.learn(Scored(token_id))
        found.append(token_id)
    return found, num_known


def test_of_the_words_begun_at_one_place_the_latest_are_remembered() -> None:
    suggestions = Suggestions(bytes_of)
    words = [f"{number:012b}".translate({48: "a", 49: "b"}).encode() for number in range(1000)]
    for word in words:
        walk = suggestions.walk("me", [1, 2], word, ahead=True)
        assert walk.known() is None
        walk.learn(Scored(model([1, 2], word)))
    known = [word for word in words if suggestions.walk("me", [1, 2], word).known() is not None]
    assert known == words[-MAX_FORCED_TEXTS:]
    assert len(suggestions) == 1 and suggestions.num_used_ahead == len(known)


def test_of_a_long_answer_the_beginning_is_remembered() -> None:
    suggestions = Suggestions(bytes_of)
    first, num_known = answer(suggestions, [1, 2], b"", 3 * MAX_ANSWER_TOKENS)
    assert (num_known, len(suggestions)) == (0, MAX_ANSWER_TOKENS)
    again, num_known = answer(suggestions, [1, 2], b"", 3 * MAX_ANSWER_TOKENS)
    assert again == first == computed([1, 2], b"", 3 * MAX_ANSWER_TOKENS)
    assert num_known == MAX_ANSWER_TOKENS


def test_nothing_is_known_before_it_was_learned_and_all_of_it_afterwards() -> None:
    suggestions = Suggestions(bytes_of)
    first, num_known = answer(suggestions, [1, 2], b"", 5)
    assert (first, num_known) == (computed([1, 2], b"", 5), 0)
    assert answer(suggestions, [1, 2], b"", 5) == (first, 5)
    assert answer(suggestions, [1, 2], b"", 8) == (computed([1, 2], b"", 8), 5)


def test_a_longer_prompt_that_ends_within_an_answer_goes_on_with_it() -> None:
    suggestions = Suggestions(bytes_of)
    first, _ = answer(suggestions, [1, 2], b"", 6)
    for place in range(1, 6):
        assert answer(suggestions, [1, 2, *first[:place]], b"", 6 - place) == (first[place:], 6 - place)


def test_what_agrees_with_the_forced_text_is_known_and_nothing_else() -> None:
    suggestions = Suggestions(bytes_of)
    prompt = next([i, j] for i in range(8) for j in range(8) if model([i, j], b"") == 5)
    answer(suggestions, prompt, b"", 1)
    assert answer(suggestions, prompt, b"a", 1) == ([5], 1)
    assert answer(suggestions, prompt, b"aabb", 1) == ([5], 1)
    found, num_known = answer(suggestions, prompt, b"b", 1)
    assert (found, num_known) == (computed(prompt, b"b", 1), 0)
    assert answer(suggestions, prompt, b"", 1) == ([5], 1), "what was forced says nothing about less of it"


def test_a_token_that_is_no_text_is_not_what_follows_where_text_is_forced() -> None:
    suggestions = Suggestions(bytes_of)
    prompt = next([i, j] for i in range(8) for j in range(8) if model([i, j], b"") == 0)
    answer(suggestions, prompt, b"", 1)
    assert answer(suggestions, prompt, b"a", 1) == (computed(prompt, b"a", 1), 0)


def test_namespaces_know_nothing_of_each_other() -> None:
    suggestions = Suggestions(bytes_of)
    answer(suggestions, [1, 2], b"", 3)
    assert suggestions.walk("you", [1, 2]).known() is None
    assert suggestions.walk("m", [1, 2]).known() is None


def test_only_the_places_used_last_are_kept() -> None:
    suggestions = Suggestions(bytes_of, max_places=8)
    for number in range(4):
        answer(suggestions, [number], b"", 4)
        assert answer(suggestions, [0], b"", 4) == (computed([0], b"", 4), 4)
    assert len(suggestions) == 8
    assert answer(suggestions, [1], b"", 1)[1] == 0


def test_prompts_are_kept_within_their_bound() -> None:
    suggestions = Suggestions(bytes_of, max_prompt_tokens=100)
    for number in range(20):
        answer(suggestions, [number % 8] * (30 + number), b"", 3)
        assert suggestions.num_prompt_tokens <= 100
    assert len(suggestions) == 3 * 2
    answer(suggestions, [1] * 200, b"", 3)
    assert (len(suggestions), suggestions.num_prompt_tokens) == (0, 0), "one that is too long is not kept"


def test_what_was_computed_ahead_is_counted_once_when_somebody_asks_for_it() -> None:
    suggestions = Suggestions(bytes_of)
    walk = suggestions.walk("me", [1], ahead=True)
    for token in computed([1], b"", 4):
        walk.learn(Scored(token))
    assert (suggestions.num_computed_ahead, suggestions.num_used_ahead) == (4, 0)
    guess = suggestions.walk("me", [1], ahead=True)
    assert guess.known() is not None
    assert suggestions.num_used_ahead == 0
    for _ in range(2):
        answer(suggestions, [1], b"", 3)
        assert suggestions.num_used_ahead == 3


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_whatever_is_asked_in_whatever_order_the_answer_is_what_is_computed(data: st.DataObject) -> None:
    suggestions = Suggestions(bytes_of, max_places=data.draw(st.sampled_from([3, 20, 1000])))
    prompts: list[list[int]] = [[1], [2, 3]]
    for _ in range(data.draw(st.integers(1, 25))):
        prompt = data.draw(st.sampled_from(prompts))
        forced = b"".join(data.draw(st.lists(st.sampled_from([b"a", b"b", b"\xc3\xa9"]), max_size=3)))
        count = data.draw(st.integers(1, 6))
        found, _ = answer(suggestions, prompt, forced, count)
        assert found == computed(prompt, forced, count)
        prompts.append([*prompt, *found[: data.draw(st.integers(0, count))]])
