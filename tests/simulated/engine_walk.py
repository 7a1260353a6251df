"""Steps through the engine's world chosen by one seed: a state machine's without the machine, which is far faster and
shrinks nothing.
"""

from pathlib import Path
from random import Random

from engine_world import KEYS, KINDS, PRIORITIES, Action, Shape, World, prompt_of

_WEIGHTS = {"ask": 2, "ask after": 2, "call off": 1, "step": 12, "save": 3, "work on disk": 4, "wait": 1}


class Walk:
    def __init__(self, directory: Path, seed: int, *, max_open: int = 12) -> None:
        self.random = Random(seed)
        self.world = World(directory, self.random)
        self._max_open = max_open

    def take(self, num_steps: int) -> dict[str, int]:
        """How often what happened."""
        for _ in range(num_steps):
            self._take_one()
            self.world.check()
        self.world.finish()
        return self.world.counts

    def _take_one(self) -> None:
        if self.random.random() < 0.008:
            return self.world.break_down(*self._events())
        if self.random.random() < 0.003:
            return self.world.kill()
        match self.random.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]:
            case "ask":
                self._ask()
            case "ask after":
                self._ask_after()
            case "call off":
                self._call_off()
            case "step":
                self.world.step(*(self._events() if self.random.random() < 0.2 else ()))
            case "save":
                self.world.save()
            case "work on disk":
                self.world.work_on_disk()
            case "wait":
                self.world.now += self.random.choice([0.1, 0.6])

    def _events(self) -> list[Action]:
        if self.random.random() < 0.2:
            return [self.world.call_off_all]
        return self.random.choices([self._ask, self._ask_after, self._call_off], k=self.random.randint(0, 3))

    def _ask(self) -> None:
        if len(self.world.open) > self._max_open:
            self._call_off()
        blocks = self.random.choices([0, 1], k=self.random.randint(0, 4))
        self.world.ask(prompt_of(blocks, self._some_tokens()), self._some_shape())

    def _ask_after(self) -> None:
        if len(self.world.open) > self._max_open:
            self._call_off()
        self.world.ask_after(self.random.randrange(100), self._some_tokens(), self._some_shape())

    def _call_off(self) -> None:
        self.world.call_off(self.random.randrange(100))

    def _some_tokens(self) -> list[int]:
        return self.random.choices([0, 1], [8, 1], k=self.random.randint(1, 20))

    def _some_shape(self) -> Shape:
        return Shape(
            max_new_tokens=self.random.randint(0, 20),
            priority=self.random.choices(PRIORITIES, [3, 1, 1])[0],
            key=self.random.choice(KEYS),
            user=self.random.choice("ab"),
            file=self.random.choice([None, None, 0, 1]),
            kind=self.random.choices(KINDS, [5, 1, 1, 1])[0],
        )
