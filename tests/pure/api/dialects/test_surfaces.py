"""What other servers' clients look for in a reply is there, and what they send as a matter of course is taken."""

from typing import Any

import pytest

pytestmark = pytest.mark.anyio

PACE = ("n", "ms", "per_token_ms", "per_second")
TIMINGS = ("cache_n", *(f"{of}_{name}" for of in ("prompt", "predicted") for name in PACE))
LLAMA = (
    "content tokens stop model prompt generation_settings stop_type stopping_word tokens_cached tokens_evaluated"
    f" truncated completion_probabilities.0.logprob {' '.join(f'timings.{name}' for name in TIMINGS)}"
)
OLLAMA_MODEL = (
    "models.0.name models.0.model models.0.size models.0.digest models.0.details.parent_model models.0.details.format"
    " models.0.details.family models.0.details.families models.0.details.parameter_size"
    " models.0.details.quantization_level"
)
OLLAMA_COST = (
    "model created_at done done_reason total_duration load_duration prompt_eval_count prompt_eval_duration eval_count"
    " eval_duration"
)
HI = [{"role": "user", "content": "hi"}]

SURFACES: list[tuple[str, dict[str, Any] | None, str]] = [
    ("/v1/models", None, "data.0.id data.0.max_model_len"),
    (
        "/v1/completions",
        {"prompt": "x"},
        "id object created model system_fingerprint choices.0.index choices.0.text choices.0.logprobs"
        " choices.0.finish_reason usage.prompt_tokens usage.completion_tokens usage.total_tokens"
        " usage.prompt_tokens_details.cached_tokens",
    ),
    (
        "/v1/embeddings",
        {"input": "x"},
        "model data.0.embedding data.0.index usage.prompt_tokens usage.total_tokens",
    ),
    ("/health", None, "status"),
    (
        "/props",
        None,
        "default_generation_settings.n_ctx default_generation_settings.params total_slots model_path chat_template"
        " build_info is_sleeping",
    ),
    (
        "/slots",
        None,
        "0.id 0.id_task 0.n_ctx 0.is_processing 0.params 0.next_token.n_remain 0.next_token.n_decoded",
    ),
    ("/tokenize", {"content": "x", "with_pieces": True}, "tokens.0.id tokens.0.piece"),
    ("/completion", {"prompt": "x", "n_probs": 1}, LLAMA),
    ("/infill", {"input_prefix": "x", "input_suffix": "", "n_probs": 1, "response_fields": []}, LLAMA),
    (
        "/v1/health",
        None,
        "status model chat_model device cuda_devices models.completion.local.model_id models.completion.local.device"
        " arch cpu_info cpu_count version.build_date version.build_timestamp version.git_sha version.git_describe"
        " webserver",
    ),
    ("/v1beta/server_setting", None, "disable_client_side_telemetry"),
    ("/api/tags", None, f"{OLLAMA_MODEL} models.0.modified_at"),
    ("/api/ps", None, f"{OLLAMA_MODEL} models.0.expires_at models.0.size_vram"),
    ("/api/version", None, "version"),
    ("/api/show", {"name": "any"}, "parameters template capabilities details.family model_info"),
    ("/api/generate", {"prompt": "x", "stream": False}, f"response context {OLLAMA_COST}"),
    ("/api/chat", {"messages": HI, "stream": False}, f"message.role message.content {OLLAMA_COST}"),
]


@pytest.mark.parametrize(("path", "body", "names"), SURFACES, ids=[path for path, _, _ in SURFACES])
async def test_a_reply_has_every_field_that_its_clients_know(
    on_stage, path: str, body: dict[str, Any] | None, names: str
) -> None:
    async with on_stage() as stage:
        stage.pipeline.most_tokens = 2
        reply = await (stage.client.get(path) if body is None else stage.client.post(path, json=body))
    for name in names.split():
        found = reply.json()
        for key in name.split("."):
            found = found[int(key) if key.isdigit() else key]


# As llama-server's own page and its clients send them: every option at the value that asks for nothing.
LLAMA_S_OWN = {
    "n_predict": 2, "n_indent": 0, "n_keep": 0, "n_cmpl": 1, "n_cache_reuse": 0, "stream": False, "stop": [],
    "temperature": 0.8, "dynatemp_range": 0, "dynatemp_exponent": 1, "top_k": 40, "top_p": 0.95, "min_p": 0.05,
    "typical_p": 1, "repeat_last_n": 64, "repeat_penalty": 1, "presence_penalty": 0, "frequency_penalty": 0,
    "dry_multiplier": 0, "dry_base": 1.75, "dry_allowed_length": 2, "dry_penalty_last_n": -1, "xtc_probability": 0,
    "xtc_threshold": 0.1, "mirostat": 0, "mirostat_tau": 5, "mirostat_eta": 0.1, "grammar": "", "json_schema": {},
    "seed": -1, "ignore_eos": False, "logit_bias": [], "n_probs": 0, "min_keep": 0, "t_max_predict_ms": 0,
    "id_slot": -1, "cache_prompt": True, "return_tokens": False, "samplers": "edkypmxt", "timings_per_token": False,
    "return_progress": False, "sse_ping_interval": 30, "post_sampling_probs": False, "lora": [],
}  # fmt: skip

# And vLLM's.
VLLM_S_OWN = {
    "max_tokens": 2, "top_k": -1, "min_p": 0, "repetition_penalty": 1, "stop_token_ids": [], "min_tokens": 0,
    "ignore_eos": False, "truncate_prompt_tokens": None, "prompt_logprobs": None, "request_id": "r", "session_id": "s",
    "return_token_ids": False, "cache_salt": None, "repetition_detection": None, "length_penalty": 1.0,
    "use_beam_search": False, "skip_special_tokens": True, "add_special_tokens": True, "best_of": 1, "n": 1,
    "echo": False, "logprobs": None, "logit_bias": None, "user": "u", "stream_options": None, "response_format": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/completion", {"prompt": "x", **LLAMA_S_OWN}),
        ("/infill", {"input_prefix": "x", "input_suffix": "", **LLAMA_S_OWN}),
        ("/v1/chat/completions", {"messages": HI, **LLAMA_S_OWN, "max_tokens": -1, "logit_bias": {}}),
        ("/v1/completions", {"prompt": "x", **VLLM_S_OWN}),
        ("/v1/chat/completions", {"messages": HI, **VLLM_S_OWN, "logprobs": False}),
    ],
)
async def test_options_that_ask_for_nothing_are_taken(on_stage, path: str, body: dict[str, Any]) -> None:
    async with on_stage() as stage:
        reply = await stage.client.post(path, json=body)
    assert reply.status_code == 200, reply.text


async def test_llama_server_s_options_mean_the_same_in_its_chats(on_stage) -> None:
    filters = {"top_k": 7, "min_p": 0.1, "top_p": 0.5, "presence_penalty": 1.0, "temperature": 0.1}
    async with on_stage() as stage:
        for body in (
            {"samplers": ["min_p", "temperature"], "max_tokens": 2},
            {"samplers": "kpe", "max_completion_tokens": 3},
            {"samplers": [], "n_predict": 0},
            {"max_tokens": -1, "n_predict": 4},
        ):
            reply = await stage.client.post("/v1/chat/completions", json={"messages": HI, **filters, **body})
            assert reply.status_code == 200, reply.text
        requests = stage.pipeline.requests
    params = [(p.top_k, p.min_p, p.top_p, p.presence_penalty) for p in (each.params for each in requests)]
    assert params == [(0, 0.1, 1.0, 0.0), (7, 0.0, 0.5, 1.0), (7, 0.1, 0.5, 1.0), (7, 0.1, 0.5, 1.0)]
    assert [each.max_tokens for each in requests] == [2, 3, 0, 4]
    assert [each.priority for each in requests] == ["interactive", "interactive", "idle", "interactive"]


async def test_ollama_s_options_are_read_on_openai_s_path_too_where_twinny_sends_them(on_stage) -> None:
    options = {"num_predict": 16, "temperature": 0.2, "stop": ["<EOT>"]}
    async with on_stage() as stage:
        await stage.complete(prompt="a", options=options, keep_alive="5m")
        await stage.complete(prompt="a", options=options, max_tokens=3, temperature=0.0, stop="x")
        await stage.complete(prompt="a", options={"num_predict": -1})
        requests = stage.pipeline.requests
    got = [(each.max_tokens, each.params.temperature, each.params.stop) for each in requests]
    assert got == [(16, 0.2, ("<EOT>",)), (3, 0.0, ("x",)), (128, 0.0, ())]
