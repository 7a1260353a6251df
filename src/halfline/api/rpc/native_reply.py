"""Answers as halfline.v1 has them: a whole Completion, or CompletionEvents, the last of them the receipt."""

from collections.abc import Mapping, Sequence

from halfline.api.rpc import halfline_pb2 as pb
from halfline.request import Choice, ChoiceDelta, Completion, FinishReason, Receipt, TokenLogprob

_REASONS: Mapping[FinishReason | None, pb.FinishReason] = {
    None: pb.FINISH_REASON_UNSPECIFIED,
    "stop": pb.STOP,
    "length": pb.LENGTH,
    "deadline": pb.DEADLINE,
    "cancelled": pb.CANCELLED,
    "superseded": pb.SUPERSEDED,
    "shed": pb.SHED,
    "failed": pb.FAILED,
}


class NativeReply:
    """The answer to one request."""

    def __init__(self, call_id: str, model: str) -> None:
        self._call_id = call_id
        self._model = model

    def whole(self, completions: Sequence[Completion]) -> pb.Completion:
        (completion,) = completions
        choices = [_choice(choice, choice.finish_reason) for choice in completion.choices]
        return pb.Completion(
            id=self._call_id, model=self._model, choices=choices, receipt=_receipt(completion.receipt)
        )

    def delta(self, delta: ChoiceDelta) -> pb.CompletionEvent:
        return pb.CompletionEvent(id=self._call_id, delta=_choice(delta, delta.finish_reason))

    def end(self, receipt: Receipt) -> pb.CompletionEvent:
        return pb.CompletionEvent(id=self._call_id, receipt=_receipt(receipt))


def _choice(said: Choice | ChoiceDelta, reason: FinishReason | None) -> pb.Choice:
    return pb.Choice(
        index=said.index,
        text=said.text,
        token_ids=said.token_ids,
        finish_reason=_REASONS[reason],
        logprobs=[_logprob(each) for each in said.logprobs or ()],
    )


def _logprob(token: TokenLogprob) -> pb.TokenLogprob:
    return pb.TokenLogprob(
        token_id=token.token_id,
        text=token.text,
        logprob=token.logprob,
        offset=token.offset,
        top=[
            pb.Alternative(token_id=token_id, text=text, logprob=logprob)
            for token_id, text, logprob in token.top
        ],
    )


def _receipt(receipt: Receipt) -> pb.Receipt:
    """Field by field under the same names."""
    told = {field.name: getattr(receipt, field.name) for field in pb.Receipt.DESCRIPTOR.fields}
    told["finish_reasons"] = [_REASONS[reason] for reason in receipt.finish_reasons]
    return pb.Receipt(**told)
