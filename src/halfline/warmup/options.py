"""What an operator may turn about computing ahead."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmupOptions:
    """What may come next is computed in pauses, as idle work: a keystroke never waits for it."""

    share: float = 0.5
    """Time that the engine may compute ahead after each answer, as a share of the usual time between two keystrokes,
    which counts as one second at most; 0 turns it off."""

    pause_ms: float = 50.0
    """While anything else is computed, how long a document has to be quiet before it is computed ahead for."""

    max_guesses: int = 3
    """Most answers that are computed ahead at once."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.share <= 10.0:
            raise ValueError(f"share is {self.share}, it must be between 0 and 10")
        if self.pause_ms < 0.0:
            raise ValueError(f"pause_ms is {self.pause_ms}, it must not be negative")
        if self.max_guesses < 1:
            raise ValueError(f"max_guesses is {self.max_guesses}, it must be at least 1")
