"""Where a sequence's time goes: it waits, or its prompt is computed, or its output is."""

from dataclasses import dataclass


@dataclass(slots=True)
class Phases:
    """The seconds of each, which add up to those from `told_until`, at first the submission, to the end.

    Steps are numbered from 1. A sequence waits in every step that has no rows for it, and in one that was abandoned;
    what passes between two steps that follow each other belongs to the second.
    """

    told_until: float
    queue_s: float = 0.0
    prefill_s: float = 0.0
    decode_s: float = 0.0
    _last_step: int = -1  # before the first, so that whatever comes first was waited for
    _decodes: bool = False

    def ran(self, step: int, planned_at: float, now: float, *, decodes: bool) -> None:
        """It had rows in this step; `decodes`: its first token came in an earlier one."""
        if step > self._last_step + 1:
            self.queue_s += planned_at - self.told_until
            self.told_until = planned_at
        self._decodes = decodes
        self._add(now)
        self._last_step = step

    def ended(self, last_step: int, now: float) -> None:
        """No step comes any more; `last_step` is the last there was."""
        if last_step == self._last_step:
            self._add(now)
        else:
            self.queue_s += now - self.told_until
            self.told_until = now

    def _add(self, now: float) -> None:
        passed, self.told_until = now - self.told_until, now
        if self._decodes:
            self.decode_s += passed
        else:
            self.prefill_s += passed
