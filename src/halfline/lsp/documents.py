"""Open documents whose lines end where the protocol says that they do: at LF, CR LF or CR, and nowhere else.

pygls also ends them at form feeds, NEL and the like, as Python does; behind one of these every place would be another
one than the editor's, and every edit would fall into the wrong line.
"""

import re
from collections.abc import Generator, Sequence
from typing import Any

from lsprotocol import types
from pygls.protocol import LanguageServerProtocol
from pygls.protocol.language_server import lsp_method
from pygls.workspace import TextDocument, Workspace

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")


class EditorDocument(TextDocument):
    """A document as the editor counts it."""

    @property
    def lines(self) -> Sequence[str]:
        """With their ends."""
        return tuple(_LINE.findall(self.source))


class EditorWorkspace(Workspace):
    def _create_text_document(
        self,
        doc_uri: str,
        source: str | None = None,
        version: int | None = None,
        language_id: str | None = None,
    ) -> TextDocument:
        return EditorDocument(
            doc_uri,
            source=source,
            version=version,
            language_id=language_id,
            sync_kind=self._sync_kind,
            position_codec=self._position_codec,
        )


class EditorProtocol(LanguageServerProtocol):
    """pygls's, with documents of ours."""

    @lsp_method(types.INITIALIZE)
    def lsp_initialize(self, params: types.InitializeParams) -> Generator[Any, Any, types.InitializeResult]:
        result = yield from super().lsp_initialize(params)
        theirs = self.workspace
        self._workspace = EditorWorkspace(
            theirs.root_uri,
            workspace_folders=list(theirs.folders.values()),
            position_encoding=theirs.position_encoding,
        )
        return result
