"""The model's own chat template: messages become the prompt it was trained on.

The template comes with the model and runs in a sandbox; what users write is its data, and never one of its markers.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

from halfline.errors import BadRequest
from halfline.text.marked_text import Disguise, MarkedText
from halfline.text.tokenizer import Tokenizer

# For models that bring none: the most common form, plain text where the vocabulary lacks its markers.
CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

Message = Mapping[str, str]
"""`role` and `content`, and whatever else the template knows of."""


@dataclass(frozen=True)
class ChatTemplate:
    """Renders conversations for one tokenizer. `source` is the template's text."""

    tokenizer: Tokenizer
    source: str = CHATML

    @cached_property
    def marked(self) -> MarkedText:
        """Encodes texts that spell out markers."""
        return MarkedText(self.tokenizer)

    def token_ids(self, messages: Sequence[Message], max_tokens: int | None = None) -> tuple[int, ...]:
        """The prompt behind which the model writes the next message.

        Raises BadRequest for one it cannot render, PromptTooLong for one that is sure to have more than `max_tokens`,
        before it is encoded; others may have more.
        """
        disguise = self.marked.disguise(text for message in messages for text in message.values())
        rendered = self.rendered(messages, disguise)
        if max_tokens is not None:
            self.tokenizer.check_may_fit(disguise.off(rendered), max_tokens, "messages")
        return self.encode(rendered, disguise)

    def encode(self, rendered: str, disguise: Disguise) -> tuple[int, ...]:
        """The tokens of what `rendered` returned, BOS in front if the vocabulary wants one."""
        token_ids = self.marked.encode(rendered, disguise=disguise)
        bos_id = self.tokenizer.bos_id
        if self.tokenizer.adds_bos and bos_id is not None and token_ids[:1] != [bos_id]:
            return (bos_id, *token_ids)
        return tuple(token_ids)

    def text(self, messages: Sequence[Message]) -> str:
        """The prompt as text, markers spelt out. Raises BadRequest for one it cannot render."""
        disguise = self.marked.disguise(text for message in messages for text in message.values())
        return disguise.off(self.rendered(messages, disguise))

    def rendered(self, messages: Sequence[Message], disguise: Disguise) -> str:
        """The prompt as text, markers spelt out and what users wrote still in disguise. Raises as `text`."""
        from jinja2 import TemplateError

        disguised = [{name: disguise.on(text) for name, text in message.items()} for message in messages]
        try:
            rendered: str = self._template.render(
                messages=disguised,
                add_generation_prompt=True,
                bos_token=self._spelling(self.tokenizer.bos_id),
                eos_token=self._spelling(min(self.tokenizer.eos_ids, default=None)),
                tools=None,
            )
        except (TemplateError, TypeError, ValueError, OverflowError) as error:
            reason = str(error) or type(error).__name__
            raise BadRequest(
                f"the model's chat template refuses these messages: {reason[:300]}", "messages"
            ) from error
        return rendered

    def _spelling(self, token_id: int | None) -> str:
        return "" if token_id is None else self.tokenizer.token_text(token_id)

    @cached_property
    def _template(self) -> Any:
        # Start-up time: most servers complete code and never chat.
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        # What templates of models may rely on, as `transformers` renders them.
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.globals["raise_exception"] = _refuse
        environment.globals["strftime_now"] = time.strftime
        return environment.from_string(self.source)


def _refuse(reason: str) -> NoReturn:
    raise ValueError(reason)
