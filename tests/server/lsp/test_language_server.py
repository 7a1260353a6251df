"""`halfline lsp` between a real LSP client, over standard input and output, and a real server."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.client import LanguageClient

from halfline.errors import HalflineError
from halfline.lsp.remote import RemoteServer

pytestmark = pytest.mark.anyio

URI = "file:///project/shapes.py"
TEXT = "import math\n\n\ndef area(radius):\n    return math.pi * radius ** 2\n\n\ndef perimeter(radius):\n    return "


@asynccontextmanager
async def editor(url: str, encoding: str = "utf-16") -> AsyncIterator[LanguageClient]:
    """A client with the language server started and one document open; `messages` is what it was told."""
    client = LanguageClient("editor", "1")
    client.messages = []

    @client.feature(types.WINDOW_LOG_MESSAGE)
    def told(params: types.LogMessageParams) -> None:
        client.messages.append(params.message)

    await client.start_io(sys.executable, "-m", "halfline", "lsp", "--server", url, "--user", "ada")
    general = types.GeneralClientCapabilities(position_encodings=[types.PositionEncodingKind(encoding)])
    capabilities = types.ClientCapabilities(general=general)
    client.initialized_with = await client.initialize_async(
        types.InitializeParams(capabilities=capabilities, root_uri="file:///work")
    )
    client.initialized(types.InitializedParams())
    document = types.TextDocumentItem(URI, "python", 1, TEXT)
    client.text_document_did_open(types.DidOpenTextDocumentParams(document))
    yield client
    await client.shutdown_async(None)
    client.exit(None)
    await client.stop()


def ghost_text(line: int, character: int) -> types.InlineCompletionParams:
    return types.InlineCompletionParams(
        context=types.InlineCompletionContext(types.InlineCompletionTriggerKind.Automatic),
        text_document=types.TextDocumentIdentifier(URI),
        position=types.Position(line, character),
    )


def edit(client: LanguageClient, version: int, line: int, start: int, stop: int, text: str) -> None:
    """One incremental change within a line."""
    span = types.Range(types.Position(line, start), types.Position(line, stop))
    client.text_document_did_change(
        types.DidChangeTextDocumentParams(
            types.VersionedTextDocumentIdentifier(version, URI),
            [types.TextDocumentContentChangePartial(range=span, text=text)],
        )
    )


def asked_directly(url: str, prompt: str, suffix: str = "") -> str:
    body = {"prompt": prompt, "suffix": suffix, "metadata": {"path": "/project/shapes.py"}, "user": "eve"}
    return httpx.post(f"{url}/v1/completions", json=body, timeout=60).json()["choices"][0]["text"]


async def test_ghost_text_is_what_the_server_says_at_the_cursor(server) -> None:
    async with editor(server.url) as client:
        found = await client.text_document_inline_completion_async(ghost_text(8, 11))
    (item,) = found.items
    assert item.insert_text == asked_directly(server.url, TEXT)
    assert item.range is None and item.command.command == "halfline.accepted"


async def test_what_is_typed_is_followed_in_the_editor_s_own_units(server) -> None:
    """Before the cursor stand a character of two UTF-16 units, and one at which only Python ends lines."""
    async with editor(server.url) as client:
        assert (
            client.initialized_with.capabilities.text_document_sync.change
            == types.TextDocumentSyncKind.Incremental
        )
        edit(client, 2, 8, 4, 11, "name = '\U0001f9d1\f' + ")
        found = await client.text_document_inline_completion_async(ghost_text(8, 4 + len("name = '***' + ")))
        edit(client, 3, 8, 4, 4 + len("name = '***' + "), "return ")
        back = await client.text_document_inline_completion_async(ghost_text(8, 11))
    prompt = TEXT[: -len("return ")] + "name = '\U0001f9d1\f' + "
    assert [item.insert_text for item in found.items] == [asked_directly(server.url, prompt)]
    assert [item.insert_text for item in back.items] == [asked_directly(server.url, TEXT)]


async def test_half_a_character_and_a_document_that_is_not_open_are_no_errors(server) -> None:
    async with editor(server.url) as client:
        edit(client, 2, 8, 4, 11, "name = '\ud83e' + ")
        found = await client.text_document_inline_completion_async(ghost_text(8, 4 + len("name = '*' + ")))
        client.text_document_did_close(types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(URI)))
        closed = await client.text_document_inline_completion_async(ghost_text(8, 4))
        assert client.messages == []
    prompt = TEXT[: -len("return ")] + "name = '\ufffd' + "
    assert [item.insert_text for item in found.items] == [asked_directly(server.url, prompt)]
    assert not closed.items


async def test_the_usual_list_has_the_same_text_as_an_edit_at_the_cursor(server) -> None:
    params = types.CompletionParams(types.TextDocumentIdentifier(URI), types.Position(8, 11))
    async with editor(server.url) as client:
        found = await client.text_document_completion_async(params)
    (item,) = found.items
    assert found.is_incomplete
    assert item.text_edit.new_text == asked_directly(server.url, TEXT)
    assert item.text_edit.range.start == item.text_edit.range.end == params.position
    assert item.label and "\n" not in item.label


async def test_taking_a_completion_is_told_to_the_server(server) -> None:
    route = 'halfline_requests_total{route="/v1/events",status="200"}'
    async with editor(server.url) as client:
        found = await client.text_document_inline_completion_async(ghost_text(8, 11))
        command = found.items[0].command
        await client.workspace_execute_command_async(
            types.ExecuteCommandParams(command.command, command.arguments)
        )
        assert server.metric(route) == 1
        assert client.messages == []


async def test_a_cancelled_question_closes_its_connection_which_ends_the_work_there() -> None:
    asked, closed = asyncio.Event(), asyncio.Event()

    async def never_answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.set()
        while await reader.read(1 << 16):
            pass
        closed.set()
        writer.close()

    listener = await asyncio.start_server(never_answers, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    async with listener, editor(f"http://127.0.0.1:{port}") as client:
        question = client.protocol.send_request_async(
            types.TEXT_DOCUMENT_INLINE_COMPLETION, ghost_text(8, 11), msg_id="one"
        )
        answer = asyncio.ensure_future(question)
        await asked.wait()
        client.cancel_request(types.CancelParams(id="one"))
        with pytest.raises(JsonRpcException, match=r"(?i)cancel"):
            await answer
        await closed.wait()


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"{}", b'{"id": "x", "choices": []}', b"null"])
async def test_what_is_no_completion_is_an_error_for_people(body: bytes) -> None:
    async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()
        await reader.read()
        writer.close()

    listener = await asyncio.start_server(answers, "127.0.0.1", 0)
    async with listener:
        remote = RemoteServer(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}", None, "ada")
        with pytest.raises(HalflineError, match="answers what is no completion"):
            await remote.complete("x = ", 4, "a.py")
        await remote.close()


async def test_an_editor_without_a_server_goes_on_and_is_told_once() -> None:
    async with editor("http://127.0.0.1:9") as client:
        for _ in range(2):
            found = await client.text_document_inline_completion_async(ghost_text(8, 11))
            assert not found.items
        (message,) = client.messages
    assert "127.0.0.1:9 cannot be reached" in message
