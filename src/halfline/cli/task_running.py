"""`halfline task run` without a server: an engine in this process, for one task."""

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace

from halfline.api.dialects.sampling_fields import either
from halfline.api.task_prompts import TaskPrompts
from halfline.cli.completing import print_answer
from halfline.cli.loading import assemble
from halfline.cli.model_parts import find_model, load_parts
from halfline.cli.start_up import settle
from halfline.context.templates.library import TaskLibrary
from halfline.errors import PromptTooLong
from halfline.request import CompletionRequest, Part
from halfline.settings import Settings


def run_here(
    settings: Settings,
    library: TaskLibrary,
    task: str,
    placeholders: Mapping[str, object],
    files: Sequence[Part],
    version: str | None,
    max_tokens: int | None,
) -> None:
    """Load the model into this process, do the task, free it. Raises HalflineError."""
    # Before the model: a mistake in what is asked should not wait for it. The model's own template comes with it.
    tasks = library.tasks()
    if task in tasks:
        named = tasks[task].versions if version is None else {version: tasks[task].version(version)}
        next(iter(named.values())).placeholders.check(placeholders)
    ready = assemble(settings, load_parts(settings, find_model(settings)))
    settle()
    try:
        prompts = TaskPrompts(library, ready.loaded.chat)
        name = task if task in tasks else prompts.asked_for(task)
        template = prompts.template(name, version, "local", "")
        limit = ready.loaded.model.max_context
        prompt = prompts.prompt(template, placeholders, limit, files)
        profile = settings.api.find_profile(None)
        wanted = either(max_tokens, either(template.max_tokens, settings.api.chat_max_tokens))
        if len(prompt.token_ids) + min(wanted, 1) > limit:
            raise PromptTooLong(len(prompt.token_ids), wanted, limit)
        request = CompletionRequest(
            id=f"task-{uuid.uuid4().hex}",
            prompt=prompt.token_ids,
            params=replace(profile.params, stop=template.stop),
            max_tokens=min(wanted, limit - len(prompt.token_ids)),
        )
        asyncio.run(print_answer(ready, request))
    finally:
        ready.loaded.close()
