"""What an editor asks of a language server, answered with completions: ghost text, and one entry in the usual list.

Documents are kept in step by pygls, in whatever unit the editor counts characters. A question that the editor cancels
is cancelled all the way down.
"""

from collections.abc import Awaitable
from importlib.metadata import version
from typing import Any

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path
from pygls.workspace import TextDocument

from halfline.errors import HalflineError
from halfline.lsp.documents import EditorProtocol
from halfline.lsp.remote import Answer, RemoteServer

ACCEPTED = "halfline.accepted"
"""The command that an editor runs when its user takes a completion; its argument is the completion's id."""

_LABEL_CHARACTERS = 60


def language_server(remote: RemoteServer) -> LanguageServer:
    """Not yet listening: `start_io` serves one editor."""
    server = LanguageServer("halfline", version("halfline"), protocol_cls=EditorProtocol)
    asking = _Asking(server, remote)

    @server.feature(types.TEXT_DOCUMENT_INLINE_COMPLETION)
    async def inline_completion(params: types.InlineCompletionParams) -> types.InlineCompletionList:
        answer = await asking.at(params.text_document.uri, params.position)
        if answer is None:
            return types.InlineCompletionList(items=[])
        item = types.InlineCompletionItem(insert_text=answer.text, command=_accepted(answer))
        return types.InlineCompletionList(items=[item])

    @server.feature(types.TEXT_DOCUMENT_COMPLETION)
    async def completion(params: types.CompletionParams) -> types.CompletionList:
        answer = await asking.at(params.text_document.uri, params.position)
        items = [] if answer is None else [_item(answer, params.position)]
        # Incomplete: what is right here is wrong one character further.
        return types.CompletionList(is_incomplete=True, items=items)

    @server.command(ACCEPTED)
    async def accepted(completion_id: str) -> None:
        await asking.tolerantly(remote.accepted(completion_id))

    @server.feature(types.SHUTDOWN)
    async def shutdown(params: Any) -> None:
        await remote.close()

    return server


class _Asking:
    """Asks, and tells the editor once when there is nobody to ask."""

    def __init__(self, server: LanguageServer, remote: RemoteServer) -> None:
        self._server = server
        self._remote = remote
        self._complained = False

    async def at(self, uri: str, position: types.Position) -> Answer | None:
        """The answer at a place of an open document; None: there is nothing to show."""
        document = self._server.workspace.text_documents.get(uri)
        if document is None:  # closed while the question was on its way
            return None
        question = self._remote.complete(document.source, offset_of(document, position), _path(uri))
        answer = await self.tolerantly(question)
        return answer if answer is not None and answer.text.strip() else None

    async def tolerantly(self, question: Awaitable[Answer | None]) -> Answer | None:
        """None for what failed: an editor that loses its server goes on without ghost text."""
        try:
            answer = await question
        except HalflineError as error:
            if not self._complained:
                message = types.LogMessageParams(types.MessageType.Warning, f"halfline: {error}")
                self._server.window_log_message(message)
            self._complained = True
            return None
        self._complained = False
        return answer


def offset_of(document: TextDocument, position: types.Position) -> int:
    """In characters; a place behind the end is the end."""
    return min(document.offset_at_position(position), len(document.source))


def _path(uri: str) -> str:
    """As the file system knows it; of a document that is no file, its URI."""
    return to_fs_path(uri) or uri


def _accepted(answer: Answer) -> types.Command:
    return types.Command(title="accepted", command=ACCEPTED, arguments=[answer.completion_id])


def _item(answer: Answer, position: types.Position) -> types.CompletionItem:
    return types.CompletionItem(
        label=answer.text.strip().split("\n")[0][:_LABEL_CHARACTERS],
        kind=types.CompletionItemKind.Text,
        detail="halfline",
        documentation=answer.text,
        # At the cursor: what an editor takes for the word there is none of the completion's business.
        text_edit=types.TextEdit(types.Range(position, position), answer.text),
        command=_accepted(answer),
    )
