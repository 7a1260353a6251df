"""How many rows a step may have to be done in time, learned from the steps that ran.

A row of a prompt costs its share of the weights' arithmetic, and attention over everything before it. So the time per
row is kept by how much there is before it, in classes that double:

    places before   < 256   < 512   < 1024   < 2048 ...
    ms per row       0.9     0.95     1.1       ?         nearest known class below, else above

Each is a moving average. A step has a fixed part too, so time per row falls with the rows; the number of rows that
follows from it settles where a step takes just the time it may. Reads no clock; what it says changes when a token
comes, never which.
"""

from halfline.model.executor import BLOCK_TOKENS

_NEWS = 0.25  # what the latest step counts for in the average
_OUTLIER = 3.0  # a step that took longer than so many times the expected is mostly an accident of the machine
_UNKNOWN_ROWS = 4 * BLOCK_TOKENS  # before anything was measured
_FIRST_CLASS = 256


class StepBudget:
    """For one executor and its machine."""

    def __init__(self, step_ms: float) -> None:
        self._step_ms = step_ms
        self._row_ms: dict[int, float] = {}  # by class of context

    def max_rows(self, context: int) -> int:
        """Rows of a step of at most `step_ms`, when `context` places are before them; at least one block."""
        row_ms = self._expected(_class_of(context))
        if row_ms is None:
            return _UNKNOWN_ROWS
        return max(BLOCK_TOKENS, int(self._step_ms / row_ms))

    def learn(self, num_rows: int, context: float, step_ms: float) -> None:
        """A step with some prompt in it took so long. `context`: places before a row, on average."""
        if step_ms <= 0.0:
            return  # the clock's resolution: nothing was measured
        context_class = _class_of(context)
        measured = step_ms / num_rows
        known = self._row_ms.get(context_class)
        if known is None:
            self._row_ms[context_class] = measured
        else:
            self._row_ms[context_class] += _NEWS * (min(measured, _OUTLIER * known) - known)

    def _expected(self, context_class: int) -> float | None:
        if not self._row_ms:
            return None
        below = [each for each in self._row_ms if each <= context_class]
        return self._row_ms[max(below) if below else min(self._row_ms)]


def _class_of(context: float) -> int:
    return (int(context) // _FIRST_CLASS).bit_length()
