from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halfline.context.compression.passes import Budget, LinedPart, Shrunk
from halfline.context.documents import DocumentKey
from halfline.context.options import ContextOptions
from halfline.context.sources.found import Found
from halfline.context.sources.recent import RecentFiles, RecentlyAlike
from halfline.context.surroundings import Surroundings
from halfline.request import Document, Part
from halfline.text.token_bytes import byte_alphabet
from halfline.text.tokenizer import Tokenizer
from halfline.text.vocab import VocabSpec

KEY = DocumentKey("local", "me", "main.py")
TOKENIZER = Tokenizer(
    VocabSpec(
        kind="bpe",
        tokens=tuple(byte_alphabet().values()),
        token_types=(1,) * 256,
        pre_tokenizer="gpt-2",
    )
)


class Counting:
    """Finds a piece that says how often it was asked."""

    def __init__(self) -> None:
        self.num_asked = 0

    def find(self, document: Document, key: DocumentKey | None) -> Sequence[Found]:
        self.num_asked += 1
        return [Found(Part(f"found {self.num_asked}\n", "other.py"), "named here", 1.0)]


def around(
    surroundings: Surroundings, document: Document, key: DocumentKey | None = KEY, *, keeps: bool = True
) -> tuple[list[str], object]:
    shown, ledger = surroundings.prepare(document, key, 1000, keeps=keeps)
    return [part.text for part in shown.parts], ledger


def made(source: Counting | None = None, **options: object) -> Surroundings:
    return Surroundings(TOKENIZER, 256, ContextOptions(**options), source)  # type: ignore[arg-type]


def test_what_was_found_holds_while_one_types_and_its_reason_is_in_the_ledger() -> None:
    surroundings = made(Counting())
    texts, ledger = around(surroundings, Document("a\n", "", "main.py"))
    assert (texts, ledger) == (["found 1\n"], {"found": [{"path": "other.py", "reason": "named here"}]})
    assert around(surroundings, Document("a\nb", "", "main.py"))[0] == ["found 1\n"]


def test_far_away_it_is_searched_again() -> None:
    surroundings = made(Counting())
    around(surroundings, Document("a\n", "", "main.py"))
    assert around(surroundings, Document("a\n" * 151, "", "main.py"))[0] == ["found 1\n"]
    assert around(surroundings, Document("a\n" * 152, "", "main.py"))[0] == ["found 2\n"]


def test_who_comes_back_finds_what_was_found_there_unless_it_was_long_ago() -> None:
    surroundings = made(Counting())
    for line, text in (
        (0, "found 1\n"),
        (200, "found 2\n"),
        (400, "found 3\n"),
        (600, "found 4\n"),
        (0, "found 1\n"),
    ):
        assert around(surroundings, Document("a\n" * line, "", "main.py"))[0] == [text]
    assert around(surroundings, Document("a\n" * 800, "", "main.py"))[0] == ["found 5\n"]
    assert around(surroundings, Document("a\n" * 600, "", "main.py"))[0] == ["found 4\n"]
    assert around(surroundings, Document("a\n" * 200, "", "main.py"))[0] == ["found 6\n"]


def test_for_nobody_s_document_nothing_is_remembered() -> None:
    surroundings = made(source := Counting())
    for _ in range(2):
        around(surroundings, Document("a\n", ""), None)
    assert source.num_asked == 2


def test_a_guess_at_the_future_teaches_nothing() -> None:
    surroundings = made(source := Counting())
    around(surroundings, Document("a\n", "", "main.py"), keeps=False)
    around(surroundings, Document("a\n", "", "main.py"))
    assert source.num_asked == 2


def test_what_is_shortened_by_what_is_written_leaves_the_document_s_own_text_alone() -> None:
    parts = (Part("~^~^~\n", "main.py"), Part("~^~^~\n", "other.py"))
    written = "basket.add(item)\n" * 40
    assert around(made(compression=("in_common",)), Document(written, "", "main.py", parts))[0] == ["~^~^~\n"]


def test_what_the_client_sent_stands_nearer_and_is_not_shown_twice() -> None:
    document = Document("a\n", "", "main.py", (Part("sent\n"), Part("found 1\n")))
    assert around(made(Counting()), document)[0] == ["sent\n", "found 1\n"]
    document = Document("a\n", "", "main.py", (Part("sent\n"),))
    assert around(made(Counting()), document)[0] == ["found 1\n", "sent\n"]


def test_parts_are_shortened_and_the_ledger_says_by_how_much_and_why() -> None:
    document = Document("a\n", "", "main.py", (Part("# remark\nx = 1\n", "a.py"), Part("# all\n", "b.py")))
    texts, ledger = around(made(compression=("comments",)), document)
    assert texts == ["x = 1\n"]
    dropped = {"lines_dropped": {"comment": 2}, "parts_dropped": 1}
    assert ledger == {"compression": {"tokens": 21, "tokens_left": 6, **dropped}}


def shown_in(surroundings: Surroundings, document: Document, room: int) -> list[str]:
    return [part.text for part in surroundings.prepare(document, KEY, room, keeps=True)[0].parts]


def test_of_what_does_not_fit_what_the_document_uses_is_shown_and_stays_while_one_types() -> None:
    definition = "def total(items):\n    return sum(items)\n"
    parts = (Part("# licence\n" * 20 + definition + "# more\n" * 20, "a.py"),)
    prefix = "from a import total\n"
    surroundings = made()
    for typed in ("", "# ", "# licence\n# licence\n"):
        document = Document(prefix + typed, "", "main.py", parts)
        assert shown_in(surroundings, document, 50) == [definition]
    assert shown_in(made(), Document(prefix, "", "main.py", parts), 1000) == [parts[0].text]
    assert shown_in(made(chosen="first"), Document(prefix, "", "main.py", parts), 50) == [parts[0].text]


def test_what_was_chosen_at_different_times_and_has_no_room_together_is_chosen_anew() -> None:
    surroundings, used = made(), "alpha beta"
    alpha, beta = (f"def {name}():\n    return {number}\n" for number, name in enumerate(used.split()))
    late = Part("x = 1\n" * 9 + beta, "b.py")
    document = Document(used, "", "main.py", (Part(alpha + "y = 2\n" * 9, "a.py"),))
    assert alpha in shown_in(surroundings, document, 70)[0]
    both = shown_in(surroundings, replace(document, parts=(*document.parts, late)), 80)
    assert both == shown_in(made(), replace(document, parts=(*document.parts, late)), 80)
    assert sum(map(len, both)) + 2 * (2 + len("a.py\n")) <= 80


def test_the_same_parts_are_shortened_once_while_one_types() -> None:
    given = tuple(Part(f"x{number} = 1\n" * 30, f"{number}.py") for number in range(3))
    surroundings = made()
    first, ledger = surroundings.prepare(Document("x1", "", "main.py", given), KEY, 100, keeps=True)
    again, same_ledger = surroundings.prepare(Document("x1 = ", "", "main.py", given), KEY, 100, keeps=True)
    assert again.parts is first.parts and same_ledger == ledger
    fewer, _ = surroundings.prepare(Document("x1 = ", "", "main.py", given[:1]), KEY, 100, keeps=True)
    assert fewer.parts != first.parts


def test_a_document_without_other_files_has_nothing_to_prepare() -> None:
    assert made().remembers(Document("a\n", "", "main.py"), KEY)
    assert made().prepare(Document("a\n", ""), None, 100, keeps=True) == (Document("a\n", ""), {})
    assert not made().remembers(Document("a\n", "", "main.py", (Part("x\n"),)), KEY)
    assert not made(Counting()).remembers(Document("a\n", "", "main.py"), KEY)


def test_of_huge_files_the_beginning_is_read_and_of_many_the_last_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("halfline.context.surroundings._MOST_CHARACTERS", 1 << 13)
    huge = Part("x = 1\n" * 60_000, "huge.py")
    late = Part("y = 2\n" * 900, "late.py")
    for parts in ((huge,), (huge, late), (Part("z" * 400_000, "line.js"), late)):
        _, ledger = made().prepare(Document("a", "", "main.py", parts), KEY, 100, keeps=True)
        assert 2_500 < ledger["compression"]["tokens"] <= 1 << 13  # type: ignore[index]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["one", "two", " = ", "\n"]), st.booleans()), max_size=12))
def test_parts_stay_what_they_were_while_one_types_whatever_is_guessed_meanwhile(
    keys: list[tuple[str, bool]],
) -> None:
    surroundings = made(compression=("prune",))
    parts = (Part("one = first\ntwo = second\nthree = third\n", "a.py"),)
    prefix = "first"
    shown, _ = around(surroundings, Document(prefix, "", "main.py", parts))
    for key, keeps in keys:
        now, _ = around(surroundings, Document(prefix + key, "", "main.py", parts), keeps=keeps)
        assert now == shown
        prefix += key if keeps else ""


def test_parts_that_only_a_guess_brought_are_not_decided_by_it() -> None:
    parts = (Part("one = first\ntwo = second\nthree = third\nfour = fourth\n", "a.py"),)
    shown = []
    for guesses in (("third",), (), ("fourth", "second")):
        surroundings = made(compression=("prune",))
        around(surroundings, Document("x", "", "main.py"))
        for guess in guesses:
            around(surroundings, Document(guess, "", "main.py", parts), keeps=False)
        document = Document("first", "", "main.py", parts)
        assert not surroundings.remembers(document, KEY)
        shown.append(around(surroundings, document)[0])
    assert shown[0] == shown[1] == shown[2]
    assert shown[0] != around(made(compression=("prune",)), Document("third", "", "main.py", parts))[0]


def test_documents_that_were_asked_about_are_remembered_and_guesses_are_not() -> None:
    recent = RecentFiles(4)
    surroundings = Surroundings(TOKENIZER, 256, ContextOptions(), RecentlyAlike(recent), recent)
    around(surroundings, Document("guessed", "", "b.py"), DocumentKey("local", "me", "b.py"), keeps=False)
    text = "def total_price(basket): pass\n"
    around(surroundings, Document(text, "", "a.py"), DocumentKey("local", "me", "a.py"))
    texts, _ = around(surroundings, Document("total_price(basket, extra", "", "main.py"))
    assert texts == [text]


def test_nothing_is_to_do_only_where_it_was_done_for_this_document_and_these_parts() -> None:
    surroundings = made(compression=("comments",))
    document = Document("a\n", "", "main.py", (Part("x\n"), Part("y\n")))
    assert not surroundings.remembers(document, KEY)
    around(surroundings, document)
    assert surroundings.remembers(document, KEY)
    assert surroundings.remembers(Document("a\nb", "", "main.py", (Part("y\n"),)), KEY)
    assert not surroundings.remembers(Document("a\nb", "", "main.py", (Part("z\n"),)), KEY)
    assert not surroundings.remembers(document, None)


def test_a_window_that_moves_with_the_cursor_is_another_place_when_its_lines_are_others() -> None:
    surroundings = made(Counting())
    lines = [f"line number {number}\n" for number in range(1000)]

    def found_at(line: int, typed: str = "") -> list[str]:
        return around(surroundings, Document("".join(lines[line - 200 : line]) + typed, "", "main.py"))[0]

    assert found_at(300) == found_at(300, "typed = ") == found_at(340) == ["found 1\n"]
    assert found_at(900) == ["found 2\n"]
    assert found_at(310) == ["found 1\n"]


def test_a_request_without_a_document_chooses_for_none() -> None:
    surroundings = made(Counting())
    assert around(surroundings, Document("", "", "main.py"))[0] == ["found 1\n"]
    written = "".join(f"line number {number}\n" for number in range(20))
    assert around(surroundings, Document(written, "", "main.py"))[0] == ["found 2\n"]


def test_where_what_stood_first_is_gone_the_room_is_filled_anew() -> None:
    surroundings = made()
    pieces = [Part(f"x{number} = 1\n" * 40, f"{number}.py") for number in range(4)]
    document = Document("".join(f"x{number}, y{number}\n" for number in range(9)), "", "main.py")
    for start in range(3):
        given = replace(document, parts=tuple(pieces[start : start + 2]))
        assert shown_in(surroundings, given, 200) == shown_in(made(), given, 200)


def test_who_would_have_to_wait_for_what_is_being_shortened_has_something_to_do() -> None:
    surroundings = made()
    documents = [Document("a", "", "main.py", (Part(f"x = {number}\n" * 40, "a.py"),)) for number in range(2)]
    around(surroundings, documents[0])
    seen = []

    class Asking:
        def shrink(self, parts: Sequence[LinedPart], budget: Budget) -> Shrunk:
            seen.extend(surroundings.remembers(document, KEY) for document in documents)
            return Shrunk(tuple(parts), ())

    surroundings._chain = Asking()  # type: ignore[assignment]
    around(surroundings, documents[1])
    assert seen and not any(seen) and surroundings.remembers(documents[1], KEY)


def test_a_model_that_is_shown_no_other_files_has_them_left_as_they_are() -> None:
    document = Document("a", "", "main.py", (Part("x = 1\n" * 40, "a.py"),))
    assert made().prepare(document, KEY, 0, keeps=True) == (document, {})


def test_what_is_far_too_long_for_the_room_is_not_split_into_tokens_and_the_rest_is_shown() -> None:
    minified = Part("x=1;" * 9_000 + "\ny = 2\n", "a.js")
    document = Document("a", "", "main.py", (minified, Part("z = 3\n", "p" * 9_000), Part("z = 4\n", "b.py")))
    shown, ledger = made().prepare(document, KEY, 100, keeps=True)
    assert shown.parts == (Part("y = 2\n", "a.js"), Part("z = 4\n", "b.py"))
    assert ledger == {
        "compression": {"tokens": 12, "tokens_left": 12, "lines_dropped": {}, "parts_dropped": 1}
    }


def test_of_ten_thousand_pieces_of_one_line_the_last_ones_are_read() -> None:
    parts = tuple(Part(f"x{number}\n", f"{number}.py") for number in range(10_000))
    shown, ledger = made().prepare(Document("a", "", "main.py", parts), KEY, 100, keeps=True)
    assert ledger["compression"]["tokens"] < 20_000  # type: ignore[index]
    assert shown.parts and int(shown.parts[0].text[1:]) > 5_000


def test_a_request_without_a_document_reads_what_the_next_keystroke_will() -> None:
    surroundings = made()
    written = "".join(f"line number {number}\n" for number in range(20)) + "x = total("
    first = Part("# licence\n" * 20, "a.py")
    late = Part("# more\n" * 20 + "def total(items):\n    return 1\n" + "# more\n" * 20, "b.py")
    shown_in(surroundings, Document(written, "", "main.py", (first,)), 60)
    warm = shown_in(surroundings, Document("", "", "main.py", (first, late)), 60)
    assert "def total" in warm[-1]
    assert shown_in(surroundings, Document(written + "i", "", "main.py", (first, late)), 60) == warm
