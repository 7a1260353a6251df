"""Near text is found, and only for whom it was kept; a file that is not whole is not read."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from numpy.typing import NDArray

from halfline.cache import semantic
from halfline.cache.embedding import StaticVectors
from halfline.cache.guessing import Cursor
from halfline.cache.seal import sealed, unsealed
from halfline.cache.semantic import MAX_TEXTS, SemanticTier

AsNobody = Callable[[], AbstractContextManager[None]]


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


def test_of_all_tenants_together_so_many_texts_are_kept_and_no_longer_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(semantic, "MAX_ALL_TEXTS", 100)
    tier = SemanticTier(Letters(), 0.999)
    for number in range(100):
        learn(tier, "a", str(number), "one")
    learn(tier, "a", "x" * 100_000, "two")
    assert (tier.num_texts("one"), tier.num_texts("two")) == (0, 1)
    assert guess(tier, "a", "two") == "x" * 4096
    learn(tier, "a", "x" * 100_000, "two")
    assert tier.num_texts("two") == 1
    for number in range(100):
        learn(tier, "a", "one", f"tenant {number}")
    assert [tier.num_texts(f"tenant {number}") for number in range(100)] == [0] * 36 + [1] * 64


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


def saved(file: Path) -> SemanticTier:
    tier = SemanticTier(Letters(), 0.9, file)
    learn(tier, "aaaa", "one")
    tier.save()
    return tier


def begins_anew(file: Path, embedder: Letters | None = None) -> None:
    """Nothing is found of what lies there, what is learned is, and nothing raises."""
    again = SemanticTier(embedder or Letters(), 0.9, file)
    assert guess(again, "aaaa") is None
    learn(again, "aaaa", "two")
    assert guess(again, "aaaa") == "two"
    again.save()
    assert not [path.name for path in file.parent.iterdir() if path.name not in (file.name, "other")]


class OtherLetters(Letters):
    name = "others"


class FewerLetters(Letters):
    """Under the same name."""

    num_dimensions = 13

    def embed(self, text: str) -> NDArray[np.float32]:
        return super().embed(text)[:13]


def sealed_as_before(data: bytes) -> bytes:
    """What a version with another key wrote."""
    return sealed(b"semantic 1", unsealed(b"semantic 2", data) or b"")


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "cut within its digest": lambda data: data[:10],
    "cut within its head": lambda data: data[:60],
    "cut by a byte": lambda data: data[:-1],
    "longer by a byte": lambda data: data + b"\0",
    "one bit changed": lambda data: data[:50] + bytes([data[50] ^ 1]) + data[51:],
    "all zero": lambda data: bytes(len(data)),
    "garbage": lambda data: Random(1).randbytes(5000),
    "text": lambda data: b"{}" * 100,
    "an older version": sealed_as_before,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_file_that_is_not_ours_and_whole_is_passed_over_and_replaced(tmp_path: Path, damage: str) -> None:
    file = tmp_path / "guesses"
    saved(file)
    file.write_bytes(DAMAGES[damage](file.read_bytes()))
    begins_anew(file)
    assert guess(SemanticTier(Letters(), 0.9, file), "aaaa") == "two"


@pytest.mark.parametrize("embedder", [OtherLetters(), FewerLetters()], ids=["other", "fewer dimensions"])
def test_vectors_of_another_embedder_are_not_compared_with_ours(tmp_path: Path, embedder: Letters) -> None:
    saved(tmp_path / "guesses")
    begins_anew(tmp_path / "guesses", embedder)


def test_a_file_larger_than_any_of_ours_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "guesses"
    saved(file)
    os.truncate(file, 1 << 40)  # it takes no room
    begins_anew(file)


@pytest.mark.parametrize("thing", ["a directory", "a pipe", "a link to itself"])
def test_what_is_no_file_is_neither_read_nor_waited_for(tmp_path: Path, thing: str) -> None:
    file = tmp_path / "guesses"
    if thing == "a directory":
        file.mkdir()
        (file / "other").touch()
    elif thing == "a pipe":
        os.mkfifo(file)
    else:
        file.symlink_to(file)
    begins_anew(file)


def test_on_a_full_disk_what_was_saved_stays_and_no_half_file_does(tmp_path: Path) -> None:
    file = tmp_path / "guesses"
    tier = saved(file)
    learn(tier, "bbbb", "two")
    for _ in range(3):
        (tmp_path / "guesses.partial").symlink_to("/dev/full")  # where every write finds the disk full
        tier.save()
        assert [path.name for path in tmp_path.iterdir()] == ["guesses"]
    again = SemanticTier(Letters(), 0.9, file)
    assert (guess(again, "aaaa"), guess(again, "bbbb")) == ("one", None)


def test_what_a_killed_process_left_half_written_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "guesses.partial").write_bytes(bytes(1 << 16))
    saved(tmp_path / "guesses")
    assert [path.name for path in tmp_path.iterdir()] == ["guesses"]
    assert guess(SemanticTier(Letters(), 0.9, tmp_path / "guesses"), "aaaa") == "one"


def test_in_a_folder_that_may_only_be_read_what_was_saved_is_loaded_and_stays(as_nobody: AsNobody) -> None:
    with TemporaryDirectory(dir="/tmp") as directory:
        file = Path(directory) / "guesses"
        saved(file)
        file.chmod(0o444)
        Path(directory).chmod(0o555)
        with as_nobody():
            tier = SemanticTier(Letters(), 0.9, file)
            assert guess(tier, "aaaa") == "one"
            learn(tier, "bbbb", "two")
            tier.save()
            assert [path.name for path in Path(directory).iterdir()] == ["guesses"]
            assert guess(SemanticTier(Letters(), 0.9, file), "bbbb") is None
        file.chmod(0o000)
        with as_nobody():
            assert guess(SemanticTier(Letters(), 0.9, file), "aaaa") is None, "it may not be read either"
        Path(directory).chmod(0o755)


def test_where_there_can_be_no_folder_nothing_is_saved(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("no directory")
    saved(tmp_path / "other" / "guesses")
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


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
