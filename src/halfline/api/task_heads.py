"""Has the heads of tasks read before anybody asks for one: as idle work, from the moment on that the model is there.

KV is shared within a tenant only, so each tenant's heads are its own. They stay as long as there is room for pins
(kv/pins.py).
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager, suppress

from halfline.api.admission import Admission
from halfline.api.answering import Answering
from halfline.api.app import Beside
from halfline.api.serving import Loaded
from halfline.api.task_prompts import TaskPrompts
from halfline.errors import HalflineError
from halfline.request import CompletionRequest, SamplingParams
from halfline.telemetry.log import fields

_log = logging.getLogger(__name__)


def heads_read(names: Collection[str], tenants: Callable[[], Collection[str]], up: asyncio.Event) -> Beside:
    """Reads the heads of the tasks of those names once `up` is set, for as long as the application lives."""

    @asynccontextmanager
    async def beside(answering: Answering, admission: Admission) -> AsyncIterator[None]:
        async def read() -> None:
            await up.wait()
            await read_heads(answering.serving.loaded, names, tenants())

        reading = asyncio.ensure_future(read())
        try:
            yield
        finally:
            reading.cancel()
            with suppress(asyncio.CancelledError):
                await reading

    return beside


async def read_heads(loaded: Loaded, names: Collection[str], tenants: Collection[str]) -> None:
    """Of all versions that users get, the heads of one after the other. What cannot be read is logged, and the rest
    goes on.
    """
    prompts = TaskPrompts(loaded.tasks, loaded.chat)
    for name in names:
        try:
            task = await asyncio.to_thread(prompts.library.task, name)
            for template in task.versions.values():
                head_ids = await asyncio.to_thread(prompts.head, template) if template.weight else ()
                for tenant in tenants if head_ids else ():
                    await loaded.pipeline.complete(
                        CompletionRequest(
                            id=f"head-{name}-{template.version}-{tenant}",
                            prompt=head_ids,
                            params=SamplingParams(),
                            max_tokens=0,
                            tenant=tenant,
                            priority="idle",
                            num_pinned_tokens=len(head_ids),
                            caching="none",
                        )
                    )
        except HalflineError as error:
            _log.warning("a task is not read ahead", extra=fields(task=name, reason=str(error)))
