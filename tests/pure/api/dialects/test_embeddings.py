"""Embeddings as OpenAI's and Ollama's clients ask for them and read them."""

import base64

import numpy as np
import pytest

pytestmark = pytest.mark.anyio


async def asked(on_stage, path: str, **body: object):
    async with on_stage() as stage:
        return await stage.client.post(path, json=body)


@pytest.mark.parametrize(
    ("given", "lengths"), [("abc", [3]), (["a", "bb"], [1, 2]), ([5, 6], [2]), ([[5], [6, 7]], [1, 2])]
)
async def test_every_form_of_input_gives_one_vector_per_text(on_stage, given, lengths) -> None:
    reply = (await asked(on_stage, "/v1/embeddings", input=given, model="any")).json()
    assert [each["embedding"] for each in reply["data"]] == [[1.0, float(length)] for length in lengths]
    assert [each["index"] for each in reply["data"]] == list(range(len(lengths)))
    assert reply["usage"] == {"prompt_tokens": sum(lengths), "total_tokens": sum(lengths)}
    assert (reply["object"], reply["model"]) == ("list", "letters")


async def test_base64_is_little_endian_float32(on_stage) -> None:
    reply = (await asked(on_stage, "/v1/embeddings", input="abc", encoding_format="base64")).json()
    data = base64.b64decode(reply["data"][0]["embedding"])
    assert np.frombuffer(data, "<f4").tolist() == [1.0, 3.0]


async def test_ollama_s_two_routes(on_stage) -> None:
    many = (await asked(on_stage, "/api/embed", model="m", input=["a", "bb"])).json()
    one = (await asked(on_stage, "/api/embeddings", model="m", prompt="abc")).json()
    assert many["embeddings"] == [[1.0, 1.0], [1.0, 2.0]]
    assert many["prompt_eval_count"] == 3
    assert one == {"embedding": [1.0, 3.0]}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"input": []},
        {"input": [""] * 2049},
        {"input": {}},
        {"input": "x", "dimensions": 5},
        {"input": [-1]},
    ],
)
async def test_what_is_no_input_is_refused_in_the_dialect_s_words(on_stage, body) -> None:
    openai = await asked(on_stage, "/v1/embeddings", **body)
    ollama = await asked(on_stage, "/api/embed", **body)
    assert (openai.status_code, ollama.status_code) == (400, 400)
    assert openai.json()["error"]["param"] in ("input", "dimensions")
    assert isinstance(ollama.json()["error"], str)
