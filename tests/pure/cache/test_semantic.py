"""Near text is found, and only for whom it was kept; a file that is not whole is not read."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from halfline.cache.embedding import StaticVectors
from halfline.cache.guessing import Cursor
from halfline.cache.semantic import MAX_TEXTS, SemanticTier


class Letters:
    """Counts letters."""

    name = "letters"
    num_dimensions = 26

    def embed(self, text: str) -> NDArray[np.float32]:
        counts = np.array([text.count(chr(97 + i)) for i in range(26)], np.float32)
        return counts / max(float(np.linalg.norm(counts)), 1.0)


def guess(tier: SemanticTier, before: str, tenant: str = "local") -> str | None:
    look = tier.look(Cursor(tenant, before, "", None))
    return None if look is None else look.guess()


def learn(tier: SemanticTier, before: str, text: str, tenant: str = "local") -> None:
    look = tier.look(Cursor(tenant, before, "", None))
    assert look is not None
    look.learn(text)


def test_the_nearest_text_is_found_if_it_is_near_enough_and_ones_own() -> None:
    tier = SemanticTier(Letters(), 0.9)
    learn(tier, "aaaa b", "one")
    learn(tier, "cccc d", "two")
    assert guess(tier, "aaaa") == "one"
    assert guess(tier, "cccd") == "two"
    assert guess(tier, "xyz") is None
    assert guess(tier, "aaaa", "another tenant") is None
    assert guess(tier, "123") is None, "it means nothing"


def test_the_older_half_is_forgotten_when_there_are_too_many() -> None:
    tier = SemanticTier(Letters(), 0.999)
    learn(tier, "x", "old")
    for number in range(MAX_TEXTS):
        learn(tier, "a", str(number))
    learn(tier, "y", "new")
    assert (guess(tier, "x"), guess(tier, "y")) == (None, "new")
    assert guess(tier, "a") is not None


def test_what_is_known_already_takes_no_place() -> None:
    tier = SemanticTier(Letters(), 0.9)
    for _ in range(3):
        learn(tier, "aaaa", "one")
    learn(tier, "aaaa", "two")
    look = tier.look(Cursor("local", "aaaa", "", None))
    assert look is not None and look.guess() in ("one", "two")
    assert tier.num_texts("local") == 2 and tier.num_texts("another tenant") == 0


def test_it_is_saved_and_loaded(tmp_path: Path) -> None:
    file = tmp_path / "a" / "guesses"
    tier = SemanticTier(Letters(), 0.9, file)
    learn(tier, "aaaa", "one")
    learn(tier, "aaaa", "two", "another tenant")
    tier.save()
    again = SemanticTier(Letters(), 0.9, file)
    assert (guess(again, "aaab"), guess(again, "aaab", "another tenant")) == ("one", "two")
    assert file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("damage", ["cut", "changed", "empty", "another embedder"])
def test_a_file_that_is_not_ours_and_whole_is_passed_over(tmp_path: Path, damage: str) -> None:
    file = tmp_path / "guesses"
    tier = SemanticTier(Letters(), 0.9, file)
    learn(tier, "aaaa", "one")
    tier.save()
    data = bytearray(file.read_bytes())
    embedder = Letters()
    if damage == "another embedder":
        embedder.name = "others"  # type: ignore[misc]
    data[50] ^= damage == "changed"
    file.write_bytes(data[: {"cut": 100, "empty": 0}.get(damage, len(data))])
    again = SemanticTier(embedder, 0.9, file)
    assert guess(again, "aaaa") is None
    learn(again, "aaaa", "two")
    assert guess(again, "aaaa") == "two"


def test_static_vectors_know_what_is_near() -> None:
    vectors = StaticVectors()
    one, near, far = (
        vectors.embed(text)
        for text in ("def open_file(path):", "def read_file(path):", "SELECT price FROM orders")
    )
    assert abs(float(one @ one) - 1.0) < 1e-3
    assert one @ near > 0.6 > one @ far
    assert not vectors.embed("").any()
    assert vectors.embed("half a character: \ud800").any()
