"""Tabby's own agent, the npm package behind its extensions, between an editor and a real server.

Needs node and npm; the package is installed once into pytest's cache. Nightly: it comes from a registry.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from lsprotocol import types
from pygls.lsp.client import LanguageClient

pytestmark = [pytest.mark.anyio, pytest.mark.nightly]

PACKAGE = "tabby-agent@1.5.0"
URI = "file:///project/shapes.py"
TEXT = "import math\n\n\ndef area(radius):\n    return math.pi * radius ** 2\n\n\ndef perimeter(radius):\n    return "


@pytest.fixture(scope="module")
def agent(request: pytest.FixtureRequest) -> Path:
    if shutil.which("npm") is None:
        pytest.skip(f"npm is missing, which installs {PACKAGE}")
    folder = Path(request.config.cache.mkdir("tabby-agent"))
    program = folder / "node_modules" / "tabby-agent" / "dist" / "cli.js"
    if not program.exists():
        command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), PACKAGE]
        subprocess.run(command, check=True, timeout=300)
    return program


async def test_the_agent_connects_and_offers_what_the_server_says(
    server, agent: Path, tmp_path: Path
) -> None:
    settings = tmp_path / ".tabby-client" / "agent" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(
        f'[server]\nendpoint = "{server.url}"\ntoken = ""\n[anonymousUsageTracking]\ndisable = true\n',
        encoding="utf-8",
    )
    client = LanguageClient("editor", "1")
    await client.start_io("node", str(agent), "--lsp", "--stdio", env={**os.environ, "HOME": str(tmp_path)})
    await client.initialize_async(
        types.InitializeParams(capabilities=types.ClientCapabilities(), root_uri="file:///work")
    )
    client.initialized(types.InitializedParams())
    document = types.TextDocumentItem(URI, "python", 1, TEXT)
    client.text_document_did_open(types.DidOpenTextDocumentParams(document))
    found = await client.text_document_completion_async(
        types.CompletionParams(
            types.TextDocumentIdentifier(URI),
            types.Position(8, 11),
            types.CompletionContext(types.CompletionTriggerKind.Invoked),
        )
    )
    await client.shutdown_async(None)
    client.exit(None)
    await client.stop()
    (item,) = found.items
    assert item.text_edit.new_text.startswith("2 *")
    assert server.metric('halfline_requests_total{route="/v1/health",status="200"}') >= 1
    assert server.metric('halfline_requests_total{route="/v1/completions",status="200"}') >= 1
