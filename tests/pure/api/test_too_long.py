"""A text that cannot fit is refused before it is encoded, in every dialect: others wait behind it."""

import pytest

from halfline.text.tokenizer import Tokenizer

pytestmark = pytest.mark.anyio

FAR_TOO_LONG = "x1_ " * 50_000
CHAT = [{"role": "user", "content": FAR_TOO_LONG}]


@pytest.fixture(autouse=True)
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Lengths of texts that were encoded."""
    lengths: list[int] = []
    encode = Tokenizer.encode

    def noted(self: Tokenizer, text: str, **how: bool) -> list[int]:
        lengths.append(len(text))
        return encode(self, text, **how)

    monkeypatch.setattr(Tokenizer, "encode", noted)
    return lengths


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": CHAT}),
        ("/api/chat", {"model": "any", "messages": CHAT}),
        ("/api/generate", {"model": "any", "prompt": FAR_TOO_LONG}),
        ("/api/generate", {"model": "any", "prompt": FAR_TOO_LONG, "raw": True}),
        ("/completion", {"prompt": FAR_TOO_LONG}),
        ("/completion", {"prompt": [5, FAR_TOO_LONG]}),
        ("/completion", {"prompt": ["a", 1] * 10_000, "n_predict": 0}),
    ],
)
async def test_what_is_sure_to_be_too_long_is_refused_unencoded(on_stage, encoded, path, body) -> None:
    async with on_stage() as stage:
        encoded.clear()
        reply = await stage.client.post(path, json=body)
    assert reply.status_code == 400
    assert "the prompt has at least" in reply.text and "may have at most 512; shorten it" in reply.text
    assert sum(encoded) == 0


async def test_too_many_prompts_and_biases_are_refused_before_they_are_encoded(on_stage, encoded) -> None:
    async with on_stage() as stage:
        encoded.clear()
        prompts = await stage.client.post("/completion", json={"prompt": ["", "a"] * 50_000})
        assert encoded == []
        body = {"prompt": "x", "logit_bias": [["y" * 1000, 1.0]] * 4000}
        biases = await stage.client.post("/completion", json=body)
    assert (prompts.status_code, "100000 entries" in prompts.text) == (400, True)
    assert (biases.status_code, "names more than 4096 tokens" in biases.text) == (400, True)
    assert sum(encoded) < 10_000
