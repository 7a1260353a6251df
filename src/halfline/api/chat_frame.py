"""A conversation of which only the last message changes: what stands around it is made into tokens once.

    <|im_start|>system⏎ … <|im_end|>⏎ … <|im_start|>user⏎  the text  <|im_end|>⏎<|im_start|>assistant⏎
    └──────────────── head_ids ─────────────────┘└── encoded ──┘└──────────── tail ───────────┘

Parts may be tokenised apart only where no token and no word reaches across whatever the text is: at a marker, or at the
last place before the text that is sure to be a cut (Tokenizer.last_sure_cut); the rest of the frame up to there is
encoded with the text. A chat template may do with a text what it likes (trim it, look for words in it), so it is run
for every request; where it did anything but put the text into the frame, all of it is encoded.
"""

from collections.abc import Sequence

from halfline.api.chat_template import ChatTemplate, Message
from halfline.errors import BadRequest

# One word that no template trims, and that stands in none.
_STAND_IN = "\u2060halfline\u2060"


class ChatFrame:
    """`head_ids` are what every prompt begins with; empty where the template makes nothing constant."""

    def __init__(self, chat: ChatTemplate, before: Sequence[Message]) -> None:
        """`before` are the messages that stay. Raises BadRequest for such that the template refuses."""
        self._chat = chat
        self._before = tuple(before)
        self._before_text, self._after_text = self._frame()
        marker_end = chat.marked.last_marker_end(self._before_text)
        cut = chat.tokenizer.last_sure_cut(self._before_text[marker_end:])
        self._cut = marker_end + cut
        self._continues = cut > 0
        disguise = chat.marked.disguise(self._texts())
        self.head_ids = chat.encode(self._before_text[: self._cut], disguise) if self._cut else ()
        tail_start = chat.marked.first_marker_start(self._after_text)
        self._after_middle = self._after_text[:tail_start]
        self._tail_ids = tuple(chat.marked.encode(self._after_text[tail_start:]))

    def token_ids(self, text: str) -> tuple[int, ...]:
        """The prompt with the text as its last message: what `ChatTemplate.token_ids` says. Raises BadRequest."""
        messages = self.messages(text)
        disguise = self._chat.marked.disguise([*self._texts(), text])
        rendered = self._chat.rendered(messages, disguise)
        middle = self._before_text[self._cut :] + disguise.on(text) + self._after_middle
        as_framed = (
            len(rendered) == len(self._before_text) + len(disguise.on(text)) + len(self._after_text)
            and rendered.startswith(self._before_text)
            and rendered.startswith(middle, self._cut)
            and rendered.endswith(self._after_text)
        )
        if not (as_framed and self.head_ids) or self._chat.marked.first_marker_start(middle) < len(middle):
            return self._chat.encode(rendered, disguise)
        shown = disguise.off(middle)
        encoded = (
            self._chat.tokenizer.encode(shown, add_bos=False, continues=self._continues) if shown else ()
        )
        return (*self.head_ids, *encoded, *self._tail_ids)

    def messages(self, text: str) -> list[Message]:
        """The whole conversation."""
        return [*self._before, {"role": "user", "content": text}]

    def _texts(self) -> list[str]:
        return [text for message in self._before for text in message.values()]

    def _frame(self) -> tuple[str, str]:
        """What the template writes before the last message's text and behind it."""
        disguise = self._chat.marked.disguise(self._texts())
        rendered = self._chat.rendered(self.messages(_STAND_IN), disguise)
        before, found, after = rendered.rpartition(_STAND_IN)
        return (before, after) if found else ("", "")


def instructed(chat: ChatTemplate, instructions: str, turns: Sequence[tuple[str, str]]) -> ChatFrame:
    """A frame with the instructions as the system's words, then what was said and answered before. A model whose
    template knows no system reads them in front of what the user says first.

    Raises BadRequest for a template that refuses these too.
    """
    said: list[Message] = []
    for user, assistant in turns:
        said += [{"role": "user", "content": user}, {"role": "assistant", "content": assistant}]
    try:
        return ChatFrame(chat, [{"role": "system", "content": instructions}, *said])
    except BadRequest:
        told: list[Message] = [
            {"role": "user", "content": instructions},
            {"role": "assistant", "content": "OK"},
        ]
        return ChatFrame(chat, [*told, *said])
