"""When two requests ask the same."""

from collections.abc import Hashable
from dataclasses import fields

from halfline.pipeline.postprocess.postprocessing import Postprocessing
from halfline.pipeline.prompt import Prompt
from halfline.request import CompletionRequest


def question(request: CompletionRequest, prompt: Prompt, trims: Postprocessing) -> Hashable | None:
    """What has to be the same for the answer to be the same; None: it is drawn anew for everybody who asks."""
    params = request.params
    if not params.greedy and params.seed is None:
        return None
    return (
        request.tenant,
        prompt.token_ids,
        prompt.forced_text,
        prompt.max_new_tokens,
        prompt.stop_token_ids,
        trims,
        tuple(getattr(params, each.name) for each in fields(params) if each.name != "logit_bias"),
        frozenset(params.logit_bias.items()),
        request.num_choices,
        request.echo,
        # Not of the answer, but of when it comes.
        request.priority,
        request.deadline_ms,
    )
