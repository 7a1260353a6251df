import asyncio
from collections.abc import Sequence

from halfline.context.documents import DocumentKey
from halfline.context.options import ContextOptions
from halfline.context.sources.found import Found
from halfline.context.surroundings import Surroundings
from halfline.pipeline.options import PipelineOptions
from halfline.pipeline.prompt import Prompt, PromptBuilder
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

# As SentencePiece trains them: a text begins with a space that is not in it.
SPACED = Tokenizer(
    VocabSpec(
        kind="sentencepiece",
        tokens=("<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "▁def", "def", "f"),
        token_types=(2, 3, 3, *(6,) * 256, *(1,) * 4),
        scores=(0.0,) * 263,
        bos_id=1,
        eos_ids=(2,),
        add_bos=True,
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
    assert ledger["compression"] == {
        "tokens": 17,
        "tokens_left": 6,
        "lines_dropped": {"comment": 1},
        "parts_dropped": 0,
    }


def test_a_document_behind_other_files_begins_with_no_space_of_its_own() -> None:
    builder = PromptBuilder(SPACED, PipelineOptions(), SPACED.vocab_size, 4096)

    def built(prefix: str, *parts: Part, echo: bool = False) -> Prompt:
        request = CompletionRequest(
            id="r",
            prompt=Document(prefix, "", "main.py", parts),
            params=SamplingParams(),
            max_tokens=8,
            echo=echo,
        )
        return asyncio.run(builder.build(request))

    def text(prompt: Prompt) -> str:
        return b"".join(map(SPACED.token_bytes, prompt.token_ids[1:])).decode() + prompt.forced_text

    other = Part("x = 1", "other.py")
    assert text(built("def f")) == " def f"
    for prefix in ("def f", "def f(", "def f", "é"):  # of one document, with other files now and then
        assert text(built(prefix, other)) == f"# other.py\nx = 1\n# main.py\n{prefix}"
        assert text(built(prefix)) == f" {prefix}"
    echoed = built("def f", other, echo=True)
    within = echoed.token_ids[echoed.places.start : echoed.places.stop]
    assert SPACED.decode(within, continues=echoed.continues) == echoed.text == "def f"


def test_what_is_read_ahead_for_a_document_begins_with_its_other_files_too() -> None:
    options = PipelineOptions(fresh_prefix_tokens=64, grown_prefix_tokens=256)
    builder = PromptBuilder(TOKENIZER, options, TOKENIZER.vocab_size, 4096, "prefix_only")
    lines = "".join(f"line {number}\n" for number in range(200))

    async def typed() -> Prompt:
        for number in range(20):
            document = Document(lines + "x" * number, "", "main.py", (Part("y = 1\n", "other.py"),))
            request = CompletionRequest(id="r", prompt=document, params=SamplingParams(), max_tokens=8)
            prompt = await builder.build(request)
            if prompt.planned_ids:
                return prompt
        raise AssertionError("nothing was planned")

    prompt = asyncio.run(typed())
    num_front = prompt.ledger["part_tokens"]
    assert isinstance(num_front, int) and num_front > 0
    assert prompt.planned_ids[:num_front] == prompt.token_ids[:num_front]
    assert len(prompt.planned_ids) > num_front
