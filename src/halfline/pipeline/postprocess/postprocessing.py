"""What is done to one request's answer between the model and the editor: which filters, which rewrites.

The one place that knows all rules and their order. An equal `Postprocessing` makes of equal tokens the same text,
unless time is one of its bounds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from halfline.pipeline.options import PipelineOptions
from halfline.pipeline.postprocess.confidence import Confidence
from halfline.pipeline.postprocess.line_time import LineTime
from halfline.pipeline.postprocess.min_indent import MinIndent
from halfline.pipeline.postprocess.suffix_overlap import SuffixOverlap
from halfline.request import Bounds, CompletionRequest, Document, SamplingParams
from halfline.sampling.reader import Detokenizer, Reader, TextFilter
from halfline.sampling.stop import StopStrings


@dataclass(frozen=True, slots=True)
class Postprocessing:
    """`rest_of_line` None: the answer is not trimmed, only stop strings end it. It is shown if the model was at least
    so confident as `min_confidence` (0: always).
    """

    stop: tuple[str, ...]
    rest_of_line: str | None
    min_confidence: float
    bounds: Bounds

    def params(self, params: SamplingParams) -> SamplingParams:
        """With the log-probabilities that the rules need."""
        if self.min_confidence == 0.0 or params.logprobs is not None:
            return params
        return replace(params, logprobs=0)

    def reader(self, detokenizer: Detokenizer, forced_text: str = "") -> Reader:
        """A fresh one for each choice. `forced_text` comes before the answer and is no part of it."""
        judge = Confidence(self.min_confidence) if self.min_confidence > 0.0 else None
        return Reader(detokenizer, self._filters(), judge, forced_text=forced_text)

    def _filters(self) -> Sequence[TextFilter]:
        filters: list[TextFilter] = []
        if self.stop:
            filters.append(StopStrings(self.stop))
        if self.rest_of_line:
            filters.append(SuffixOverlap(self.rest_of_line))
        if self.bounds.min_indent:
            filters.append(MinIndent(self.bounds.min_indent))
        if self.bounds.line_time_ms is not None:
            filters.append(LineTime(self.bounds.line_time_ms))
        return filters


def postprocessing(request: CompletionRequest, options: PipelineOptions) -> Postprocessing:
    """What the request asks for, and the server's own habit where it says nothing. Raw mode is never trimmed."""
    wanted = options.postprocess if request.postprocess is None else request.postprocess
    confidence = options.min_confidence if request.min_confidence is None else request.min_confidence
    rest_of_line = None
    if wanted and isinstance(request.prompt, Document):
        rest_of_line = request.prompt.suffix.partition("\n")[0]
    return Postprocessing(request.params.stop, rest_of_line, confidence, request.bounds)
