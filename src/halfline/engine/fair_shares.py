"""How much each of several flows was served, and when, so that none of those that are here falls behind the others.

Virtual token counters (Sheng et al., "Fairness in Serving Large Language Models", OSDI 2024): a flow's counter is the
tokens computed for it. One that arrives starts at no less than the smallest counter of those present: being away earns
no credit, and coming back quickly forgets no debt.
"""

from collections import Counter

_MAX_REMEMBERED = 1024  # flows that left while they were ahead of everybody present


class FairShares:
    """Counts tokens per flow. A flow is present while it has entered more often than it left."""

    def __init__(self) -> None:
        self._num_inside: Counter[str] = Counter()
        self._served: dict[str, int] = {}  # of those present
        self._gone: dict[str, int] = {}  # of those that left, the first that left first
        self._least: int | None = None  # a memo; None: to be looked up
        self._turn_at: dict[str, float] = {}  # of those present that had one

    @property
    def empty(self) -> bool:
        return not self._num_inside

    def entered(self, flow: str) -> None:
        if flow not in self._served:
            least = self._floor() if self._served else 0
            self._served[flow] = max(self._gone.pop(flow, 0), least)
            self._least = None
        self._num_inside[flow] += 1

    def left(self, flow: str) -> None:
        self._num_inside[flow] -= 1
        if self._num_inside[flow]:
            return
        del self._num_inside[flow]
        self._turn_at.pop(flow, None)
        self._gone[flow] = self._served.pop(flow)
        self._least = None
        # Nobody is left who could be wronged, or: whoever is not ahead would start where the least served is anyway.
        floor = self._floor() if self._served else max(self._gone.values())
        ahead = [each for each, served in self._gone.items() if served > floor]
        self._gone = {each: self._gone[each] for each in ahead[-_MAX_REMEMBERED:]}

    def charge(self, flow: str, num_tokens: int) -> None:
        """So many tokens were computed for it, which is present."""
        self._served[flow] += num_tokens
        self._least = None

    def had_turn(self, flow: str, now: float) -> None:
        """The flow, which is present, need not be waited for any longer, at the clock's second `now`."""
        self._turn_at[flow] = now

    def waits_since(self, flow: str, asked_at: float) -> float:
        """Since when the flow, which is present, has waited for what it asked for at `asked_at`."""
        return max(asked_at, self._turn_at.get(flow, asked_at))

    def lead(self, flow: str) -> int:
        """Tokens by which the flow, which is present, is ahead of the one served least."""
        return self._served[flow] - self._floor()

    def _floor(self) -> int:
        if self._least is None:
            self._least = min(self._served.values())
        return self._least
