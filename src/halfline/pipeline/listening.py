"""Several who hear the same answer as it is computed."""

from halfline.engine.sequence import Progress
from halfline.pipeline.typed_through import Listen


class Listeners:
    """A listener that tells all of its own, in the order in which they came."""

    def __init__(self) -> None:
        self._listeners: list[Listen] = []

    def add(self, listen: Listen) -> None:
        self._listeners.append(listen)

    def __call__(self, position: int, progress: Progress) -> None:
        for listen in self._listeners:
            listen(position, progress)
