"""How many rows a step may have to be done in time, learned from the steps that ran.

A step has a fixed part, and a row of a prompt costs its share of the weights' arithmetic, and attention over all that
is before it. Steps of fewer rows than a block teach the fixed part, longer ones the time per row, which is kept by how
much there is before it, in classes that double:

    places before   < 256   < 512   < 1024   < 2048 ...
    ms per row       0.9     0.95     1.1       ?         nearest known class below, else above

Each is a moving average, and half of all steps take longer than an average. So a third thing is learned: how many times
the expected all but one step in twenty take (a quantile that is nudged up and down by its own odds; Robbins and Monro,
1951). That, not the average, is held below what a step may take. Reads no clock; what it says changes when a token
comes, never which.
"""

from halfline.model.executor import BLOCK_TOKENS

_NEWS = 0.25  # what the latest step counts for in an average
_OUTLIER = 3.0  # a step that took longer than so many times the expected is mostly an accident of the machine
_IN_TIME = 0.95  # share of steps that are to be
_NUDGE = 0.1
_UNKNOWN_ROWS = 4 * BLOCK_TOKENS  # at least, before any were measured
_FIRST_CLASS = 256


class StepBudget:
    """For one executor and its machine."""

    def __init__(self) -> None:
        self._fixed_ms = 0.0
        self._row_ms: dict[int, float] = {}  # by class of context
        self._lateness = 1.0  # in times the expected

    def max_rows(self, context: int, step_ms: float) -> int:
        """Rows of a step of at most `step_ms`, when `context` places are before them; at least one block."""
        row_ms = self._expected_row_ms(_class_of(context))
        if row_ms is None:  # one takes no longer than a short step
            return max(_UNKNOWN_ROWS, int(step_ms / self._fixed_ms) if self._fixed_ms else 0)
        return max(BLOCK_TOKENS, int((step_ms / self._lateness - self._fixed_ms) / row_ms))

    def learn(self, num_rows: int, context: float, step_ms: float) -> None:
        """A step took so long. `context`: places before a row, on average."""
        if step_ms <= 0.0:
            return  # the clock's resolution: nothing was measured
        context_class = _class_of(context)
        row_ms = self._expected_row_ms(context_class)
        if row_ms is not None:
            expected_ms = self._fixed_ms + num_rows * row_ms
            if num_rows >= BLOCK_TOKENS:
                self._was_late(step_ms > self._lateness * expected_ms)
            step_ms = min(step_ms, _OUTLIER * expected_ms)
        if num_rows < BLOCK_TOKENS:
            measured = max(0.0, step_ms - num_rows * (row_ms or 0.0))
            self._fixed_ms += _NEWS * (measured - self._fixed_ms)
        else:
            measured = max(step_ms - self._fixed_ms, step_ms / 2) / num_rows  # never for nothing
            known = self._row_ms.get(context_class, measured)
            self._row_ms[context_class] = known + _NEWS * (measured - known)

    def _was_late(self, late: bool) -> None:
        odds = _IN_TIME if late else _IN_TIME - 1.0
        self._lateness = min(max(1.0, self._lateness + _NUDGE * odds), _OUTLIER)

    def _expected_row_ms(self, context_class: int) -> float | None:
        if not self._row_ms:
            return None
        below = [each for each in self._row_ms if each <= context_class]
        return self._row_ms[max(below) if below else min(self._row_ms)]


def _class_of(context: float) -> int:
    return (int(context) // _FIRST_CLASS).bit_length()
