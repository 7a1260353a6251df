"""`halfline task`: templates are listed, begun and checked without a model; what is asked of a server arrives."""

import io
import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from halfline.cli.main import app
from halfline.cli.start_up import settle
from halfline.cli.task_asking import run_there
from halfline.cli.task_values import placeholders_from
from halfline.errors import BadRequest, HalflineError
from halfline.request import Part


@pytest.fixture
def task(tmp_path: Path):
    """`task("list")`: the result of one command over this test's own data directory."""
    yield lambda *arguments: CliRunner().invoke(app, ["task", *arguments, "--data-dir", str(tmp_path)])
    settle()  # a command that was to load a model is in a hurry, and the process of these tests goes on


def test_the_list_marks_what_has_to_be_given_and_is_ranked_by_words(task) -> None:
    lines = [line for line in task("list", "fix this exception").stdout.splitlines() if "│" in line]
    assert "fix-error" in lines[0]
    assert "code*, error*, language" in lines[0]


def test_a_new_template_is_begun_used_and_never_overwritten(task, tmp_path: Path) -> None:
    begun = task("new", "mine", "--like", "docstring")
    assert begun.stdout.strip() == str(tmp_path / "tasks" / "mine" / "1.toml")
    assert "mine" in task("list").stdout
    again = task("new", "mine")
    assert (again.exit_code, "is there already" in again.stderr) == (2, True)
    assert task("new", "other", "--like", "nothing").exit_code == 2


def test_check_says_what_is_wrong_with_which_template(task, tmp_path: Path) -> None:
    assert task("check").exit_code == 0
    broken = tmp_path / "tasks" / "mine" / "1.toml"
    broken.parent.mkdir(parents=True)
    broken.write_text("summary = 3", encoding="utf-8")
    checked = task("check")
    assert checked.exit_code == 2
    assert "mine/1: `summary` must be a text" in checked.stderr


def test_a_mistake_in_the_placeholders_does_not_wait_for_the_model(task) -> None:
    ran = task("run", "explain", "--set", "language=c", "--model", "no-such-model")
    assert (ran.exit_code, ran.stderr) == (2, "halfline: `placeholders.code` is missing\n")
    ran = task("run", "explain", "--version", "9", "--model", "no-such-model")
    assert "explain/9" in ran.stderr


def test_what_is_said_by_hand_wins_over_files_and_these_over_json(tmp_path: Path) -> None:
    (tmp_path / "all.json").write_text('{"a": 1, "b": "j", "c": [2]}', encoding="utf-8")
    (tmp_path / "b.txt").write_text("f=", encoding="utf-8")
    found = placeholders_from(["c=x=y"], [f"b={tmp_path / 'b.txt'}"], tmp_path / "all.json")
    assert found == {"a": 1, "b": "f=", "c": "x=y"}


@pytest.mark.parametrize(
    ("values", "files"), [(["a"], []), (["=a"], []), ([], ["a=/no/such/file"]), ([], ["a"])]
)
def test_what_is_no_placeholder_is_refused(values: list[str], files: list[str]) -> None:
    with pytest.raises(BadRequest):
        placeholders_from(values, files, None)


@pytest.mark.parametrize("text", ["[1]", "{"])
def test_a_json_file_holds_one_object(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text, encoding="utf-8")
    with pytest.raises(BadRequest, match="JSON"):
        placeholders_from([], [], tmp_path / "x.json")


class Handler(BaseHTTPRequestHandler):
    """Knows the task `say`; notes what it was sent."""

    def do_GET(self) -> None:
        costs = dict.fromkeys(("num_prompt_tokens", "num_reused_tokens", "num_generated_tokens"), 1)
        times = dict.fromkeys(("prefill_ms", "decode_ms", "total_ms"), 1.0)
        self._send(json.dumps({"data": [{"name": "say"}], **costs, **times}).encode())

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen = (self.path, body, self.headers.get("Authorization"))  # type: ignore[attr-defined]
        if body["placeholders"] == {}:
            self._send(b'{"error": {"message": "`placeholders.a` is missing"}}', 422)
            return
        chunks = [{"role": "assistant", "content": ""}, {"content": "hi"}, {}]
        events = [{"id": "task-1", "choices": [{"delta": chunk}]} for chunk in chunks]
        events.append({"id": "task-1", "choices": []})
        self._send(
            b"".join(b"data: %b\n\n" % json.dumps(each).encode() for each in events) + b"data: [DONE]\n\n"
        )

    def _send(self, body: bytes, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Tests are quiet."""


@pytest.fixture
def server():
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_server_is_asked_by_name_where_it_knows_the_name_and_by_words_else(server, capsys) -> None:
    url = f"http://127.0.0.1:{server.server_port}/v1"
    run_there(url, "say", {"a": 1}, [Part("x", "b.py")], "2", 5, "secret")
    path, body, key = server.seen
    assert (path, key) == ("/v1/tasks/say", "Bearer secret")
    assert body == {
        "placeholders": {"a": 1},
        "context": [{"path": "b.py", "text": "x"}],
        "version": "2",
        "max_tokens": 5,
        "stream": True,
    }
    assert capsys.readouterr().out == "hi"
    run_there(url, "say it", {"a": 1}, [], None, None)
    path, body, key = server.seen
    assert (path, body["task"], key) == ("/v1/tasks", "say it", None)


def test_what_a_server_refuses_is_said_in_its_words(server) -> None:
    with pytest.raises(HalflineError, match=r"the server says: `placeholders\.a` is missing"):
        run_there(f"http://127.0.0.1:{server.server_port}", "say", {}, [], None, None)
    server.server_close()
    with pytest.raises(HalflineError, match="cannot be reached"):
        run_there("http://127.0.0.1:9", "say", {}, [], None, None)


def refused(ran) -> str:
    """The one sentence."""
    assert (ran.exit_code, ran.stderr.count("\n")) == (2, 1), ran.stderr
    assert ran.stderr.startswith("halfline: ")
    return ran.stderr


@pytest.fixture(params=["here", "there"])
def run(request, task, server, monkeypatch: pytest.MonkeyPatch):
    """`run("--set", "a=b")`: a task of a server's or, as far as it goes without a model, of our own."""
    there = ["--server", f"http://127.0.0.1:{server.server_port}"] if request.param == "there" else []
    monkeypatch.setenv("HALFLINE_MODEL", "no-such-model")
    return lambda *arguments: task("run", "commit-message", *there, *arguments)


def test_bytes_that_are_no_utf_8_are_refused_in_one_sentence(run, tmp_path: Path, monkeypatch) -> None:
    latin = "diff \udce4"  # as the system gives an argument in Latin-1
    stdin = io.TextIOWrapper(io.BytesIO(b"diff \xe4\n"), encoding="utf-8", errors="surrogateescape")
    with monkeypatch.context() as patch:
        patch.setattr("halfline.cli.task_values.sys", SimpleNamespace(stdin=stdin))
        assert "standard input is not encoded in UTF-8" in refused(run("--file", "diff=-"))
    assert r"--set diff is not encoded in UTF-8: 'diff \\xe4'" in refused(run("--set", f"diff={latin}"))
    assert "is not encoded in UTF-8" in refused(run("--set", f"{latin}=x"))
    assert "--version is not encoded in UTF-8" in refused(run("--version", latin))
    (tmp_path / "latin.txt").write_bytes(b"\xe4")
    assert "utf-8" in refused(run("--file", f"diff={tmp_path / 'latin.txt'}"))
    named = tmp_path / latin
    named.write_text("x", encoding="utf-8")
    assert "the name of a file is not encoded" in refused(run("--set", "diff=x", "--context", str(named)))


def test_a_task_in_words_that_are_no_utf_8_is_refused_too(task) -> None:
    assert "the task is not encoded in UTF-8" in refused(task("run", "explain \udce4"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"diff": NaN}', "NaN is no number"),
        ('{"diff": -Infinity}', "-Infinity is no number"),
        ('{"diff": [1e400]}', "1e400 is no number"),
        (r'{"diff": "\ud800"}', "half of a character"),
        ('{"diff": ' + "9" * 5000 + "}", "no JSON"),
        ("[" * 100_000, "no JSON"),
    ],
    ids=["nan", "infinity", "1e400", "surrogate", "digits", "deep"],
)
def test_what_json_cannot_say_is_refused_in_one_sentence(run, tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "all.json").write_text(text, encoding="utf-8")
    assert reason in refused(run("--json", str(tmp_path / "all.json")))


def test_a_key_beyond_ascii_and_a_stranger_that_answers_are_told_of(server, monkeypatch) -> None:
    url = f"http://127.0.0.1:{server.server_port}"
    with pytest.raises(HalflineError, match="the API key has characters beyond ASCII"):
        run_there(url, "say", {"a": 1}, [], None, None, "gehörtmir")
    monkeypatch.setattr(Handler, "do_GET", lambda self: self._send(b"[hello]"))
    with pytest.raises(HalflineError, match="does not speak as halfline does"):
        run_there(url, "say", {"a": 1}, [], None, None)


def test_a_task_without_placeholders_is_listed(task, tmp_path: Path) -> None:
    path = tmp_path / "tasks" / "mine" / "1.toml"
    path.parent.mkdir(parents=True)
    path.write_text('summary = "x"\ntask = "Do."\ninput = "do"\nplaceholders = {}', encoding="utf-8")
    listed = task("list")
    assert (listed.exit_code, "mine" in listed.stdout) == (0, True)
