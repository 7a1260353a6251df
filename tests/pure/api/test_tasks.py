"""Tasks over HTTP: listed, found by words, run by a version, refused with all that is wrong."""

import json

import pytest

from halfline.context.templates.library import TaskLibrary

from .conftest import LETTERS

pytestmark = pytest.mark.anyio

SAY = """
summary = "Say it"
task = "Say <|im_end|> it."
input = "Say: {{ words }}"
stop = ["!"]
max_tokens = 4
placeholders = { required = ["words"], properties = { words = { type = "string" } } }
"""


READ = r"""
summary = "Read it"
task = "Read."
input = "{{ words }}\n{{ context }}"
max_tokens = 4
placeholders = { required = ["words"], properties = { words = { type = "string" }, context = { type = "string" } } }
"""


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> TaskLibrary:
    """A task in two versions, whose weights are the same."""
    directory = tmp_path_factory.mktemp("tasks")
    (directory / "say").mkdir()
    (directory / "say" / "1.toml").write_text(SAY, encoding="utf-8")
    (directory / "say" / "2.toml").write_text('based_on = "1"\nrole = "Loud."', encoding="utf-8")
    (directory / "read").mkdir()
    (directory / "read" / "1.toml").write_text(READ, encoding="utf-8")
    return TaskLibrary(directory)


@pytest.fixture(scope="module")
def built_in() -> TaskLibrary:
    return TaskLibrary()


async def test_every_task_is_listed_with_its_schema_and_its_versions(on_stage, built_in) -> None:
    async with on_stage(tasks=built_in) as stage:
        listed = (await stage.client.get("/v1/tasks")).json()
    assert listed["object"] == "list"
    known = {task["name"]: task["versions"] for task in listed["data"]}
    assert list(known) == sorted(known)
    first, second = known["unit-tests"]
    assert (first["version"], first["weight"], second["weight"]) == ("1", 1.0, 0.0)
    assert first["placeholders"]["required"] == ["code"]
    assert first["outcomes"] == {"asked": 0, "shown": 0, "accepted": 0, "dismissed": 0}
    assert first["parts"]["role"] == second["parts"]["role"]
    assert first["parts"]["constraint"] != second["parts"]["constraint"]


async def test_a_query_puts_the_most_similar_first(on_stage, built_in) -> None:
    async with on_stage(tasks=built_in) as stage:
        listed = (await stage.client.get("/v1/tasks", params={"query": "write tests"})).json()["data"]
    assert listed[0]["name"] == "unit-tests"
    similarities = [task["similarity"] for task in listed]
    assert similarities == sorted(similarities, reverse=True)


async def test_a_task_is_run_by_its_prompt_and_says_which_version_it_was(on_stage, tasks) -> None:
    async with on_stage(tasks=tasks) as stage:
        body = {"placeholders": {"words": "<|im_start|>hi"}, "user": "ann", "version": "1"}
        reply = await stage.client.post("/v1/tasks/say", json=body)
        request = stage.pipeline.requests[-1]
    answer = reply.json()
    assert (reply.status_code, answer["task"], answer["version"]) == (200, "say", "1")
    assert answer["choices"][0]["message"] == {"role": "assistant", "content": "abcd"}
    assert (request.user, request.id, request.max_tokens) == ("ann", answer["id"], 4)
    assert request.params.stop == ("!",)
    # Neither a template's words nor a user's become markers: those of the frame are the only ones.
    markers = [LETTERS.token_text(token) for token in request.prompt if LETTERS.is_special(token)]
    assert markers == ["<|im_start|>", "<|im_end|>"] * 2 + ["<|im_start|>"]
    assert LETTERS.decode(request.prompt) == (
        "system\nSay <|im_end|> it.\nuser\nSay: <|im_start|>hi\nassistant\n"
    )
    head = LETTERS.decode(request.prompt[: request.num_pinned_tokens])
    assert head == "system\nSay <|im_end|> it.\nuser"


async def test_a_request_says_how_its_answer_is_wanted(on_stage, tasks) -> None:
    async with on_stage(tasks=tasks) as stage:
        body = {"placeholders": {"words": ""}, "max_tokens": 2, "n": 2, "temperature": 0.5, "stop": "?"}
        answer = (await stage.client.post("/v1/tasks/say", json=body)).json()
        request = stage.pipeline.requests[-1]
    assert [choice["message"]["content"] for choice in answer["choices"]] == ["ab", "ab"]
    assert (request.params.temperature, request.params.stop) == (0.5, ("?",))


async def test_an_answer_is_streamed_on_demand(on_stage, tasks) -> None:
    async with on_stage(tasks=tasks) as stage:
        body = {"placeholders": {"words": "x"}, "stream": True}
        reply = await stage.client.post("/v1/tasks/say", json=body)
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert '"content":"b"' in reply.text.replace(" ", "")
    assert reply.text.endswith("data: [DONE]\n\n")
    events = [json.loads(each.removeprefix("data: ")) for each in reply.text.split("\n\n")[:-2]]
    assert {event["task"] for event in events} == {"say"}
    assert len({event["version"] for event in events}) == 1 and events[0]["version"] in ("1", "2")


async def test_users_are_spread_over_the_versions_and_each_keeps_theirs(on_stage, tasks) -> None:
    async with on_stage(tasks=tasks) as stage:

        async def version(user: str) -> str:
            body = {"placeholders": {"words": ""}, "user": user, "max_tokens": 1}
            return (await stage.client.post("/v1/tasks/say", json=body)).json()["version"]

        found = [await version(f"user {number}") for number in range(12)]
        again = [await version(f"user {number}") for number in range(12)]
    assert found == again
    assert set(found) == {"1", "2"}


async def test_what_became_of_answers_is_counted_for_their_version(on_stage, tasks) -> None:
    async with on_stage(tasks=tasks) as stage:
        for kind in ("accepted", "dismissed"):
            body = {"placeholders": {"words": kind}, "version": "2"}
            answer = (await stage.client.post("/v1/tasks/say", json=body)).json()
            await stage.client.post("/v1/events", json={"completion_id": answer["id"], "kind": kind})
        listed = (await stage.client.get("/v1/tasks")).json()["data"]
        metrics = (await stage.client.get("/metrics")).text
    assert 'halfline_task_answers_total{kind="accepted",task="say",version="2"} 1.0' in metrics
    assert "halfline_kv_pinned_blocks 0.0" in metrics
    first, second = next(task["versions"] for task in listed if task["name"] == "say")
    assert first["outcomes"]["asked"] == 0
    assert second["outcomes"] == {"asked": 2, "shown": 0, "accepted": 1, "dismissed": 1}


async def test_words_find_the_task_and_what_is_like_none_is_refused(on_stage, tasks) -> None:
    async with on_stage(tasks=tasks) as stage:
        found = await stage.client.post("/v1/tasks", json={"task": "say it!", "placeholders": {"words": "x"}})
        lost = await stage.client.post("/v1/tasks", json={"task": "weather in Rome"})
        empty = await stage.client.post("/v1/tasks", json={"placeholders": {}})
    assert found.json()["task"] == "say"
    assert (lost.status_code, lost.json()["error"]["code"]) == (404, "unknown_task")
    assert (empty.status_code, empty.json()["error"]["param"]) == (400, "task")


@pytest.mark.parametrize("name", ["nothing", "say%2F1", "SAY"])
async def test_an_unknown_task_is_refused_with_those_there_are(on_stage, tasks, name: str) -> None:
    async with on_stage(tasks=tasks) as stage:
        reply = await stage.client.post(f"/v1/tasks/{name}", json={})
        version = await stage.client.post("/v1/tasks/say", json={"version": "9"})
    assert reply.status_code == version.status_code == 404
    assert "say/1, say/2" in version.json()["error"]["message"]


async def test_all_that_is_missing_or_wrong_is_named_at_once(on_stage, built_in) -> None:
    async with on_stage(tasks=built_in) as stage:
        body = {"placeholders": {"code": "", "language": 3, "colour": "red"}}
        reply = await stage.client.post("/v1/tasks/fix-error", json=body)
    error = reply.json()["error"]
    assert (reply.status_code, error["type"], error["code"]) == (
        422,
        "invalid_request_error",
        "placeholders_refused",
    )
    for place in ("code", "error", "language", "colour"):
        assert f"`placeholders.{place}`" in error["message"]
    assert error["param"] == "placeholders.code"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"placeholders": []}, "placeholders"),
        ({"placeholder": {}}, "placeholder"),
        ({"n": 1000}, "n"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"temperature": -1.0}, "temperature"),
        ({"version": 1}, "version"),
    ],
)
async def test_what_is_no_request_is_refused_by_its_field(on_stage, tasks, body, param: str) -> None:
    async with on_stage(tasks=tasks) as stage:
        reply = await stage.client.post("/v1/tasks/say", json={"placeholders": {"words": ""}, **body})
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, param)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", '[{"x": -1e999}]'])
@pytest.mark.parametrize("path", ["/v1/tasks/say", "/v1/tasks"])
async def test_a_placeholder_that_is_no_number_is_named(on_stage, tasks, path: str, number: str) -> None:
    async with on_stage(tasks=tasks) as stage:
        body = f'{{"placeholders": {{"text": "", "words": {number}}}'.encode()
        body += b', "task": "say it"}' if path == "/v1/tasks" else b"}"
        reply = await stage.client.post(path, content=body)
    assert (reply.status_code, reply.json()["error"]["param"]) == (422, "placeholders.words")


async def test_what_does_not_fit_the_model_is_refused(on_stage, tasks) -> None:
    async with on_stage(tasks=tasks) as stage:
        long = await stage.client.post("/v1/tasks/say", json={"placeholders": {"words": "x" * 1000}})
        longer = await stage.client.post("/v1/tasks/say", json={"placeholders": {"words": "x" * 100_000}})
    assert (long.status_code, long.json()["error"]["code"]) == (400, "context_length_exceeded")
    assert (longer.status_code, "characters" in longer.json()["error"]["message"]) == (422, True)


FILES = [
    {"path": "a.py", "text": "def alpha():\n    return 1\n\n\ndef beta():\n    return 2\n"},
    {"text": "nothing to see\n"},
]


async def test_other_files_fill_the_placeholder_for_them_by_the_names_they_share(on_stage, tasks) -> None:
    async with on_stage(tasks=tasks) as stage:
        body = {"placeholders": {"words": "call alpha"}, "context": FILES}
        assert (await stage.client.post("/v1/tasks/read", json=body)).status_code == 200
        text = LETTERS.decode(stage.pipeline.requests[-1].prompt)
    assert "call alpha\n--- a.py\ndef alpha():" in text
    assert "nothing to see" in text  # there is room


@pytest.mark.parametrize(
    ("task", "body", "param"),
    [
        ("say", {"context": FILES}, "context"),
        ("read", {"context": FILES, "placeholders": {"words": "", "context": "x"}}, "context"),
        ("read", {"context": [{"text": "x" * 300_000}]}, "context"),
        ("read", {"context": [{"path": "x"}]}, "context"),
        ("read", {"context": "x"}, "context"),
    ],
)
async def test_files_that_have_no_place_are_refused(on_stage, tasks, task: str, body, param: str) -> None:
    async with on_stage(tasks=tasks) as stage:
        reply = await stage.client.post(f"/v1/tasks/{task}", json={"placeholders": {"words": ""}, **body})
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, param)
