"""What is remembered of each open document: its anchors, its suffix, where its middle began."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from halfline.context.layout import Layout
from halfline.context.sticky_suffix import StickySuffix
from halfline.document.encoded_text import EncodedText

_MAX_DOCUMENTS = 128  # about half a megabyte each when much was edited


@dataclass(frozen=True, slots=True)
class DocumentKey:
    """Whose document: tenants and users never share what is remembered."""

    tenant: str
    user: str
    path: str


@dataclass(frozen=True, slots=True)
class Middle:
    """The window in the anchored order: what stood there `before` the typing began, and what was `typed` since."""

    before: EncodedText
    typed: EncodedText


@dataclass(slots=True)
class OpenDocument:
    """Changed by whoever builds the document's prompts. `middle` None: no prompt was anchored yet."""

    layout: Layout
    suffix: StickySuffix
    middle: Middle | None = None

    def fork(self) -> "OpenDocument":
        """One that knows the same and learns apart."""
        return OpenDocument(self.layout.fork(), self.suffix.fork(), self.middle)


class Documents:
    """Forgets the documents used longest ago."""

    def __init__(self, new: Callable[[], OpenDocument]) -> None:
        self._new = new
        self._open: OrderedDict[DocumentKey, OpenDocument] = OrderedDict()

    def find(self, key: DocumentKey, *, keeps: bool) -> OpenDocument:
        """What is known of it. `keeps` False: for a guess at its future, what it teaches is nobody's."""
        known = self._open.get(key)
        if not keeps:
            return self._new() if known is None else known.fork()
        if known is None:
            known = self._open[key] = self._new()
        self._open.move_to_end(key)
        if len(self._open) > _MAX_DOCUMENTS:
            self._open.popitem(last=False)
        return known
