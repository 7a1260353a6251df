"""What is done to one request's answer between the model and the editor: which filters, which rewrites.

The one place that knows all rules and their order. Equal `Postprocessing` makes of equal tokens equal text, unless
time is one of its bounds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from halfline.pipeline.options import PipelineOptions
from halfline.pipeline.postprocess.blank_line import BlankLine
from halfline.pipeline.postprocess.brackets import Brackets
from halfline.pipeline.postprocess.confidence import Confidence
from halfline.pipeline.postprocess.extent import extent
from halfline.pipeline.postprocess.following_lines import FollowingLines
from halfline.pipeline.postprocess.indentation import Indentation
from halfline.pipeline.postprocess.line_time import LineTime
from halfline.pipeline.postprocess.min_indent import MinIndent
from halfline.pipeline.postprocess.newlines import Newlines
from halfline.pipeline.postprocess.repetition import Repetition
from halfline.pipeline.postprocess.scope import Scope
from halfline.pipeline.postprocess.single_line import SingleLine
from halfline.pipeline.postprocess.suffix_overlap import SuffixOverlap
from halfline.pipeline.postprocess.surroundings import Surroundings, surroundings
from halfline.pipeline.postprocess.trailing_blanks import TrailingBlanks
from halfline.pipeline.postprocess.whole_characters import WholeCharacters
from halfline.request import Bounds, CompletionRequest, Document, SamplingParams
from halfline.sampling.reader import Detokenizer, Reader, TextFilter
from halfline.sampling.stop import StopStrings
from halfline.sampling.written import TextRewrite


@dataclass(frozen=True, slots=True)
class Postprocessing:
    """`around` None: the answer is left as the model wrote it, only stop strings end it. It is shown if the model was
    at least so confident as `min_confidence` (0: always).
    """

    stop: tuple[str, ...]
    around: Surroundings | None
    min_confidence: float
    bounds: Bounds

    def params(self, params: SamplingParams) -> SamplingParams:
        """With the log-probabilities that the rules need."""
        if self.min_confidence == 0.0 or params.logprobs is not None:
            return params
        return replace(params, logprobs=0)

    def reader(self, detokenizer: Detokenizer, forced_text: str = "") -> Reader:
        """A fresh one for each choice. `forced_text` comes before the answer and is no part of it."""
        filters: list[TextFilter] = [StopStrings(self.stop)] if self.stop else []
        rewrites: Sequence[TextRewrite] = ()
        if self.around is not None:
            detokenizer = WholeCharacters(detokenizer)
            filters += editor_filters(self.around)
            rewrites = editor_rewrites(self.around)
        if self.bounds.min_indent:
            filters.append(MinIndent(self.bounds.min_indent))
        if self.bounds.line_time_ms is not None:
            filters.append(LineTime(self.bounds.line_time_ms))
        judge = Confidence(self.min_confidence) if self.min_confidence > 0.0 else None
        return Reader(detokenizer, filters, judge, rewrites, forced_text)


def postprocessing(request: CompletionRequest, options: PipelineOptions) -> Postprocessing:
    """What the request asks for, and the server's own habit where it says nothing. Raw mode is never trimmed."""
    wanted = options.postprocess if request.postprocess is None else request.postprocess
    confidence = options.min_confidence if request.min_confidence is None else request.min_confidence
    around = surroundings(request.prompt) if wanted and isinstance(request.prompt, Document) else None
    return Postprocessing(request.params.stop, around, confidence, request.bounds)


def editor_filters(around: Surroundings) -> list[TextFilter]:
    """The rules that cut, in their order: first where the answer ends, then what of it stands in the file already."""
    goes = extent(around)
    filters: list[TextFilter] = []
    if goes.goes_to_end_of == "line":
        filters.append(SingleLine())
    else:
        filters += [Scope(around, goes), BlankLine(around), FollowingLines(around)]
    filters += [SuffixOverlap(around), Brackets(around), Repetition(around.line)]
    if not around.rest.strip():
        filters.append(TrailingBlanks())
    return filters


def editor_rewrites(around: Surroundings) -> list[TextRewrite]:
    """What is written in the document's own way."""
    rewrites: list[TextRewrite] = [Indentation(around)]
    if around.newline is not None:
        rewrites.append(Newlines(around.newline))
    return rewrites
