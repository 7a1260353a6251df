"""Whether looking for a guess pays: what its tokens saved against what looking took, both as running means.

A look costs whether or not it finds something; what is found saves a step for every token that the model agrees with.
While nothing is known it looks every time; once it does not pay, only now and then, to notice when it would again.
Whether a found guess is worth its rows is the engine's to say (engine/speculation/).
"""

from dataclasses import dataclass

_PATIENCE = 256  # looks before anything is concluded: a tier that is empty finds nothing
_FORGET = 1 / 256
_BETWEEN_PROBES = 32


@dataclass(slots=True)
class Totals:
    """Since the start. They only ever rise.

    Of the requests that a guess might help `passed` were not looked at, because that did not pay. `looks` of them were:
    `proposed` with a guess, `right` with one that the model agreed with some of, `whole` with one that was the answer.
    """

    passed: int = 0
    looks: int = 0
    proposed: int = 0
    right: int = 0
    whole: int = 0
    tokens_accepted: int = 0
    cost_ms: float = 0.0
    gain_ms: float = 0.0


class Worth:
    """Of one tier."""

    def __init__(self) -> None:
        self.totals = Totals()
        self._cost_ms = self._gain_ms = 0.0
        self._num_asked = 0

    @property
    def pays(self) -> bool:
        """By what is known, or as long as too little is."""
        return self.totals.looks < _PATIENCE or self._gain_ms >= self._cost_ms

    def wants_look(self) -> bool:
        """To be asked once for every request."""
        self._num_asked += 1
        wanted = self.pays or self._num_asked % _BETWEEN_PROBES == 0
        self.totals.passed += not wanted
        return wanted

    def looked(
        self, cost_ms: float, num_accepted: int, token_ms: float, *, proposed: bool, whole: bool
    ) -> None:
        """A look took so long, and the model agreed with so many tokens of what it found, each of which would have
        taken a step of `token_ms`. `whole`: that was the answer.
        """
        gain_ms = num_accepted * token_ms
        totals = self.totals
        totals.looks += 1
        totals.proposed += proposed
        totals.right += num_accepted > 0
        totals.whole += whole
        totals.tokens_accepted += num_accepted
        totals.cost_ms += cost_ms
        totals.gain_ms += gain_ms
        weight = max(_FORGET, 1 / totals.looks)
        self._cost_ms += weight * (cost_ms - self._cost_ms)
        self._gain_ms += weight * (gain_ms - self._gain_ms)
