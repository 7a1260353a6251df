"""The next keystroke gets the last one's index; other tenants never do, and memory is bounded."""

from halfline.engine.speculation.idle_texts import IdleTexts
from halfline.engine.speculation.repeats import Repeats

PROMPT = list(range(200))


def test_a_prompt_that_begins_alike_gets_the_same_index_brought_up_to_date() -> None:
    idle, old = IdleTexts(), Repeats(PROMPT)
    idle.put("me", old)
    taken = idle.take("me", [*PROMPT[:190], 7, 7, 7])
    assert taken is old
    assert taken.after(0, 999) == (*PROMPT[:190], 7, 7, 7)


def test_an_index_is_lent_to_one_sequence_only() -> None:
    idle, old = IdleTexts(), Repeats(PROMPT)
    idle.put("me", old)
    assert idle.take("me", PROMPT) is old
    assert idle.take("me", PROMPT) is not old


def test_a_prompt_that_begins_otherwise_and_another_tenant_get_a_new_one() -> None:
    idle, old = IdleTexts(), Repeats(PROMPT)
    idle.put("me", old)
    for namespace, token_ids in (
        ("you", PROMPT),
        ("me", PROMPT[::-1]),
        ("me", [*PROMPT[:80], *range(900, 1020)]),
    ):
        taken = idle.take(namespace, token_ids)
        assert taken is not old
        assert taken.after(0, 999) == tuple(token_ids)


def test_what_came_first_is_forgotten_first_when_it_gets_too_much() -> None:
    idle = IdleTexts()
    texts = [Repeats([number] * 20_000) for number in range(5)]
    for number, text in enumerate(texts):
        idle.put(str(number), text)
    kept = [idle.take(str(number), [number] * 20_000) is text for number, text in enumerate(texts)]
    assert kept == [False, False, True, True, True]
