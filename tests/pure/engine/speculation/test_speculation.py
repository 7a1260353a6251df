"""Which guesses are run: the likely ones, where a row is cheap, from one's own tenant only, in bounded memory."""

from collections.abc import Mapping

import pytest

from halfline.engine.sequence import Sequence, Work
from halfline.engine.speculation.draft import Draft, Proposal
from halfline.engine.speculation.repeats import Repeats
from halfline.engine.speculation.speculation import Speculation
from halfline.kv.block_pool import BlockPool
from halfline.kv.block_table import BlockTable
from halfline.kv.prefix_index import PrefixIndex
from halfline.request import SamplingParams
from halfline.sampling.reader import Reader
from halfline.sampling.sampler import Sampler

LINE = [70, 71, 72, 73, 74, 75, 76, 77, 78, 79]


class Silent:
    def push(self, token_id: int) -> str:
        return ""

    def finish(self) -> str:
        return ""


def sequence(
    number: int,
    prompt: list[int],
    namespace: str = "me",
    draft_sources: tuple[Repeats, ...] = (),
    proposal: Proposal | None = None,
) -> Sequence:
    work = Work(
        prompt_ids=tuple(prompt),
        max_new_tokens=100,
        sampler=Sampler(SamplingParams(), prompt),
        reader=Reader(Silent()),
        stop_token_ids=frozenset(),
        namespace=namespace,
        draft_sources=draft_sources,
        proposal=proposal,
    )
    return Sequence(number, work, BlockTable(BlockPool(1), PrefixIndex(), namespace), 0, submitted_at=0.0)


def taught(row_share: float = 0.05, max_draft_tokens: int = 16) -> Speculation:
    """A row costs `row_share` of a step of one row, as measured on many steps."""
    speculation = Speculation(max_draft_tokens)
    for number in range(200):
        num_rows = 1 + 4 * (number % 3)
        speculation.step_ran(num_rows, 5.0 * (1 + row_share * (num_rows - 1)))
    return speculation


def draft_of(speculation: Speculation, asked: Sequence, room: int = 50) -> Draft | None:
    return speculation.propose({asked: room}, num_rows=1, num_spare_rows=255).get(asked)


def say(asked: Sequence, token_ids: list[int]) -> None:
    """The model says so."""
    asked.token_ids += token_ids
    asked.num_generated += len(token_ids)


def test_what_followed_before_is_drafted_and_where_it_came_from_is_told() -> None:
    prompt = [1, *LINE, 2, 3, 70, 71, 72]
    draft = draft_of(taught(), sequence(0, prompt))
    assert draft is not None
    assert draft.source == "own"
    assert draft.token_ids == tuple(prompt[4 : 4 + len(draft.token_ids)])
    given = draft_of(taught(), sequence(0, [1, 2, 70, 71, 72], draft_sources=(Repeats([5, *LINE]),)))
    assert given is not None
    assert (given.source, given.token_ids[:3]) == ("given", (73, 74, 75))


def test_the_likelier_of_two_sources_is_drafted() -> None:
    prompt = [1, 72, 50, 2, 70, 71, 72]
    draft = draft_of(taught(), sequence(0, prompt, draft_sources=(Repeats([5, *LINE]),)))
    assert draft is not None and draft.source == "given", "three tokens match there, one here"


def test_nothing_is_drafted_before_a_step_was_timed_or_where_a_row_costs_a_step() -> None:
    prompt = [*LINE, 1, *LINE]
    assert draft_of(Speculation(16), sequence(0, prompt)) is None
    assert draft_of(taught(row_share=0.9), sequence(0, prompt)) is None
    assert draft_of(taught(row_share=0.05), sequence(0, prompt)) is not None


def test_cheaper_rows_make_longer_drafts_up_to_the_limit_and_the_room() -> None:
    prompt = [*LINE * 3, 1, *LINE * 2]
    lengths = []
    for row_share in (0.3, 0.1, 0.02):
        draft = draft_of(taught(row_share), sequence(0, prompt))
        lengths.append(0 if draft is None else len(draft.token_ids))
    assert lengths == sorted(lengths)
    assert lengths[0] < lengths[-1]
    for max_draft_tokens, room in ((3, 50), (16, 3)):
        draft = draft_of(taught(0.02, max_draft_tokens), sequence(0, prompt), room)
        assert draft is not None and len(draft.token_ids) == 3


def test_a_source_that_is_always_wrong_is_given_up_and_taken_up_when_it_is_right_again() -> None:
    speculation = taught()
    asked = sequence(0, [*LINE, 1])
    drafted: dict[bool, list[bool]] = {False: [], True: []}
    for right in (False, True):
        for _ in range(300):
            say(asked, [70, 71])
            drafted[right].append(draft_of(speculation, asked) is not None)
            say(asked, [72 if right else 99 + len(asked.token_ids) % 150, 1])
            draft_of(speculation, asked)
    assert any(drafted[False][:3])
    assert sum(drafted[False][-100:]) == 0, "guesses still come to mind, and are judged without being run"
    assert all(drafted[True][-100:])


def test_a_sequence_that_goes_its_own_way_is_guessed_at_less_than_its_tenants_others() -> None:
    speculation = taught(0.1)
    strange, usual = sequence(0, [*LINE, 1]), sequence(1, [*LINE, 1])
    for number in range(12):
        for asked, answer in ((strange, 100 + number), (usual, 72)):
            say(asked, [70, 71])
            draft_of(speculation, asked)
            say(asked, [answer, 1])
    lengths = []
    for asked in (strange, usual):
        say(asked, [2, 70, 71, 72, 73])
        draft = draft_of(speculation, asked)
        lengths.append(0 if draft is None else len(draft.token_ids))
    assert lengths[0] < lengths[1]


def test_what_comes_after_a_wrong_guess_is_not_judged() -> None:
    speculation = taught()
    asked = sequence(0, [*LINE, 1, 70, 71])
    draft_of(speculation, asked)
    acceptance = speculation._tenants["me"].acceptance
    before = [acceptance.chance("own", num_matched) for num_matched in (2, 3, 4)]
    say(asked, [99, 73, 74])
    speculation.ended(asked)
    after = [acceptance.chance("own", num_matched) for num_matched in (2, 3, 4)]
    assert after[0] < before[0]
    assert after[1:] == before[1:]


def answer_once(speculation: Speculation, number: int, namespace: str, answer: list[int]) -> None:
    asked = sequence(number, [number + 1000, 11, 12], namespace)
    draft_of(speculation, asked)
    say(asked, answer)
    speculation.ended(asked)


def test_a_tenants_last_answers_are_drafted_for_it_and_for_nobody_else() -> None:
    speculation = taught()
    answer_once(speculation, 0, "me", LINE)
    mine = draft_of(speculation, sequence(1, [5, 11, 12], "me"))
    assert mine is not None
    assert (mine.source, mine.token_ids[:3]) == ("recent", (70, 71, 72))
    assert draft_of(speculation, sequence(2, [5, 11, 12], "you")) is None


def test_nor_does_a_tenant_learn_from_anothers_luck() -> None:
    lengths = []
    for others_are_right in (False, True):
        speculation = taught()
        other = sequence(0, [*LINE, 1], "other")
        for _ in range(200):
            say(other, [70, 71])
            draft_of(speculation, other)
            say(other, [72 if others_are_right else 200, 1])
        draft = draft_of(speculation, sequence(1, [*LINE, 1, 70, 71], "me"))
        assert draft is not None
        lengths.append(len(draft.token_ids))
    assert lengths[0] == lengths[1]


def test_what_is_remembered_is_bounded_over_many_answers_and_many_tenants() -> None:
    speculation = taught()
    for number in range(300):
        answer_once(speculation, number, f"tenant {number % 100}", [number] * 50)
    for number in range(200):
        answer_once(speculation, number, "chatty", list(range(100)))
    assert len(speculation._tenants) == 64
    assert max(len(tenant.recent) for tenant in speculation._tenants.values()) <= 4096 + 200
    assert not speculation._followers


def test_a_large_batch_gets_no_drafts_and_a_middling_one_only_the_likeliest() -> None:
    likely = [*LINE * 3, 1, *LINE * 2]
    unlikely = [50, 60, 61, 62, 63, 64, 1, 50]
    speculation = taught(0.1)
    asked = {sequence(number, likely if number % 4 == 3 else unlikely): 50 for number in range(8)}
    drafts = speculation.propose(asked, num_rows=8, num_spare_rows=10)
    assert 0 < sum(len(draft.token_ids) for draft in drafts.values()) <= 10
    assert {each.id % 4 for each in drafts} == {3}
    assert speculation.propose(asked, num_rows=64, num_spare_rows=100) == {}


def test_a_proposal_is_read_in_the_same_step_as_a_long_prompt_and_nothing_else_is() -> None:
    prompt = [*LINE * 3, 1, 2, 3, 4]
    guess = Proposal("syntax", Repeats([1, 2, 3, 4, *LINE]))
    asked = {sequence(0, prompt, proposal=guess): 7, sequence(1, [*LINE * 2]): 7}
    drafts = taught(0.02).propose(asked, num_rows=200, num_spare_rows=50)
    assert [(each.id, draft.source, draft.token_ids) for each, draft in drafts.items()] == [
        (0, "syntax", tuple(LINE[:7]))
    ]
    assert taught(0.9).propose(asked, num_rows=200, num_spare_rows=50) == {}, "a row costs a step"
    assert Speculation(16).propose(asked, num_rows=200, num_spare_rows=50) == {}, "nothing was timed"
    (few,) = taught(0.02).propose(asked, num_rows=200, num_spare_rows=3).values()
    assert few.token_ids == tuple(LINE[:3])


def test_a_proposal_s_first_token_and_its_later_ones_are_believed_apart() -> None:
    """Mostly wrong at once, but where the first four are right the rest is too."""
    speculation = taught(0.1)
    for number in range(100):
        context = [number + 200, number + 301, number + 402, number + 503]
        asked = sequence(number, context, proposal=Proposal("semantic", Repeats([*context, *LINE])))
        draft_of(speculation, asked)
        if number % 4 == 0:
            say(asked, LINE[:4])
            draft_of(speculation, asked)
            say(asked, LINE[4:])
        else:
            say(asked, [99])
        speculation.ended(asked)
    chance = speculation._tenant("me").acceptance.chance
    assert chance("semantic", 4) < 0.4
    assert chance("semantic", 5) > 0.85


def test_no_row_is_proposed_beyond_the_spare_ones() -> None:
    speculation = taught(0.01)
    asked: Mapping[Sequence, int] = {sequence(number, [*LINE * 2]): 50 for number in range(4)}
    for num_spare_rows in (0, 1, 7):
        drafts = speculation.propose(asked, num_rows=4, num_spare_rows=num_spare_rows)
        assert sum(len(draft.token_ids) for draft in drafts.values()) == num_spare_rows


@pytest.mark.parametrize("num_generated", [0, 3])
def test_only_what_was_generated_is_remembered(num_generated: int) -> None:
    speculation = taught()
    asked = sequence(0, [*LINE, 11, 12])
    draft_of(speculation, asked)
    say(asked, [80, 81, 82][:num_generated])
    speculation.ended(asked)
    assert len(speculation._tenants["me"].recent) == (8 + num_generated if num_generated else 0)
