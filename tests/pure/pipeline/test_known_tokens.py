"""Many known tokens read at once say what they say one by one."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from halfline.engine.sequence import Work
from halfline.model.random_model import byte_vocab
from halfline.pipeline.known_tokens import read_known, read_one_by_one
from halfline.pipeline.options import PipelineOptions
from halfline.pipeline.postprocess.postprocessing import postprocessing
from halfline.request import CompletionRequest, Document, SamplingParams
from halfline.sampling.sampler import Sampler, Scored
from halfline.text.detokenizer import Detokenizer
from halfline.text.tokenizer import Tokenizer

TOKENIZER = Tokenizer(byte_vocab())
STOP_ID = ord("$")
TEXTS = st.lists(
    st.sampled_from(["x", "foo", "(", ")", "{", "}", "\n", "\n\n", "    ", "\t", "é", '"', ";", "$", "/* "]),
    max_size=40,
).map("".join)


@given(
    before=TEXTS,
    behind=TEXTS,
    answer=TEXTS,
    forced=st.sampled_from(["", "x", "foo", "fo"]),
    most=st.integers(1, 80),
    stop=st.sampled_from([(), ("\n",), ("foo(",)]),
    min_confidence=st.sampled_from([0.0, 0.5]),
)
def test_they_end_where_they_would_have_ended_and_show_the_same(
    before: str,
    behind: str,
    answer: str,
    forced: str,
    most: int,
    stop: tuple[str, ...],
    min_confidence: float,
) -> None:
    request = CompletionRequest(
        id="r",
        prompt=Document(before + forced, behind, "a.rs"),
        params=SamplingParams(stop=stop),
        max_tokens=most,
        min_confidence=min_confidence,
    )

    def work() -> Work:
        trims = postprocessing(request, PipelineOptions())
        return Work(
            prompt_ids=(1,),
            max_new_tokens=most,
            sampler=Sampler(request.params, ()),
            reader=trims.reader(Detokenizer(TOKENIZER), forced),
            stop_token_ids=frozenset({STOP_ID}),
            namespace="",
        )

    tokens = [Scored(byte, logprob=-0.1 * (byte % 16)) for byte in (forced + answer).encode()]
    at_once, one_by_one = work(), work()
    found = read_known(at_once, iter(tokens), work)
    wanted = read_one_by_one(one_by_one, iter(tokens))
    assert [token.token_id for token in found.tokens] == [token.token_id for token in wanted.tokens]
    assert found.finish_reason == wanted.finish_reason
    assert replace(found.piece, starts=()) == replace(wanted.piece, starts=())
    assert len(found.piece.starts) == len(found.piece.tokens)
    if found.finish_reason is None:
        rest = [Scored(byte, logprob=-0.1) for byte in b"y)\n\nz"]
        assert at_once.reader.push_all(rest).text == one_by_one.reader.push_all(rest).text, "it goes on alike"
