"""Pulls through huggingface_hub against a hub of our own: resumed, private, missing, damaged.

The command runs as its own process, because the client reads its endpoint when it is imported.
"""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from halfline.errors import DownloadFailed, ModelNotFound
from halfline.model.hub import pull_from_hub
from halfline.model.store import ModelStore

WEIGHTS = os.urandom(200_000)
COMMIT = "0123456789abcdef0123456789abcdef01234567"
TOKEN = "hf_right"


@dataclass
class Hub:
    """What the endpoints answer, changed by the tests, and what was asked of them."""

    files: dict[str, bytes]
    private: bool = False
    dies_after_bytes: int | None = None
    stays_dead: bool = False
    announced: dict[str, str] = field(default_factory=dict)
    ranges: list[str | None] = field(default_factory=list)
    downloads: list[str] = field(default_factory=list)
    url: str = ""

    def sha256(self, name: str) -> str:
        return self.announced.get(name, hashlib.sha256(self.files[name]).hexdigest())


@pytest.fixture
def hub() -> Iterator[Hub]:
    hub = Hub({"weights.gguf": WEIGHTS, "LICENSE": b"Do what you like.", "evil.pkl": b"never taken"})

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if hub.private and self.headers["Authorization"] != f"Bearer {TOKEN}":
                self.refuse(401)
            elif path.startswith("/api/models/owner/repo"):
                self.answer(200, json.dumps(describe(hub)).encode())
            elif path.startswith(f"/owner/repo/resolve/{COMMIT}/"):
                self.send(path.rpartition(f"{COMMIT}/")[2])
            else:
                self.refuse(404)

        do_HEAD = do_GET

        def refuse(self, status: int) -> None:
            self.answer(status, b"", {"X-Error-Code": "RepoNotFound"})

        def send(self, name: str) -> None:
            data, start = hub.files[name], 0
            if self.command == "GET":
                if hub.dies_after_bytes == 0:
                    return self.answer(500, b"")
                hub.downloads.append(name)
                asked = self.headers["Range"]
                hub.ranges.append(asked)
                start = int(asked.removeprefix("bytes=").partition("-")[0]) if asked else 0
            headers = {"ETag": f'"{hub.sha256(name)}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
            if start:
                headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
            self.answer(206 if start else 200, data[start:], headers)

        def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "HEAD":
                return
            if hub.dies_after_bytes is not None and len(body) > hub.dies_after_bytes:
                body = body[: hub.dies_after_bytes]
                hub.dies_after_bytes = 0 if hub.stays_dead else None
                self.close_connection = True
            self.wfile.write(body)

        def log_message(self, *message: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    hub.url = f"http://127.0.0.1:{server.server_port}"
    yield hub
    server.shutdown()
    thread.join()
    server.server_close()


def describe(hub: Hub) -> dict[str, object]:
    siblings = [
        {
            "rfilename": name,
            "size": len(data),
            "blobId": "b",
            "lfs": {"sha256": hub.sha256(name), "size": len(data), "pointerSize": 1}
            if name.endswith((".gguf", ".safetensors"))
            else None,
        }
        for name, data in hub.files.items()
    ]
    return {"id": "owner/repo", "sha": COMMIT, "siblings": siblings, "cardData": {"license": "mit"}}


@dataclass(frozen=True)
class Ended:
    code: int
    said: str
    complained: str


def pull(hub: Hub, data_dir: Path, *arguments: str, **environment: str) -> Ended:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HALFLINE_"))}
    ended = subprocess.run(
        [Path(sys.executable).with_name("halfline"), "model", "pull", *arguments],
        env={
            **kept,
            "HF_ENDPOINT": hub.url,
            "HF_HOME": str(data_dir / "hf"),
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HALFLINE_DATA_DIR": str(data_dir),
            **environment,
        },
        capture_output=True,
        text=True,
    )
    return Ended(ended.returncode, ended.stdout.strip(), ended.stderr)


def test_the_only_gguf_file_of_a_repository_is_pulled_with_its_licence(hub: Hub, tmp_path: Path) -> None:
    ended = pull(hub, tmp_path, "hf:owner/repo")
    assert ended.code == 0, ended.complained
    assert Path(ended.said).read_bytes() == WEIGHTS
    stored = ModelStore(tmp_path).find("hf:owner/repo")
    assert stored is not None
    assert (stored.manifest.source, stored.manifest.license) == (f"hf:owner/repo@{COMMIT}", "mit")
    assert sorted(os.listdir(stored.folder)) == ["LICENSE", "halfline.json", "weights.gguf"]
    assert hub.downloads == ["weights.gguf", "LICENSE"]

    assert pull(hub, tmp_path, "hf:owner/repo", "--offline").said == ended.said
    assert hub.downloads == ["weights.gguf", "LICENSE"]


def test_one_of_several_gguf_files_has_to_be_named(hub: Hub, tmp_path: Path) -> None:
    hub.files["deep/other.gguf"] = b"other"
    ended = pull(hub, tmp_path, "hf:owner/repo")
    assert ended.code == 2
    assert "several GGUF files; add :FILE, one of weights.gguf, deep/other.gguf" in ended.complained
    ended = pull(hub, tmp_path, "hf:owner/repo:deep/other.gguf")
    assert Path(ended.said).read_bytes() == b"other"
    ended = pull(hub, tmp_path, "hf:owner/repo:nope.gguf")
    assert ended.code == 2
    assert "no such GGUF file; it has weights.gguf, deep/other.gguf" in ended.complained


def test_a_repository_of_safetensors_becomes_a_folder(hub: Hub, tmp_path: Path) -> None:
    del hub.files["weights.gguf"]
    hub.files |= {
        "config.json": b"{}",
        "tokenizer.json": b"{}",
        "model.safetensors": WEIGHTS,
        "code.py": b"never",
    }
    ended = pull(hub, tmp_path, "hf:owner/repo")
    assert sorted(os.listdir(ended.said)) == [
        "LICENSE", "config.json", "halfline.json", "model.safetensors", "tokenizer.json",
    ]  # fmt: skip


def test_a_connection_that_breaks_is_taken_up_where_it_broke(hub: Hub, tmp_path: Path) -> None:
    # The client writes 10 MiB at a time.
    hub.files["weights.gguf"] = weights = os.urandom(16 << 20)
    hub.dies_after_bytes = 12 << 20
    ended = pull(hub, tmp_path, "hf:owner/repo")
    assert Path(ended.said).read_bytes() == weights
    assert hub.ranges == [None, f"bytes={10 << 20}-", None]  # the last one is the licence


def test_a_pull_that_failed_half_way_is_invisible_and_the_next_one_works(hub: Hub, tmp_path: Path) -> None:
    hub.files["weights.gguf"] = weights = os.urandom(16 << 20)
    hub.dies_after_bytes, hub.stays_dead = 12 << 20, True
    ended = pull(hub, tmp_path, "hf:owner/repo")
    assert ended.code == 2
    assert "pull it again" in ended.complained
    assert ModelStore(tmp_path).path_of("hf:owner/repo") is None

    hub.dies_after_bytes = None
    ended = pull(hub, tmp_path, "hf:owner/repo")
    assert Path(ended.said).read_bytes() == weights
    assert os.listdir(tmp_path / "models" / ".incoming") == ["hf--owner--repo.lock"]


def test_a_private_repository_speaks_of_tokens_and_opens_with_one(hub: Hub, tmp_path: Path) -> None:
    hub.private = True
    ended = pull(hub, tmp_path, "hf:owner/repo")
    assert ended.code == 2
    assert "set HF_TOKEN or run `hf auth login`" in ended.complained
    assert pull(hub, tmp_path, "hf:owner/repo", HF_TOKEN=TOKEN).code == 0


def test_a_missing_repository_is_one_sentence(hub: Hub, tmp_path: Path) -> None:
    ended = pull(hub, tmp_path, "hf:owner/other")
    assert ended.code == 2
    assert "no model 'hf:owner/other': the hub has no such repository" in ended.complained
    assert "Traceback" not in ended.complained


def test_weights_that_are_not_what_the_hub_announced_are_refused(hub: Hub, tmp_path: Path) -> None:
    hub.announced["weights.gguf"] = "0" * 64
    ended = pull(hub, tmp_path, "hf:owner/repo")
    assert ended.code == 2
    assert f"the hub says {'0' * 64}; pull it again" in ended.complained
    assert ModelStore(tmp_path).path_of("hf:owner/repo") is None


def test_offline_is_obeyed_in_both_spellings(hub: Hub, tmp_path: Path) -> None:
    ended = pull(hub, tmp_path, "hf:owner/repo", "--offline")
    assert (ended.code, "forbidden with --offline" in ended.complained) == (2, True)
    ended = pull(hub, tmp_path, "hf:owner/repo", HF_HUB_OFFLINE="1")
    assert (ended.code, "HF_HUB_OFFLINE is set" in ended.complained) == (2, True)
    assert hub.downloads == []


def test_nobody_listening_is_a_failed_download(hub: Hub, tmp_path: Path) -> None:
    ended = pull(hub, tmp_path, "hf:owner/repo", HF_ENDPOINT="http://127.0.0.1:9")
    assert ended.code == 2
    assert "hf:owner/repo could not be fetched" in ended.complained


def test_a_base_install_is_told_which_extra_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(DownloadFailed, match=r"pip install -e '\.\[hub\]'"):
        pull_from_hub(ModelStore(tmp_path), "hf:owner/repo", lambda *progress: None)


def test_a_name_that_no_repository_can_have_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound):
        pull_from_hub(ModelStore(tmp_path), "hf:owner", lambda *progress: None)
