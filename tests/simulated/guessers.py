"""Guesses at the next tokens that are right, wrong, both or too many, and the drafter that makes a draft of any."""

from collections.abc import Callable, Mapping

from character_work import VOCAB, alone, ids

from halfline.engine.sequence import Sequence
from halfline.engine.speculation.draft import Draft

Guesser = Callable[[list[int], int], list[int]]
"""All tokens of a sequence so far and how many more could count; the tokens guessed."""


class Scripted:
    """A drafter that drafts what `guess` says, of any length, whatever it was allowed."""

    def __init__(self, guess: Guesser) -> None:
        self._guess = guess
        self.ended_ids: list[int] = []
        self.steps: list[tuple[int, float]] = []

    def propose(
        self, rooms: Mapping[Sequence, int], num_rows: int, num_spare_rows: int
    ) -> Mapping[Sequence, Draft]:
        guesses = {sequence: self._guess(sequence.token_ids, room) for sequence, room in rooms.items()}
        return {sequence: Draft(tuple(guess), "own") for sequence, guess in guesses.items() if guess}

    def step_ran(self, num_rows: int, step_ms: float) -> None:
        self.steps.append((num_rows, step_ms))

    def ended(self, sequence: Sequence) -> None:
        self.ended_ids.append(sequence.id)


def right(token_ids: list[int], room: int) -> list[int]:
    """What greedy will say."""
    return ids(alone(token_ids, room))


def wrong(token_ids: list[int], room: int) -> list[int]:
    return [(token_id + 1) % VOCAB for token_id in right(token_ids, min(room, 5))]


def half_right(token_ids: list[int], room: int) -> list[int]:
    """Right tokens, then wrong ones; how many of which depends on the place."""
    num_right = len(token_ids) % 5
    guesses = right(token_ids, num_right + 3)
    return guesses[:num_right] + [(token_id + 1) % VOCAB for token_id in guesses[num_right:]]


def far_too_long(token_ids: list[int], room: int) -> list[int]:
    return right(token_ids, room + 40)


def nothing(token_ids: list[int], room: int) -> list[int]:
    return []


GUESSERS = [right, wrong, half_right, far_too_long, nothing]
