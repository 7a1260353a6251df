"""A file to complete in: its last line waits for its end."""

import math


class Circle:
    def __init__(self, radius: float) -> None:
        self.radius = radius

    def area(self) -> float:
        return math.pi * self.radius**2

    def circumference(self) -> float:
        return 2 *
