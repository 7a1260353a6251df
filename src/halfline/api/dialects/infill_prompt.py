"""Prompts into which a client has already put infill markers, whoever's: the document they were made from.

Clients choose a template by a model's name, and name a model we may not serve. What they mean is the same for all: a
text before the cursor and one behind it. As a `Document` it gets the served model's own markers, or none.

    <|fim_prefix|>before<|fim_suffix|>behind<|fim_middle|>           psm
    <|fim_prefix|><|fim_suffix|>behind<|fim_middle|>before           spm
    [SUFFIX]behind[PREFIX]before                                     suffix first
    <|repo_name|>…<|file_sep|>path⏎…<|file_sep|>path⏎<|fim_prefix|>…  other files come first
"""

import re
from collections.abc import Iterator

from halfline.request import Document, Part
from halfline.text.markers import FILE_MARKERS, INFILL_MARKERS, REPOSITORY_MARKERS, InfillMarkers

_FILE = re.compile("|".join(map(re.escape, FILE_MARKERS)))
_REPOSITORY = re.compile("|".join(map(re.escape, REPOSITORY_MARKERS)))


def read_infill_prompt(prompt: str) -> Document | None:
    """The document of a prompt that is an infill template from its beginning to its end; None for any other text."""
    for markers in INFILL_MARKERS:
        document = (
            _suffix_first(prompt, markers) if "suffix_first" in markers.orders else _psm(prompt, markers)
        )
        if document is not None:
            return document
    return None


def _psm(prompt: str, markers: InfillMarkers) -> Document | None:
    """The header is what stands before the first marker. Of markers that the file itself holds the outermost count."""
    assert markers.middle is not None
    header, found, rest = prompt.partition(markers.prefix)
    if not found:
        return None
    if rest.startswith(markers.suffix):
        suffix, found, prefix = rest.removeprefix(markers.suffix).rpartition(markers.middle)
        return _document(header, prefix, suffix, markers) if found else None
    prefix, found, suffix = rest.rpartition(markers.suffix)
    if not found or not suffix.endswith(markers.middle):
        return None
    return _document(header, prefix, suffix.removesuffix(markers.middle), markers)


def _suffix_first(prompt: str, markers: InfillMarkers) -> Document | None:
    if not prompt.startswith(markers.suffix):
        return None
    suffix, found, prefix = prompt.removeprefix(markers.suffix).partition(markers.prefix)
    if not found or not prefix.endswith(markers.middle or ""):
        return None
    return _document("", prefix.removesuffix(markers.middle or ""), suffix, markers)


def _document(header: str, prefix: str, suffix: str, markers: InfillMarkers) -> Document:
    if markers.prefix == "<PRE>":  # its template has blanks that belong to the markers
        prefix, suffix = prefix.removeprefix(" ").removesuffix(" "), suffix.removesuffix(" ")
    if not _FILE.search(header):
        # What a client says before the file, in comments or markers that we do not know.
        return Document(_REPOSITORY.sub("", header) + prefix, suffix)
    parts = list(_files(header))
    if parts and not parts[-1].text.strip():
        return Document(prefix, suffix, parts[-1].path, tuple(parts[:-1]))
    return Document(prefix, suffix, None, tuple(parts))


def _files(header: str) -> Iterator[Part]:
    """Behind each marker a file: its path, and from the next line on its text."""
    for file in _FILE.split(header)[1:]:
        path, _, text = file.partition("\n")
        yield Part(text, path.strip() or None)
