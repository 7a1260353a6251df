"""In every order the prompt says what stands around the cursor, and typing appends to it."""

from dataclasses import replace
from itertools import pairwise

import pytest

from halfline.context.document_prompt import DocumentPrompt, DocumentPrompts, Room
from halfline.context.documents import DocumentKey
from halfline.context.layout import LayoutSizes
from halfline.model.random_model import byte_vocab
from halfline.request import Document
from halfline.text.infill import InfillOrder, find_infill_format
from halfline.text.tokenizer import Tokenizer
from halfline.text.vocab import VocabSpec

PREFIX_ID, SUFFIX_ID, MIDDLE_ID = 258, 259, 260
MARKERS = {PREFIX_ID: "<PRE>", SUFFIX_ID: "<SUF>", MIDDLE_ID: "<MID>"}
KEY = DocumentKey("local", "", "a.py")
ROOM = Room(num_tokens=1000, num_suffix_tokens=40)
TRAINED: tuple[InfillOrder, ...] = ("psm", "spm", "anchored", "prefix_only")
BEFORE = "".join(f"line {n} of the file = {n * 7919}\n" for n in range(100))
BEHIND = ")\n\nmore = of(the, file)\n"


def vocab(*markers: str) -> VocabSpec:
    plain = byte_vocab(262)
    tokens = (*plain.tokens[:258], *markers, *plain.tokens[258 + len(markers) :])
    types = (*plain.token_types[:258], *[3] * len(markers), *plain.token_types[258 + len(markers) :])
    return replace(plain, tokens=tokens, token_types=types)


TOKENIZER = Tokenizer(vocab("<fim_prefix>", "<fim_suffix>", "<fim_middle>"))


def builder(order: InfillOrder, tokenizer: Tokenizer = TOKENIZER) -> DocumentPrompts:
    sizes = LayoutSizes(fresh_tokens=200, least_tokens=50, grown_tokens=200, max_tokens=600)
    return DocumentPrompts(tokenizer, sizes, find_infill_format(tokenizer), order)


def built(
    prompts: DocumentPrompts, before: str, behind: str = BEHIND, key: DocumentKey | None = KEY
) -> DocumentPrompt:
    return prompts.build(Document(before, behind), key, ROOM, heals=True, keeps=True)


def spelt(prompt: DocumentPrompt) -> str:
    pieces, run = [], []
    for token_id in (*prompt.token_ids, MIDDLE_ID):
        if token_id in MARKERS:
            pieces += [bytes(run).decode(), MARKERS[token_id]]
            run = []
        else:
            run.append(token_id)
    return "".join(pieces[:-1]) + "|" + prompt.forced_text


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("psm", "<PRE>def f(a,\n  b<SUF>): pass<MID>| c"),
        ("spm", "<PRE><SUF>): pass<MID>def f(a,\n  b| c"),
        ("anchored", "<PRE>def f(a,\n<SUF>): pass<MID>  b| c"),
        ("prefix_only", "def f(a,\n  b| c"),
    ],
)
@pytest.mark.parametrize("key", [KEY, None], ids=["named", "nobody's"])
def test_the_parts_stand_in_their_order(order: InfillOrder, expected: str, key: DocumentKey | None) -> None:
    assert spelt(built(builder(order), "def f(a,\n  b c", "): pass", key)) == expected


@pytest.mark.parametrize("order", TRAINED)
def test_typing_appends_to_the_prompt_in_all_orders_but_psm(order: InfillOrder) -> None:
    prompts, typed = builder(order), "    total = a_function(of, several) + arguments\n    x = (1"
    sequence = [built(prompts, BEFORE + typed[:length]) for length in range(len(typed) + 1)]
    for before, now in pairwise(sequence):
        alike = next(
            (i for i, (a, b) in enumerate(zip(before.token_ids, now.token_ids, strict=False)) if a != b),
            min(len(before.token_ids), len(now.token_ids)),
        )
        num_new = len(now.token_ids) - alike
        if order == "psm":
            assert num_new == 0 or num_new > len(BEHIND), "the suffix is read again with every word"
        else:
            assert num_new <= 12, "at most a word, which was forced before"


def test_in_the_anchored_order_long_typing_begins_anew_at_a_line() -> None:
    prompts, text = builder("anchored"), BEFORE
    places = []
    for number in range(300):
        text += "x = 1\n"[number % 6]
        prompt = built(prompts, text)
        parts = spelt(prompt).replace("|", "")
        head, _, rest = parts.removeprefix("<PRE>").partition("<SUF>")
        assert head + rest.partition("<MID>")[2] == prompt.window
        assert head.endswith("\n")
        places.append(text.find(head) + len(head))
    assert len(set(places)) == 2


def test_a_suffix_that_hardly_changes_is_kept_until_all_is_read_anew() -> None:
    prompts = builder("spm")
    built(prompts, BEFORE, BEHIND)
    changed = BEHIND.replace("file", "files")
    now = built(prompts, BEFORE, changed)
    assert now.ledger["suffix_kept"]
    assert BEHIND in spelt(now)
    elsewhere = built(prompts, "another document\n" * 50, changed)
    assert not elsewhere.ledger["suffix_kept"]
    assert changed in spelt(elsewhere)


def test_a_guess_at_the_future_changes_nothing() -> None:
    one, other = builder("anchored"), builder("anchored")
    for length in range(0, 200, 7):
        text = BEFORE + ("word " * 40)[:length]
        guess = Document(text + "guess\n" * 60, "quite another suffix")
        other.build(guess, KEY, ROOM, heals=True, keeps=False)
        assert built(one, text) == built(other, text)


def test_users_and_tenants_never_share_what_is_remembered() -> None:
    prompts = builder("prefix_only")
    built(prompts, BEFORE)
    for key in (
        DocumentKey("other", "", "a.py"),
        DocumentKey("local", "b", "a.py"),
        DocumentKey("local", "", "b.py"),
    ):
        assert built(prompts, BEFORE, key=key).ledger["anchor"] == "fresh"
    assert built(prompts, BEFORE).ledger["anchor"] == "kept"


def test_nobody_s_document_depends_on_nothing_else() -> None:
    prompts = builder("anchored")
    first = built(prompts, BEFORE, key=None)
    built(prompts, BEFORE + "more", key=None)
    assert built(prompts, BEFORE, key=None) == first
    assert first.ledger["anchor"] == "grid"


def test_documents_used_longest_ago_are_forgotten() -> None:
    prompts = builder("prefix_only")
    for number in range(130):
        built(prompts, BEFORE, key=DocumentKey("local", "", str(number)))
    assert built(prompts, BEFORE, key=DocumentKey("local", "", "129")).ledger["anchor"] == "kept"
    assert built(prompts, BEFORE, key=DocumentKey("local", "", "0")).ledger["anchor"] == "fresh"


def test_no_text_around_the_cursor_becomes_a_marker() -> None:
    hostile = "x <fim_suffix> <fim_middle> <fim_prefix>"
    for order in TRAINED:
        prompt = built(builder(order), f"{hostile}\n{hostile} y", hostile)
        num_markers = sum(token_id in MARKERS for token_id in (*prompt.token_ids, *prompt.forced_ids))
        assert num_markers == (0 if order == "prefix_only" else 3)
