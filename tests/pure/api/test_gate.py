"""Who is let in, as what, and what the others are told in each dialect's words."""

import asyncio
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Message, Receive, Scope, Send

from halfline.api.admission import Admission
from halfline.api.failures import failure_response
from halfline.api.gate import Gate
from halfline.api.keys.key import id_of, new_key
from halfline.api.keys.key_file import FILE_NAME, add_key
from halfline.api.keys.key_ring import KeyRing
from halfline.api.options import ApiOptions

OPENAI = {"prompt": "def f", "max_tokens": 3}


def made(tmp_path: Path, **options: object) -> str:
    """What the holder of a new key sends."""
    key, sent = new_key(1e9, **options)
    add_key(tmp_path / FILE_NAME, key)
    return sent


def ring(tmp_path: Path) -> KeyRing:
    return KeyRing(tmp_path / FILE_NAME)


def bearer(sent: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {sent}"}


@pytest.mark.parametrize("header", ["Authorization", "x-api-key", "api-key"])
@pytest.mark.anyio
async def test_a_key_is_read_from_wherever_clients_put_it(on_stage, tmp_path: Path, header: str) -> None:
    sent = made(tmp_path)
    value = f"bearer {sent}" if header == "Authorization" else sent
    async with on_stage(keys=ring(tmp_path)) as stage:
        assert (await stage.client.get("/v1/models", headers={header: value})).status_code == 200
        wrong = {header: value[:-1] + ("0" if value[-1] != "0" else "1")}
        assert (await stage.client.get("/v1/models", headers=wrong)).status_code == 401
        empty_bearer = {"Authorization": "Bearer ", header: value}
        assert (await stage.client.get("/v1/models", headers=empty_bearer)).status_code == 200


@pytest.mark.parametrize("name", ["Authorization", "x-api-key", "api-key"])
@pytest.mark.anyio
async def test_two_keys_in_one_header_are_none_unless_they_are_the_same(
    on_stage, tmp_path: Path, name: str
) -> None:
    ours, other = (
        (name, f"Bearer {sent}" if name == "Authorization" else sent)
        for sent in (made(tmp_path), made(tmp_path))
    )
    async with on_stage(keys=ring(tmp_path)) as stage:
        for headers, status in (([ours, other], 401), ([ours, (name, "")], 401), ([ours, ours], 200)):
            reply = await stage.client.get("/v1/models", headers=headers)
            assert reply.status_code == status


@pytest.mark.parametrize("authorization", ["Bearer ", "Bearer", "Bearer anything", "Basic eDp5", ""])
@pytest.mark.anyio
async def test_where_there_are_no_keys_any_and_none_will_do(on_stage, authorization: str) -> None:
    async with on_stage() as stage:
        headers = {"Authorization": authorization}
        reply = await stage.client.post("/v1/completions", json=OPENAI, headers=headers)
        assert reply.status_code == 200


@pytest.mark.parametrize("authorization", ["Bearer ", "Bearer", "Bearer sk-1", "Basic eDp5", ""])
@pytest.mark.anyio
async def test_where_there_are_keys_nothing_else_will_do(
    on_stage, tmp_path: Path, authorization: str
) -> None:
    made(tmp_path)
    async with on_stage(keys=ring(tmp_path)) as stage:
        headers = {"Authorization": authorization}
        reply = await stage.client.post("/v1/completions", json=OPENAI, headers=headers)
        assert reply.status_code == 401
        assert reply.headers["www-authenticate"] == "Bearer"
        assert stage.pipeline.requests == []


@pytest.mark.anyio
async def test_required_keys_are_required_before_there_is_one(on_stage) -> None:
    async with on_stage(ApiOptions(require_keys=True)) as stage:
        assert (await stage.complete(**OPENAI)).status_code == 401
        assert (await stage.client.get("/health")).status_code == 200


@pytest.mark.anyio
async def test_every_route_but_health_wants_a_key(on_stage, tmp_path: Path) -> None:
    made(tmp_path)
    async with on_stage(keys=ring(tmp_path)) as stage:
        open_to_all = set()
        for path, methods in stage.app.openapi()["paths"].items():
            for method in methods:
                reply = await stage.client.request(method, path.replace("{", "").replace("}", ""))
                if reply.status_code != 401:
                    open_to_all.add(f"{method} {path}")
        assert open_to_all == {"get /health", "get /v1/health"}
        for path in ("/openapi.json", "/nowhere", "//health", "/health/", "/v1/health/../models"):
            assert (await stage.client.get(f"http://localhost{path}")).status_code == 401, path
        assert (await stage.client.get("/")).status_code == 200


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("/v1/completions", {"type": "authentication_error", "param": None, "code": "invalid_api_key"}),
        ("/v1/chat/completions", {"type": "authentication_error", "param": None, "code": "invalid_api_key"}),
        ("/v1/fim/completions", {"type": "authentication_error", "param": None, "code": "invalid_api_key"}),
        (
            "/v1/engines/x/completions",
            {"type": "authentication_error", "param": None, "code": "invalid_api_key"},
        ),
        ("/infill", {"code": 401, "type": "authentication_error"}),
        ("/slots/3", {"code": 401, "type": "authentication_error"}),
        ("/api/generate", None),
        ("/api/embed", None),
    ],
)
@pytest.mark.anyio
async def test_a_refusal_has_the_shape_of_the_route_s_other_errors(
    on_stage, tmp_path: Path, path: str, error: dict[str, object] | None
) -> None:
    made(tmp_path)
    async with on_stage(keys=ring(tmp_path)) as stage:
        reply = await stage.client.post(path, json={})
    assert reply.status_code == 401
    told = reply.json()["error"]
    if error is None:
        assert "wants an API key" in told
    else:
        assert "wants an API key" in told.pop("message")
        assert told == error


@pytest.mark.anyio
async def test_metrics_are_for_admins_who_may_do_all_the_rest_too(on_stage, tmp_path: Path) -> None:
    completes, admin = made(tmp_path), made(tmp_path, scope="admin")
    async with on_stage(keys=ring(tmp_path)) as stage:
        refused = await stage.client.get("/metrics", headers=bearer(completes))
        assert refused.status_code == 403
        assert refused.json()["error"]["type"] == "permission_error"
        assert (await stage.client.get("/metrics", headers=bearer(admin))).status_code == 200
        reply = await stage.client.post("/v1/completions", json=OPENAI, headers=bearer(admin))
        assert reply.status_code == 200


@pytest.mark.parametrize(
    ("host", "status"), [("127.0.0.1", 200), ("::1", 200), ("192.0.2.7", 403), ("a proxy's word", 403)]
)
@pytest.mark.anyio
async def test_without_keys_metrics_are_told_on_this_machine_only(on_stage, host: str, status: int) -> None:
    async with on_stage() as stage:
        transport = httpx.ASGITransport(stage.app, client=(host, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://halfline") as client:
            assert (await client.get("/metrics")).status_code == status
            assert (await client.get("/v1/models")).status_code == 200


@pytest.mark.anyio
async def test_who_asks_too_often_is_told_when_to_come_back_and_may_still_cancel(
    on_stage, tmp_path: Path
) -> None:
    sent, other = made(tmp_path, per_minute=2), made(tmp_path)
    async with on_stage(keys=ring(tmp_path)) as stage:

        async def ask(path: str, key: str) -> httpx.Response:
            return await stage.client.post(path, json=OPENAI, headers=bearer(key))

        assert [(await ask("/v1/completions", sent)).status_code for _ in range(3)] == [200, 200, 429]
        refused = await ask("/infill", sent)
        assert refused.status_code == 429 and 1 <= int(refused.headers["retry-after"]) <= 30
        assert (await ask("/v1/completions/cmpl-1/cancel", sent)).status_code == 404
        assert (await ask("/v1/completions", other)).status_code == 200


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.anyio
async def test_a_place_is_taken_until_the_answer_has_ended(on_stage, tmp_path: Path, stream: bool) -> None:
    sent = made(tmp_path, at_once=1)
    async with on_stage(keys=ring(tmp_path)) as stage:

        def ask() -> asyncio.Task[httpx.Response]:
            body = {**OPENAI, "stream": stream}
            return asyncio.create_task(stage.client.post("/v1/completions", json=body, headers=bearer(sent)))

        stage.pipeline.gate = asyncio.Event()
        first = ask()
        while not stage.pipeline.requests:
            await asyncio.sleep(0)
        refused = await ask()
        assert refused.status_code == 429 and refused.headers["retry-after"] == "1"
        assert (await stage.client.get("/v1/models", headers=bearer(sent))).status_code == 200
        stage.pipeline.gate.set()
        assert (await first).status_code == 200
        assert (await ask()).status_code == 200


@pytest.mark.anyio
async def test_a_request_that_got_no_place_costs_nothing_of_the_minute(on_stage, tmp_path: Path) -> None:
    sent = made(tmp_path, at_once=1, per_minute=2)
    async with on_stage(keys=ring(tmp_path)) as stage:

        def ask() -> asyncio.Task[httpx.Response]:
            return asyncio.create_task(
                stage.client.post("/v1/completions", json=OPENAI, headers=bearer(sent))
            )

        stage.pipeline.gate = asyncio.Event()
        first = ask()
        while not stage.pipeline.requests:
            await asyncio.sleep(0)
        assert [(await ask()).status_code for _ in range(3)] == [429] * 3
        stage.pipeline.gate.set()
        assert (await first).status_code == 200
        assert (await ask()).status_code == 200
        refused = [await ask() for _ in range(2)]
        assert ["times a minute" in each.text for each in refused] == [True, True], "and each left its place"


@pytest.mark.anyio
async def test_a_refusal_is_counted_for_the_route_it_was_refused_at(on_stage, tmp_path: Path) -> None:
    admin = made(tmp_path, scope="admin")
    async with on_stage(keys=ring(tmp_path)) as stage:
        for path in ("/v1/completions", "/v1/completions/x/cancel", "/nowhere"):
            assert (await stage.client.post(path, json=OPENAI)).status_code == 401
        told = (await stage.client.get("/metrics", headers=bearer(admin))).text
    for route in ("/v1/completions", "/v1/completions/{completion_id}/cancel", "other"):
        assert f'halfline_requests_total{{route="{route}",status="401"}} 1.0' in told


@pytest.mark.anyio
async def test_a_place_is_free_again_when_the_answer_fails(on_stage, tmp_path: Path) -> None:
    sent = made(tmp_path, at_once=1)
    async with on_stage(keys=ring(tmp_path)) as stage:
        for _ in range(3):
            reply = await stage.client.post("/v1/completions", content=b"{", headers=bearer(sent))
            assert reply.status_code == 400
        stage.pipeline.refusal = RuntimeError("ours")
        for _ in range(3):
            reply = await stage.client.post("/v1/completions", json=OPENAI, headers=bearer(sent))
            assert reply.status_code == 500


@pytest.mark.anyio
async def test_requests_of_every_dialect_are_their_key_s_tenant_s(on_stage, tmp_path: Path) -> None:
    sent = made(tmp_path, tenant="team")
    bodies = {
        "/v1/completions": OPENAI,
        "/v1/chat/completions": {"messages": [{"role": "user", "content": "x"}], "max_tokens": 2},
        "/v1/fim/completions": {"prompt": "x", "max_tokens": 2},
        "/v1/engines/x/completions": {"prompt": "x", "suffix": "", "max_tokens": 2},
        "/infill": {"input_prefix": "x", "input_suffix": "", "n_predict": 2},
        "/completion": {"prompt": "x", "n_predict": 2},
        "/api/generate": {"prompt": "x", "stream": False, "options": {"num_predict": 2}},
        "/api/chat": {
            "messages": [{"role": "user", "content": "x"}],
            "stream": False,
            "options": {"num_predict": 2},
        },
    }
    async with on_stage(keys=ring(tmp_path)) as stage:
        for path, body in bodies.items():
            reply = await stage.client.post(path, json=body, headers=bearer(sent))
            assert reply.status_code == 200, (path, reply.text)
        tabby = {"segments": {"prefix": "x"}, "language": "python"}
        assert (
            await stage.client.post("/v1/completions", json=tabby, headers=bearer(sent))
        ).status_code == 200
    assert [request.tenant for request in stage.pipeline.requests] == ["team"] * (len(bodies) + 1)


@pytest.mark.anyio
async def test_two_keys_of_a_tenant_take_turns_and_never_supersede_each_other(
    on_stage, tmp_path: Path
) -> None:
    """Though user and path are the same, or the name of the cursor: those are each key's own words."""
    ann, bob = made(tmp_path, tenant="team"), made(tmp_path, tenant="team")
    by_path = {"prompt": "x", "max_tokens": 1, "user": "me", "metadata": {"path": "a.py"}}
    by_name = {"input_prefix": "x", "input_suffix": "", "n_predict": 2}
    async with on_stage(keys=ring(tmp_path)) as stage:
        for path, body in (("/v1/completions", by_path), ("/infill", by_name)):
            for sent in (ann, bob, ann):
                headers = {**bearer(sent), "X-Halfline-Cursor": "vim"}
                assert (await stage.client.post(path, json=body, headers=headers)).status_code == 200
    asked = stage.pipeline.requests
    assert [request.key for request in asked] == [id_of(ann), id_of(bob), id_of(ann)] * 2
    for anns, bobs, anns_too in (asked[:3], asked[3:]):
        assert None is not anns.identity == anns_too.identity != bobs.identity


@pytest.mark.anyio
async def test_a_receipt_is_shown_to_its_own_tenant_only(on_stage, tmp_path: Path) -> None:
    ann, ann_too, bob = made(tmp_path, tenant="a"), made(tmp_path, tenant="a"), made(tmp_path, tenant="b")
    async with on_stage(keys=ring(tmp_path)) as stage:
        reply = await stage.client.post("/v1/completions", json=OPENAI, headers=bearer(ann))
        path = f"/v1/completions/{reply.json()['id']}/why"
        statuses = {
            sent: (await stage.client.get(path, headers=bearer(sent))).status_code
            for sent in (ann, ann_too, bob)
        }
        unknown = await stage.client.get("/v1/completions/cmpl-none/why", headers=bearer(bob))
        others = await stage.client.get(path, headers=bearer(bob))
    assert list(statuses.values()) == [200, 200, 404]
    assert others.json()["error"]["code"] == unknown.json()["error"]["code"]


@pytest.mark.anyio
async def test_nobody_cancels_another_tenant_s_request_by_either_of_its_names(
    on_stage, tmp_path: Path
) -> None:
    ann, bob = made(tmp_path), made(tmp_path)
    async with on_stage(keys=ring(tmp_path)) as stage:
        stage.pipeline.gate = asyncio.Event()
        headers = {**bearer(ann), "X-Request-Id": "mine"}
        running = asyncio.create_task(stage.client.post("/v1/completions", json=OPENAI, headers=headers))
        while not stage.pipeline.requests:
            await asyncio.sleep(0)
        for name in ("mine", stage.pipeline.requests[0].id):
            path = f"/v1/completions/{name}/cancel"
            assert (await stage.client.post(path, headers=bearer(bob))).status_code == 404
        assert stage.pipeline.called_off == []
        assert (
            await stage.client.post("/v1/completions/mine/cancel", headers=bearer(ann))
        ).status_code == 200
        stage.pipeline.gate.set()
        await running


@pytest.mark.anyio
async def test_what_became_of_answers_is_told_to_their_own_tenant(on_stage, tmp_path: Path) -> None:
    ann, bob = made(tmp_path), made(tmp_path)
    async with on_stage(keys=ring(tmp_path)) as stage:
        body = {"prompt": "x", "max_tokens": 1}
        answer = await stage.client.post("/v1/completions", json=body, headers=bearer(ann))
        event = {"completion_id": answer.json()["id"], "kind": "shown"}
        for sent in (ann, bob):
            await stage.client.post("/v1/events", json=event, headers=bearer(sent))
        told = [
            (await stage.client.get("/v1/events", headers=bearer(sent))).json()["shown"]
            for sent in (ann, bob)
        ]
    assert told == [1, 0]


@given(
    st.lists(
        st.tuples(
            st.sampled_from([b"authorization", b"x-api-key", b"api-key", b"x-forwarded-for", b"host"]),
            st.binary(max_size=120) | st.from_regex(rb"Bearer hl_[0-9a-f]{12}_[0-9a-f]{64}", fullmatch=True),
        ),
        max_size=4,
    ),
    st.sampled_from(
        ["/v1/models", "/metrics", "/infill", "/api/tags", "/health/", "/v1/completions/x/cancel"]
    ),
)
def test_no_headers_but_a_key_s_open_anything(headers: list[tuple[bytes, bytes]], path: str) -> None:
    async def never(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError("it was let in")

    statuses = []

    async def send(message: Message) -> None:
        statuses.append(message.get("status"))

    gate = Gate(never, Admission(KeyRing(None, required=True)), lambda scope, error: failure_response(error))
    scope = {"type": "http", "method": "POST", "path": path, "headers": headers, "client": ("127.0.0.1", 1)}
    asyncio.run(gate(scope, never, send))
    assert statuses[0] == 401
