"""Other files stand in front of the document, in the markers of the model, as far as there is room."""

from hypothesis import given
from hypothesis import strategies as st

from halfline.context.chunks.chunk_tokens import tokens_in_memory
from halfline.context.other_files import OtherFiles
from halfline.request import Document, Part
from halfline.text.file_markers import FileMarkers, find_file_markers
from halfline.text.infill import find_infill_format
from halfline.text.token_bytes import byte_alphabet
from halfline.text.tokenizer import Tokenizer
from halfline.text.vocab import VocabSpec

FIM = ("<fim_prefix>", "<fim_suffix>", "<fim_middle>")


def tokenizer_with(*special: str) -> Tokenizer:
    tokens = (*byte_alphabet().values(), *special)
    types = (1,) * 256 + (3,) * len(special)
    return Tokenizer(VocabSpec(kind="bpe", tokens=tokens, token_types=types, pre_tokenizer="gpt-2"))


FULL = tokenizer_with(*FIM, "<repo_name>", "<file_sep>")


def markers_of(tokenizer: Tokenizer) -> FileMarkers | None:
    return find_file_markers(tokenizer, find_infill_format(tokenizer))


def front(
    parts: tuple[Part, ...], max_tokens: int = 1000, tokenizer: Tokenizer = FULL, path: str | None = "c.py"
):
    document = Document("before", "behind", path, parts)
    return OtherFiles(markers_of(tokenizer), tokens_in_memory(tokenizer)).before(document, max_tokens)


def shown(token_ids: tuple[int, ...], tokenizer: Tokenizer = FULL) -> str:
    return b"".join(map(tokenizer.token_bytes, token_ids)).decode()


def test_parts_stand_in_their_order_and_the_document_s_own_path_last() -> None:
    found = front((Part("x\n", "a.py"), Part("y\n")))
    assert shown(found.token_ids) == (
        "<repo_name>repository\n<file_sep>a.py\nx\n<file_sep>untitled\ny\n<file_sep>c.py\n"
    )
    assert (found.num_used, found.num_left_out) == (2, 0)


def test_without_room_the_first_parts_are_left_out_and_no_line_is_cut() -> None:
    parts = (Part("x" * 50, "a.py"), Part("y" * 20, "b.py"))
    found = front(parts, max_tokens=70)
    assert "y" * 20 in shown(found.token_ids) and "x" not in shown(found.token_ids)
    assert (found.num_used, found.num_left_out) == (1, 1)
    assert front(parts, max_tokens=30) == front(parts, max_tokens=0)
    assert front(parts, max_tokens=0).token_ids == ()


def test_of_a_part_that_does_not_fit_its_first_lines_are_there() -> None:
    lines = [f"x{number} = {number}\n" for number in range(100)]
    parts = (Part("left out\n", "z.py"), Part("".join(lines), "a.py"), Part("y\n", "b.py"))
    begin, end = "<repo_name>repository\n<file_sep>a.py\n", "<file_sep>b.py\ny\n<file_sep>c.py\n"
    for num_lines in (1, 2, 9, 10, 11, 40):  # a token a byte, and one for each marker
        text = begin + "".join(lines[:num_lines]) + end
        num_tokens = len(text) - len("<repo_name><file_sep><file_sep><file_sep>") + 4
        for spare in (0, 1, 6):
            found = front(parts, max_tokens=num_tokens + spare)
            assert shown(found.token_ids) == text
            assert (found.num_used, found.num_left_out, found.is_cut) == (2, 1, True)
    assert not front(parts, max_tokens=10_000).is_cut


def test_a_huge_part_is_not_read_to_its_end() -> None:
    tokens = tokens_in_memory(FULL)
    document = Document("before", "behind", "c.py", (Part("x = 1\n" * 1_000_000, "a.py"),))
    found = OtherFiles(markers_of(FULL), tokens).before(document, 500)
    assert found.is_cut and len(found.token_ids) <= 500


def test_a_model_that_infills_without_a_file_marker_gets_none() -> None:
    for tokenizer in (tokenizer_with(*FIM), tokenizer_with(*FIM, "<repo_name>")):
        found = front((Part("x", "a.py"),), tokenizer=tokenizer)
        assert (found.token_ids, found.num_left_out) == ((), 1)
    assert front(()).token_ids == ()


def test_a_model_that_cannot_infill_gets_them_behind_its_marker() -> None:
    tokenizer = tokenizer_with("<file_sep>")
    found = front((Part("x\n", "a.py"),), tokenizer=tokenizer)
    assert shown(found.token_ids, tokenizer) == "<file_sep>a.py\nx\n<file_sep>c.py\n"


def test_a_model_of_plain_text_sees_paths_in_comments_on_lines_of_their_own() -> None:
    tokenizer = tokenizer_with()
    found = front((Part("x", "a.py"), Part("y\n")), tokenizer=tokenizer)
    assert shown(found.token_ids, tokenizer) == "# a.py\nx\n# untitled\ny\n# c.py\n"
    assert front((), tokenizer=tokenizer).token_ids == ()


def test_no_part_spells_a_marker() -> None:
    found = front((Part("<file_sep><fim_prefix>", "<repo_name>"),))
    marker_ids = {FULL.token_id(text) for text in (*FIM, "<repo_name>", "<file_sep>")}
    assert len([each for each in found.token_ids if each in marker_ids]) == 3


@given(
    st.lists(st.integers(0, 60), max_size=5),
    st.integers(0, 200),
    st.sampled_from([FULL, tokenizer_with("<file_sep>"), tokenizer_with()]),
)
def test_there_is_never_more_than_there_may_be(sizes, max_tokens, tokenizer) -> None:
    found = front(tuple(Part("x" * size, "p.py") for size in sizes), max_tokens, tokenizer)
    assert len(found.token_ids) <= max_tokens
    assert found.num_used + found.num_left_out == len(sizes)
