"""What somebody may do next at a cursor, the likeliest first: a document each.

    typing on        where the answer was cut at its limit it is made longer
    something else   the first characters of what the model would say instead
    Enter            with the indentation an editor adds; first, when the line is at its end
    accepting        the first line of the answer, and all of it
    backspace        mostly known already

Knows text, no model. What is known already costs nothing, so nothing is left out for that.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from halfline.pipeline.foresight import Alternative
from halfline.request import CompletionRequest, Document

MORE_TOKENS = 8
"""By which an answer that was cut at its limit is made longer."""

_LEAST_PROBABILITY = 0.02
_OPENING = ("{", "(", "[", ":")


def next_requests(
    request: CompletionRequest,
    document: Document,
    answer: str,
    alternatives: Sequence[Alternative],
    *,
    at_limit: bool,
) -> Iterator[CompletionRequest]:
    """The request of each next keystroke. `at_limit`: the answer might go on."""
    if at_limit:
        yield replace(request, max_tokens=request.max_tokens + MORE_TOKENS)
    for prefix in _prefixes(document, answer, alternatives):
        yield replace(request, prompt=replace(document, prefix=prefix))


def _prefixes(document: Document, answer: str, alternatives: Sequence[Alternative]) -> Iterator[str]:
    prefix = document.prefix
    first_line = answer.partition("\n")[0]
    at_line_end = not first_line.strip() and not document.suffix.partition("\n")[0].strip()
    if at_line_end:
        yield prefix + _new_line(prefix)
    for character in _characters(alternatives):
        if character != "\n":
            yield prefix + character
    if not at_line_end:
        yield prefix + _new_line(prefix)
    if first_line.strip():
        yield prefix + first_line
    if answer.strip() and answer != first_line:
        yield prefix + answer
    if prefix:
        yield prefix[:-1]


def _characters(alternatives: Sequence[Alternative]) -> list[str]:
    """The different first characters, by the probability of all that begin so."""
    chances: dict[str, float] = {}
    for each in alternatives:
        chances[each.text[0]] = chances.get(each.text[0], 0.0) + each.probability
    likely = [character for character, chance in chances.items() if chance >= _LEAST_PROBABILITY]
    return sorted(likely, key=lambda character: -chances[character])


def _new_line(prefix: str) -> str:
    """A line break as editors write it: indented as the line is, one step deeper behind what opens a block."""
    line = prefix.rpartition("\n")[2]
    indent = line[: len(line) - len(line.lstrip())]
    if line.rstrip().endswith(_OPENING):
        indent += "\t" if "\t" in indent else "    "
    return "\n" + indent
