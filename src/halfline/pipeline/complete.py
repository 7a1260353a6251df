"""One request from `CompletionRequest` to `Completion`: prompt, engine, text, receipt."""

import time
from collections.abc import AsyncGenerator, Callable

from halfline.engine.handle import EngineHandle
from halfline.model.spec import ModelSpec
from halfline.pipeline.options import PipelineOptions
from halfline.request import ChoiceDelta, Completion, CompletionRequest, Receipt
from halfline.text.tokenizer import Tokenizer


class CompletionPipeline:
    """Serves completions from one model; lives on the event loop."""

    def __init__(
        self,
        engine: EngineHandle,
        tokenizer: Tokenizer,
        spec: ModelSpec,
        options: PipelineOptions,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        raise NotImplementedError

    def stream(self, request: CompletionRequest) -> AsyncGenerator[ChoiceDelta, None]:
        """The request's text as it comes, choices interleaved; each choice ends with one delta that has a
        finish_reason.

        An async generator. Closing it (`aclose`, or cancelling the task that iterates) cancels the work within
        one engine step. An echoed prompt is the first delta of its choice. When the engine breaks under a running
        request every open choice ends with "failed".
        Raises before the first delta: BadRequest and its kinds (PromptTooLong, UnencodableText), NotNow
        (Overloaded, shutting down), EngineFailed.
        """
        raise NotImplementedError

    async def complete(self, request: CompletionRequest) -> Completion:
        """The whole answer at once. Raises as `stream` does before its first delta."""
        raise NotImplementedError

    def receipt(self, request_id: str) -> Receipt | None:
        """The receipt of a request that has ended, cancelled and failed ones too; None when it is unknown, still
        running, or more than `options.kept_receipts` ended since.
        """
        raise NotImplementedError
