"""What the language server sends of a document."""

import pytest

from halfline.lsp.remote import BEFORE_CHARACTERS, window_start

MOST = BEFORE_CHARACTERS
LINE = "x" * 99 + "\n"


@pytest.mark.parametrize(
    ("text", "offset", "start"),
    [
        ("", 0, 0),
        (LINE * 3, 250, 0),
        (LINE * 5000, 450_050, 319_000),  # the first line that begins within what is sent
        ("x" * 2 * MOST + "\n" + LINE, MOST + 7, 7),  # of a line without an end what is near
        (LINE + "x" * 2 * MOST, MOST + 150, 150),
    ],
)
def test_as_many_whole_lines_as_fit_and_of_a_line_that_does_not_its_end(
    text: str, offset: int, start: int
) -> None:
    assert window_start(text, offset) == start
    assert offset - start <= MOST
