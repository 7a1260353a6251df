import asyncio
from collections.abc import Sequence

from halfline.context.documents import DocumentKey
from halfline.context.options import ContextOptions
from halfline.context.sources.found import Found
from halfline.context.surroundings import Surroundings
from halfline.pipeline.options import PipelineOptions
from halfline.pipeline.prompt import PromptBuilder
from halfline.request import CompletionRequest, Document, Part, SamplingParams
from halfline.text.token_bytes import byte_alphabet
from halfline.text.tokenizer import Tokenizer
from halfline.text.vocab import VocabSpec

MARKERS = ("<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<repo_name>", "<file_sep>")
TOKENIZER = Tokenizer(
    VocabSpec(
        kind="bpe",
        tokens=(*byte_alphabet().values(), *MARKERS),
        token_types=(1,) * 256 + (3,) * len(MARKERS),
        pre_tokenizer="gpt-2",
    )
)


class Finds:
    def find(self, document: Document, key: DocumentKey | None) -> Sequence[Found]:
        return [Found(Part("# a remark\nx = 1\n", "other.py"), "named near the cursor", 1.0)]


def test_what_was_found_is_in_the_prompt_shortened_and_in_the_receipt_with_its_reason() -> None:
    surroundings = Surroundings(TOKENIZER, 261, ContextOptions(compression=("comments",)), Finds())
    builder = PromptBuilder(TOKENIZER, PipelineOptions(), 261, 4096, surroundings=surroundings)

    async def typed(prefix: str) -> tuple[str, dict[str, object]]:
        request = CompletionRequest(
            id="r", prompt=Document(prefix, "", "main.py"), params=SamplingParams(), max_tokens=8
        )
        prompt = await builder.build(request)
        return b"".join(map(TOKENIZER.token_bytes, prompt.token_ids)).decode(), dict(prompt.ledger)

    async def type_two() -> tuple[str, str, dict[str, object]]:
        first, _ = await typed("y = ")
        second, ledger = await typed("y = x")
        return first, second, ledger

    first, second, ledger = asyncio.run(type_two())
    front = "<repo_name>repository\n<file_sep>other.py\nx = 1\n<file_sep>main.py\n"
    assert first.startswith(front) and second.startswith(front)
    assert ledger["found"] == [{"path": "other.py", "reason": "named near the cursor"}]
    assert ledger["compression"] == {"tokens": 17, "tokens_left": 6, "lines_dropped": {"comment": 1}}
