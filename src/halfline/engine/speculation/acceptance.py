"""How often a guess comes true, given where it came from and how much of the text before it matched.

Every guess counts as soon as the real token is known, whether it was run as a draft or not, so a source that was
given up is still judged, at no cost.
"""

from halfline.engine.speculation.draft import DraftSource
from halfline.engine.speculation.repeats import MAX_MATCHED

_KEPT = 512.0  # guesses remembered per case before the older half begins to fade
_PRIOR_WEIGHT = 8.0


class Acceptance:
    """Belongs to one tenant: what others type must not even show in how long one's drafts are."""

    def __init__(self) -> None:
        self._cases: dict[tuple[DraftSource, int], _Case] = {}

    def chance(self, source: DraftSource, num_matched: int) -> float:
        """That the next token of a guess is right, in (0, 1), when `num_matched` before it are."""
        return self._case(source, num_matched).chance

    def learn(self, source: DraftSource, num_matched: int, right: bool) -> None:
        self._case(source, num_matched).learn(right)

    def _case(self, source: DraftSource, num_matched: int) -> "_Case":
        key = (source, min(num_matched, MAX_MATCHED))
        case = self._cases.get(key)
        if case is None:
            # Measured on replayed Rust: 0.26 after one matching token, 0.5 after two, 0.95 after sixteen.
            case = self._cases[key] = _Case(num_matched / (num_matched + 1.5))
        return case


class _Case:
    __slots__ = ("_num_right", "_num_tried", "chance")

    def __init__(self, prior: float) -> None:
        self.chance = prior
        self._num_tried = _PRIOR_WEIGHT
        self._num_right = _PRIOR_WEIGHT * prior

    def learn(self, right: bool) -> None:
        self._num_tried += 1.0
        self._num_right += right
        if self._num_tried > _KEPT:
            self._num_tried /= 2
            self._num_right /= 2
        self.chance = self._num_right / self._num_tried
