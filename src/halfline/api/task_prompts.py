"""Tasks as the served model reads them: each version's frame in its chat template, made once and kept.

What was made is kept by the template's digest, the latest used longest: a template that is changed is another one.
"""

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from halfline.api.chat_frame import ChatFrame, instructed
from halfline.api.chat_template import ChatTemplate
from halfline.context.chunks.chunk_tokens import ChunkTokens, tokens_in_memory
from halfline.context.chunks.filling import filled_context
from halfline.context.templates.library import TaskLibrary
from halfline.context.templates.similarity import Embeds, Found, TaskFinder
from halfline.context.templates.task_template import TaskTemplate
from halfline.context.templates.versions import version_for
from halfline.errors import BadRequest, UnknownTask
from halfline.request import Part

_MAX_KEPT = 64
_TOKEN_CHARACTERS = 16  # more of them than this do not fit, so they are not encoded to see whether they do
_MAX_CHARACTERS = 1 << 20

_CONTEXT = "context"
_MAX_CONTEXT_TOKENS = 1024  # what is about as much to read as a second's worth of answer
_MAX_FILE_CHARACTERS = 1 << 18

SURE = 0.31
"""From which similarity on a text is taken to ask for a task. By words alone, of 15 texts that ask for a built-in task
none was below 0.36, and of 7 that ask for something else none above 0.27 (tests/pure/context/templates).
"""


@dataclass(frozen=True, slots=True)
class TaskPrompt:
    """`token_ids` begin with `num_head` that are the same for every request of this version."""

    template: TaskTemplate
    token_ids: tuple[int, ...]
    num_head: int


class TaskPrompts:
    """For one model's chat template. Safe to share among threads."""

    def __init__(
        self,
        library: TaskLibrary,
        chat: ChatTemplate,
        embedder: Embeds | None = None,
        chunks: ChunkTokens | None = None,
    ) -> None:
        """`embedder` None: texts find tasks by their words. `chunks` None: nobody else remembers tokens."""
        self.library = library
        self._chat = chat
        self._chunks = chunks or tokens_in_memory(chat.tokenizer)
        self._embedder = embedder
        self._frames: OrderedDict[str, ChatFrame] = OrderedDict()
        self._lock = threading.Lock()
        self._finder: tuple[object, TaskFinder] | None = None
        self.num_made = 0

    def template(self, name: str, version: str | None, tenant: str, user: str) -> TaskTemplate:
        """`version` None: the one that this user gets. Raises UnknownTask."""
        task = self.library.task(name)
        return version_for(task, tenant, user) if version is None else task.version(version)

    def find(self, text: str) -> list[Found]:
        """All tasks, the most similar to the text first."""
        tasks = self.library.tasks()
        with self._lock:
            if self._finder is None or self._finder[0] is not tasks:
                self._finder = (tasks, TaskFinder(list(tasks.values()), self._embedder))
            finder = self._finder[1]
        return finder.find(text)

    def asked_for(self, text: str) -> str:
        """The name of the task that the text asks for. Raises UnknownTask where it is like none."""
        found = self.find(text)
        if not found or found[0].similarity < SURE:
            raise UnknownTask(text[:64], list(self.library.tasks()))
        return found[0].task

    def prompt(
        self, template: TaskTemplate, values: object, max_tokens: int, files: Sequence[Part] = ()
    ) -> TaskPrompt:
        """The prompt with the values in the template's places; of the files what fits in its placeholder `context`.
        It may come out longer than `max_tokens`, but not much.

        Raises PlaceholdersRefused, BadRequest for a chat template that refuses it and for files without a place.
        """
        if files:
            values = self._with_context(template, values, max_tokens, files)
        template.placeholders.check(values)
        assert isinstance(values, Mapping)
        text = template.text(values, min(_TOKEN_CHARACTERS * max_tokens, _MAX_CHARACTERS))
        frame = self._frame(template)
        for chunk in self._chunks.chunks_of_head(template.instructions):
            self._chunks.of(chunk, "head")
        return TaskPrompt(template, frame.token_ids(text), len(frame.head_ids))

    def head(self, template: TaskTemplate) -> tuple[int, ...]:
        """What every prompt of this version begins with. Raises BadRequest for a chat template that refuses it."""
        return tuple(self._frame(template).head_ids)

    def _with_context(
        self, template: TaskTemplate, values: object, max_tokens: int, files: Sequence[Part]
    ) -> object:
        if _CONTEXT not in template.placeholders.names:
            raise BadRequest(f"`context`: the task {template.name!r} has no such placeholder", "context")
        if not isinstance(values, Mapping):
            return values  # refused by the schema
        if _CONTEXT in values:
            raise BadRequest("`context`: send either the files or the placeholder", "context")
        num_characters = sum(len(each.text) for each in files)
        if num_characters > _MAX_FILE_CHARACTERS:
            raise BadRequest(
                f"`context` has {num_characters} characters, at most {_MAX_FILE_CHARACTERS} are read",
                "context",
            )
        around = "\n".join(each for each in values.values() if isinstance(each, str))
        room = min(_MAX_CONTEXT_TOKENS, max_tokens // 4)
        return {**values, _CONTEXT: filled_context(files, around, room, self._chunks)}

    def _frame(self, template: TaskTemplate) -> ChatFrame:
        with self._lock:
            frame = self._frames.pop(template.digest, None)
            if frame is None:
                turns = [(each.input, each.output) for each in template.examples]
                frame = instructed(self._chat, template.instructions, turns)
                self.num_made += 1
            self._frames[template.digest] = frame
            if len(self._frames) > _MAX_KEPT:
                self._frames.popitem(last=False)
            return frame
