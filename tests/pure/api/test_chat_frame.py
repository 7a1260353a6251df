"""A frame's tokens are those of the whole conversation, whatever the text in it is."""

from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from halfline.api.chat_frame import ChatFrame, instructed
from halfline.api.chat_template import CHATML, ChatTemplate
from halfline.errors import BadRequest
from halfline.text.token_bytes import byte_alphabet
from halfline.text.tokenizer import Tokenizer
from halfline.text.vocab import VocabSpec

MARKERS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
# Merges across everything that a frame puts beside a text.
_ALPHABET = byte_alphabet()
_NEWLINE, _SPACE = _ALPHABET[10], _ALPHABET[32]
_MERGES = (
    ("s", "e"),
    ("se", "r"),
    (_NEWLINE, _NEWLINE),
    (_SPACE, "a"),
    ("r", _NEWLINE),
    ("a", "b"),
    (":", _NEWLINE),
)
_TEXTS = st.text(alphabet="ab r\n:é\u0301<|im_end|>\ufdd0 ", max_size=20)


def tokenizer(*, user_defined: Sequence[str] = (), adds_bos: bool = False) -> Tokenizer:
    merged = [left + right for left, right in _MERGES]
    return Tokenizer(
        VocabSpec(
            kind="bpe",
            tokens=(*MARKERS, *_ALPHABET.values(), *merged, *user_defined),
            token_types=(3,) * len(MARKERS) + (1,) * (256 + len(merged)) + (4,) * len(user_defined),
            merges=tuple(f"{left} {right}" for left, right in _MERGES),
            pre_tokenizer="gpt-2",
            bos_id=0,
            eos_ids=(0,),
            add_bos=adds_bos,
        )
    )


PLAIN = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}assistant:"
TRIMS = CHATML.replace("message['content']", "message['content'] | trim")
DECIDES = CHATML.replace(
    "{% for", "{% if 'ab' in messages[-1]['content'] %}{{ 'thinking' }}{% endif %}{% for", 1
)
BARE = "{% for message in messages %}{{ message.content }}{% endfor %}"

CHATS = {
    "chatml": ChatTemplate(tokenizer()),
    "bos": ChatTemplate(tokenizer(adds_bos=True)),
    "user defined": ChatTemplate(tokenizer(user_defined=("r\n\n", "\na"))),
    "without markers": ChatTemplate(tokenizer(), PLAIN),
    "trims": ChatTemplate(tokenizer(), TRIMS),
    "decides by the text": ChatTemplate(tokenizer(), DECIDES),
    "nothing between": ChatTemplate(tokenizer(), BARE),
}
FRAMES = {
    name: instructed(chat, "Be <|im_end|> user", [("a", "b ab"), (":", "\n")]) for name, chat in CHATS.items()
}


@pytest.mark.parametrize("name", CHATS)
@settings(deadline=None, max_examples=60)
@given(text=_TEXTS)
@example(text="")
@example(text="\n\n")
@example(text="<|im_end|>")
@example(text="\ufdd0<|im_start|>")
@example(text=" ab ")
def test_parts_made_apart_are_what_the_whole_is(name: str, text: str) -> None:
    frame = FRAMES[name]
    assert frame.token_ids(text) == CHATS[name].token_ids(frame.messages(text))


def test_all_that_comes_before_the_text_is_made_once_but_the_last_word() -> None:
    frame = FRAMES["chatml"]
    text = CHATS["chatml"].tokenizer.decode(frame.head_ids)
    assert text.endswith("assistant\n\n\nuser")
    assert frame.token_ids("ab")[: len(frame.head_ids)] == frame.head_ids


def test_no_head_ends_where_a_user_defined_token_may_go_on() -> None:
    head = CHATS["user defined"].tokenizer.decode(FRAMES["user defined"].head_ids)
    assert head.endswith("\n")
    assert not head.endswith("user\n")


def test_a_frame_that_the_template_makes_nothing_of_is_encoded_whole() -> None:
    chat = ChatTemplate(tokenizer(), "{{ messages | length }}")
    assert ChatFrame(chat, []).head_ids == ()
    assert ChatFrame(chat, []).token_ids("x") == chat.token_ids([{"role": "user", "content": "x"}])


def test_a_model_that_knows_no_system_reads_the_instructions_first() -> None:
    refuses = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}" + CHATML
    chat = ChatTemplate(tokenizer(), refuses)
    frame = instructed(chat, "Be brief.", [])
    assert frame.messages("x")[0] == {"role": "user", "content": "Be brief."}
    assert frame.token_ids("x") == chat.token_ids(frame.messages("x"))


def test_a_template_that_refuses_everything_refuses_the_frame() -> None:
    with pytest.raises(BadRequest, match="never"):
        instructed(ChatTemplate(tokenizer(), "{{ raise_exception('never') }}"), "x", [])
