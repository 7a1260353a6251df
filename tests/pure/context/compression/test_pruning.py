import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfline.context.compression.ngrams import NgramModel
from halfline.context.compression.passes import Budget, LineTokens, lined
from halfline.context.compression.pruning import (
    LinePruning,
    WordPruning,
    attention_received,
    normalised_entropy,
    semantic_prune,
)
from halfline.context.compression.words import holds_structure, names, names_near, words
from halfline.request import Part

BYTES = LineTokens(lambda text: list(text.encode()))


def causal(num_tokens: int) -> np.ndarray:
    """Attention that is even over what can be seen."""
    weights = np.tril(np.ones((num_tokens, num_tokens)))
    return weights / weights.sum(axis=1, keepdims=True)


def test_attention_is_shared_among_the_queries_that_can_see_a_key() -> None:
    received = attention_received(np.eye(8)[None], num_sinks=2)
    # Every key is seen by itself alone; the last by nobody else, so it is looked at most.
    assert np.argmax(received) == 7
    assert received[:2].tolist() == [0.0, 0.0]
    assert received[2:].mean() == pytest.approx(1.0)


def test_a_threshold_is_the_share_of_what_may_go() -> None:
    rng = np.random.default_rng(0)
    stays = semantic_prune(rng.normal(size=(104, 11)), np.stack([causal(104)] * 3), threshold=0.15)
    assert (~stays).sum() == 15
    assert stays[:4].all()


def test_logits_speak_of_the_next_token() -> None:
    num_tokens = 10
    logits = np.zeros((num_tokens, 6))
    logits[:, 0] = 9.0  # sure everywhere
    logits[6] = 0.0  # of token 7 the model knows nothing
    flat = np.tril(np.ones((num_tokens, num_tokens)))
    certain = semantic_prune(logits, flat, 1 / 6, keeps="certain")
    assert np.flatnonzero(~certain).tolist() == [7]
    uncertain = semantic_prune(logits, flat, 5 / 6, keeps="uncertain")
    assert np.flatnonzero(uncertain).tolist() == [0, 1, 2, 3, 7]


def test_what_is_protected_stays_whatever_its_importance() -> None:
    protected = np.zeros(12, bool)
    protected[[5, 9]] = True
    stays = semantic_prune(np.zeros((12, 4)), causal(12), 1.0, protected=protected)
    assert np.flatnonzero(stays).tolist() == [0, 1, 2, 3, 5, 9]


def test_excluded_tokens_add_no_entropy_and_no_nan() -> None:
    logits = np.array([[0.0, 0.0, -np.inf, -np.inf], [5.0, -np.inf, -np.inf, -np.inf]])
    assert normalised_entropy(logits) == pytest.approx([0.5, 0.0])


def test_shapes_and_thresholds_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="different tokens"):
        semantic_prune(np.zeros((3, 4)), causal(5))
    with pytest.raises(ValueError, match="between 0 and 1"):
        semantic_prune(np.zeros((3, 4)), causal(3), threshold=1.5)


def test_what_was_read_before_surprises_less() -> None:
    model = NgramModel(256)
    first = model.read(list(b"self.value = value\n")).mean()
    again = model.read(list(b"self.value = value\n")).mean()
    assert again < first / 2
    assert first < np.log2(256) + 1e-9


@given(st.lists(st.integers(0, 3), max_size=30))
def test_probabilities_after_any_text_sum_to_one(token_ids: list[int]) -> None:
    total = 0.0
    for last in range(4):
        total += 2.0 ** -NgramModel(4).read([*token_ids, last])[-1]
    assert total == pytest.approx(1.0)


@given(st.text(alphabet="abc_9 \t\n(){}[]\"'#/+=.é", max_size=60))
def test_words_spell_their_line(line: str) -> None:
    assert "".join(word.text for word in words(line)) == line


@given(st.text(alphabet="abc_9 \t\n(){}[]\"'`#/+=.é\\", max_size=60))
def test_names_are_the_words_that_are_names(text: str) -> None:
    assert names(text) == [word.text for word in words(text) if word.kind == "name" and len(word.text) > 2]


def test_names_of_the_cursor_and_structure_go_last() -> None:
    text = (
        "import numpy\n" + "padding = other + filler\n" * 6 + "def total_price(basket):\n    return basket\n"
    )
    part = lined(Part(text))
    budget = Budget(70, before="amount = total_price(")
    assert names_near([part], budget) == {"total_price"}
    left = LinePruning(BYTES, 256, "uncertain").shrink([part], budget).parts[0].text
    assert "def total_price(basket):\n" in left and "import numpy\n" in left
    assert BYTES.count([lined(Part(left))]) <= 70


@pytest.mark.parametrize(
    "line", ["def f(x):", "}", "if a {", "use std::fmt;", "pub(crate) fn f()", "    import a"]
)
def test_lines_that_hold_others_are_known(line: str) -> None:
    assert holds_structure(line)
    assert not holds_structure("    value = compute(other)")


def test_only_names_and_comments_are_cut_out_of_lines() -> None:
    part = lined(Part("result = compute(alpha, 'text', 12)  # a remark\n"))
    left = WordPruning(BYTES, 256, "certain").shrink([part], Budget(0, before="alpha")).parts[0].text
    assert [word.text for word in words(left) if word.kind != "space"] == [
        "=",
        "(",
        "alpha",
        ",",
        "'text'",
        ",",
        "12",
        ")",
    ]


@pytest.mark.parametrize("keeps", ["certain", "uncertain"])
def test_what_fits_is_left_alone(keeps: str) -> None:
    part = lined(Part("a = 1\nb = 2\n"))
    assert LinePruning(BYTES, 256, keeps).shrink([part], Budget(100)).dropped == ()
