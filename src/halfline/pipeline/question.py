"""When two requests ask the same."""

from array import array
from collections.abc import Hashable
from dataclasses import fields, replace
from hashlib import blake2b

from halfline.pipeline.postprocess.postprocessing import Postprocessing
from halfline.pipeline.prompt import Prompt
from halfline.request import CompletionRequest


def question(request: CompletionRequest, prompt: Prompt, trims: Postprocessing) -> Hashable | None:
    """What has to be the same for the answer to be the same; None: it is computed anew for everybody who asks."""
    params = request.params
    if request.caching != "use" or (not params.greedy and params.seed is None):
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


def question_digest(request: CompletionRequest, prompt: Prompt, trims: Postprocessing) -> bytes | None:
    """32 bytes that are the same only where the answer is, for as long as the same model computes; None: it is not to
    be kept, or not decided by what was asked.

    Unlike `question` it leaves out when an answer comes, and takes no part from this process.
    """
    params = request.params
    if (
        request.caching == "none"
        or request.max_tokens == 0
        or (not params.greedy and params.seed is None)
        or (request.echo and params.logprobs is not None)  # scores of the prompt are no answer
        or request.bounds.line_time_ms is not None
    ):
        return None
    parts = (
        request.tenant,
        prompt.forced_text,
        prompt.text if request.echo else "",
        prompt.max_new_tokens,
        sorted(prompt.stop_token_ids),
        replace(trims, around=None),
        [(each.name, getattr(params, each.name)) for each in fields(params) if each.name != "logit_bias"],
        sorted(params.logit_bias.items()),
        request.num_choices,
        request.echo,
    )
    digest = blake2b(array("i", prompt.token_ids), digest_size=32)
    # Written out as Python's text the lines around the cursor take longer than all else here.
    long = [] if trims.around is None else [getattr(trims.around, each.name) for each in fields(trims.around)]
    texts = [each for each in long if isinstance(each, str)]
    others = [... if isinstance(each, str) else each for each in long]
    said = [repr((len(prompt.token_ids), *parts, others)), *texts]
    for data in [each.encode("utf-8", "surrogatepass") for each in said]:
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.digest()
