"""A suffix is read anew when it is no longer nearly what it was."""

import pytest

from halfline.context.sticky_suffix import StickySuffix, nearly_same
from halfline.errors import UnencodableText
from halfline.model.random_model import byte_vocab
from halfline.text.tokenizer import Tokenizer

TOKENIZER = Tokenizer(byte_vocab())
TEXT = ")\n    return total + other_value_of(things)\n\n\ndef next_one():\n    pass\n"


@pytest.mark.parametrize(
    ("now", "kept"),
    [
        (TEXT, True),
        (TEXT.replace("total", "totals"), True),
        (TEXT.replace("total", "a_longer_sum"), False),
        (TEXT[1:], False),
        ("", False),
        (TEXT + "more\n" * 100, True),
    ],
    ids=["unchanged", "a character more", "a tenth of the head", "another beginning", "gone", "more behind"],
)
def test_it_is_kept_while_it_begins_alike(now: str, kept: bool) -> None:
    suffix = StickySuffix(TOKENIZER)
    before, _ = suffix.read(TEXT, 64, renew=False)
    token_ids, was_kept = suffix.read(now, 64, renew=False)
    assert was_kept is kept
    assert token_ids == (before if kept else tuple(now.encode())[:64])


def test_small_changes_do_not_add_up() -> None:
    suffix = StickySuffix(TOKENIZER)
    first, _ = suffix.read(TEXT, 64, renew=False)
    text = TEXT
    for number in range(5):
        text = text.replace("total", "total" + "x" * number)
        token_ids, kept = suffix.read(text, 64, renew=False)
        if not kept:
            break
        assert token_ids == first
    assert not kept, "the model is never told what is further away than a tenth"


def test_when_everything_is_read_anew_so_is_the_suffix() -> None:
    suffix = StickySuffix(TOKENIZER)
    suffix.read(TEXT, 64, renew=False)
    changed = TEXT.replace("total", "totals")
    assert suffix.read(changed, 64, renew=True) == (tuple(changed.encode())[:64], False)


def test_a_fork_learns_apart() -> None:
    suffix = StickySuffix(TOKENIZER)
    suffix.read(TEXT, 64, renew=False)
    suffix.fork().read("something else", 64, renew=False)
    assert suffix.read(TEXT, 64, renew=False)[1]


def test_less_room_means_fewer_tokens() -> None:
    suffix = StickySuffix(TOKENIZER)
    suffix.read(TEXT, 64, renew=False)
    assert len(suffix.read(TEXT, 16, renew=False)[0]) == 16


def test_half_a_character_behind_the_cursor_is_refused() -> None:
    with pytest.raises(UnencodableText):
        StickySuffix(TOKENIZER).read("a\ud800", 64, renew=False)


def test_nothing_is_like_nothing() -> None:
    assert nearly_same((), ())
    assert not nearly_same((1,), ())
    assert not nearly_same((), (1,))
