"""The embedded vocabulary: at no place of a document is anything lost, doubled or cut within a character."""

import asyncio
from contextlib import closing
from pathlib import Path

import pytest

from halfline.model.load import open_checkpoint
from halfline.pipeline.options import PipelineOptions
from halfline.pipeline.prompt import PromptBuilder
from halfline.request import CompletionRequest, Document, SamplingParams
from halfline.text.tokenizer import Tokenizer

TEXT = (
    "# ünïcode, 日本語のコメント, 👩‍👩‍👧 and 🇩🇪\r\n"
    "def größe(x):\r\n\treturn {'ключ': x, '鍵': [1, 22, 333]}\r\n\r\n"
    "\tif x:\n\t\tprint(f'{x:>10}\\t…')  # it's, they'll, 3.14e-9\n"
    "            deeply = indented + text\n\n\n\u00a0\u2028\x04 ====================================\n"
) * 3


@pytest.fixture(scope="module")
def tokenizer(embedded_model: Path) -> Tokenizer:
    with closing(open_checkpoint(embedded_model)) as checkpoint:
        return Tokenizer(checkpoint.vocab)


@pytest.mark.parametrize("path", ["a.py", None], ids=["named", "nobody's"])
def test_what_is_read_and_what_is_forced_are_the_text_before_the_cursor(
    tokenizer: Tokenizer, path: str | None
) -> None:
    options = PipelineOptions(prefix_tokens=256, fresh_prefix_tokens=96)
    builder = PromptBuilder(tokenizer, options, tokenizer.vocab_size, 8192)

    async def main() -> None:
        for place in [*range(1, len(TEXT) + 1), *range(len(TEXT), 0, -7)]:
            request = CompletionRequest(
                id="r",
                prompt=Document(TEXT[:place], TEXT[place:], path),
                params=SamplingParams(),
                max_tokens=16,
            )
            prompt = await builder.build(request)
            assert TEXT[:place].endswith(prompt.text)
            assert [*prompt.token_ids, *prompt.forced_ids] == tokenizer.encode(prompt.text)
            assert prompt.forced_text == TEXT[place - len(prompt.forced_text) : place]
            assert prompt.behind == TEXT[place:]

    asyncio.run(main())
