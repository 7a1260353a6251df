"""A model in files: canonical names over a container's tensors. Knows no container and no family."""

from collections.abc import Callable, Iterable
from typing import Protocol

from halfline.errors import DamagedModel, UnsupportedModel
from halfline.model.checkpoint import Tensor
from halfline.model.spec import ModelSpec
from halfline.model.tensor_shapes import Shapes, optional_shapes, required_shapes
from halfline.text.vocab import VocabSpec


class StoredTensors(Protocol):
    """An open container: tensors by the names it gives them."""

    def names(self) -> Iterable[str]: ...

    def tensor(self, name: str) -> Tensor: ...


class FileCheckpoint:
    """A checkpoint that was found complete when it was made, so that what opens can also run.

    The vocabulary is read when first asked for. `arrange` brings a tensor, under its canonical name, into canonical
    form when it is handed out.
    """

    def __init__(
        self,
        spec: ModelSpec,
        stored: "NamedTensors",
        read_vocab: Callable[[], VocabSpec],
        arrange: Callable[[Tensor], Tensor] = lambda tensor: tensor,
    ) -> None:
        """Raises DamagedModel for a missing or misshapen tensor, UnsupportedModel for one too many."""
        self._spec = spec
        self._stored: NamedTensors | None = stored
        self._read_vocab: Callable[[], VocabSpec] | None = read_vocab
        self._vocab: VocabSpec | None = None
        self._arrange = arrange
        stored.check(spec)

    @property
    def spec(self) -> ModelSpec:
        return self._spec

    @property
    def vocab(self) -> VocabSpec:
        if self._vocab is None:
            if self._read_vocab is None:
                raise self._closed()
            self._vocab = self._read_vocab()
        return self._vocab

    def names(self) -> Iterable[str]:
        return self._open().stored_names.keys()

    def tensor(self, name: str) -> Tensor:
        return self._arrange(self._open().tensor(name))

    def close(self) -> None:
        """Let go of the files; they stay mapped until the last tensor handed out is gone."""
        self._stored = self._read_vocab = None

    def _open(self) -> "NamedTensors":
        if self._stored is None:
            raise self._closed()
        return self._stored

    def _closed(self) -> ValueError:
        return ValueError(f"the checkpoint of {self._spec.name} was closed")


class NamedTensors:
    """A container's tensors under canonical names."""

    def __init__(
        self,
        source: str,
        container: StoredTensors,
        canonical: Callable[[str], str | None],
        ignored: Callable[[str], bool],
    ) -> None:
        """`canonical` names a stored tensor; `ignored` ones are known to carry nothing.

        Raises UnsupportedModel for any other: leaving out a weight would quietly give another model.
        """
        self.source = source
        self._container = container
        self.stored_names: dict[str, str] = {}
        for stored in container.names():
            if ignored(stored):
                continue
            name = canonical(stored)
            if name is None:
                raise UnsupportedModel(source, f"the tensor {stored!r} is part of no model supported")
            if name in self.stored_names:
                raise DamagedModel(source, f"{stored!r} and {self.stored_names[name]!r} are the same tensor")
            self.stored_names[name] = stored

    def tensor(self, name: str) -> Tensor:
        stored = self.stored_names.get(name)
        if stored is None:
            raise DamagedModel(self.source, f"the tensor {name!r} is missing")
        tensor = self._container.tensor(stored)
        return Tensor(name, tensor.format, tensor.shape, tensor.data)

    def check(self, spec: ModelSpec) -> None:
        """Every tensor the spec needs is there, everything there belongs to it, and all shapes agree."""
        required, optional = required_shapes(spec), optional_shapes(spec)
        for name, shape in required.items():
            self._check_shape(name, shape)
        for name in sorted(self.stored_names.keys() - required.keys()):
            if name not in optional:
                raise UnsupportedModel(
                    self.source, f"a {spec.family} model with {spec.num_layers} layers has no tensor {name!r}"
                )
            self._check_shape(name, optional[name])
        self._check_biases(spec.num_layers, optional)

    def _check_shape(self, name: str, expected: tuple[int, ...]) -> None:
        found = self.tensor(name).shape
        if found != expected:
            raise DamagedModel(
                self.source, f"the tensor {name!r} has the shape {found} instead of {expected}"
            )

    def _check_biases(self, num_layers: int, optional: Shapes) -> None:
        """A matrix has its bias in every layer or in none: a lost one would pass for an absent one."""
        biases = {
            name.split(".", 2)[2]
            for name in self.stored_names.keys() & optional.keys()
            if name != "head.weight"
        }
        for layer in range(num_layers):
            for bias in biases:
                if f"layers.{layer}.{bias}" not in self.stored_names:
                    raise DamagedModel(self.source, f"the tensor 'layers.{layer}.{bias}' is missing")
