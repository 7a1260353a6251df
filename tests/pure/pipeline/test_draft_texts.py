"""What stands around the window is encoded once per tenant, as far as it is near, and never refuses a request."""

from halfline.model.random_model import byte_vocab
from halfline.pipeline.draft_texts import DraftTexts
from halfline.text.tokenizer import Tokenizer


def test_both_sides_are_indexed_where_there_is_anything() -> None:
    tokenizer = Tokenizer(byte_vocab())
    texts = DraftTexts(tokenizer)
    behind, before = texts.around("me", "before", "behind")
    assert behind.after(0, 99) == tuple(tokenizer.encode("behind", add_bos=False))
    assert before.after(0, 99) == tuple(tokenizer.encode("before", add_bos=False))
    assert texts.around("me", "", "") == ()


def test_what_is_near_the_window_and_the_cursor_is_taken() -> None:
    texts = DraftTexts(Tokenizer(byte_vocab()))
    behind, before = texts.around("me", "a" * 9000 + "b", "c" + "d" * 9000)
    assert (len(behind), len(before)) == (8192, 8192)
    assert behind.after(0, 2)[0] != behind.after(0, 2)[1]
    assert before.after(8190, 2)[0] != before.after(8190, 2)[1]


def test_a_text_is_indexed_once_for_its_tenant_and_again_for_another() -> None:
    texts = DraftTexts(Tokenizer(byte_vocab()))
    (mine,) = texts.around("me", "", "behind")
    assert texts.around("me", "", "behind")[0] is mine
    assert texts.around("you", "", "behind")[0] is not mine


def test_only_the_latest_are_kept() -> None:
    texts = DraftTexts(Tokenizer(byte_vocab()))
    (first,) = texts.around("me", "", "behind")
    for number in range(8):
        texts.around("me", "", f"other {number}")
    assert texts.around("me", "", "behind")[0] is not first


def test_half_a_character_gives_no_drafts_and_no_error() -> None:
    (behind,) = DraftTexts(Tokenizer(byte_vocab())).around("me", "", "x\ud800y")
    assert len(behind) == 0
