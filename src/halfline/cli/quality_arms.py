"""Builds the arms of a comparison out of settings: a model each, with a fault in it where one is planted."""

import importlib.metadata
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from halfline.cli.model_parts import ModelParts, find_model, load_parts
from halfline.cli.surroundings import surroundings_of
from halfline.context.order_trial import try_orders
from halfline.errors import BadSettings
from halfline.model.content_digest import MEMORY, content_digest
from halfline.model.executor import Executor
from halfline.model.load import open_checkpoint
from halfline.quality.comparison.arm import Arm, Way
from halfline.quality.configuration import read_configuration
from halfline.quality.damage import PLANTS, BlanksApart
from halfline.settings import Settings, load_settings
from halfline.text.infill import InfillOrder, find_infill_format
from halfline.text.tokenizer import Tokenizer

PLANT_NAMES = (*PLANTS, "tokenizer")

_ANSWERS = {"model", "kv_format", "kv_bytes", "threads", "engine", "pipeline", "context"}
"""Settings and tables of them that an arm follows; of `api` also the profile. The rest is about where things lie, who
may ask, and what is done when nobody asks.
"""

_PROFILES = ("profile", "profiles")


@dataclass(frozen=True, slots=True)
class Side:
    """What one arm is: its settings, and where its model lies. Nothing is loaded yet."""

    settings: Settings
    path: Path
    model_sha256: str

    def record(self) -> dict[str, Any]:
        """Everything about it that answers depend on."""
        known = self.settings.model_dump(mode="json", include=_ANSWERS | {"api"})
        api = known.pop("api")
        return {
            "model_sha256": self.model_sha256,
            **known,
            **{f"api.{name}": api[name] for name in _PROFILES},
        }


def version() -> str:
    return importlib.metadata.version("halfline")


def sides(baseline: str, candidate: str, flags: Mapping[str, object], file: Path | None) -> tuple[Side, Side]:
    """From two configurations over the same `flags` and settings file. Raises HalflineError."""
    digests: dict[Path, str] = {}

    def side(words: str) -> Side:
        chosen = read_configuration(words)
        settings = load_settings({**flags, **chosen}, file)
        for name in chosen:
            if name.split(".")[0] not in _ANSWERS and name not in [f"api.{each}" for each in _PROFILES]:
                raise BadSettings(f"{name} makes no difference to what is compared; leave it out")
        path = find_model(settings)
        if path not in digests:
            digests[path] = content_digest(path, settings.cache_dir / MEMORY)
        return Side(settings, path, digests[path])

    return side(baseline), side(candidate)


def load_arm(side: Side, max_tokens: int, plant: str | None = None) -> Arm:
    """Raises HalflineError. `plant`: one of PLANT_NAMES."""
    parts = load_parts(side.settings, side.path)
    executor, tokenizer = _damaged(parts, plant)
    way = Way(
        engine=side.settings.engine,
        pipeline=side.settings.pipeline,
        params=side.settings.api.find_profile(None).params,
        order=_order(side.settings, parts),
        surroundings=surroundings_of(side.settings, tokenizer, parts.spec.vocab_size),
        max_tokens=max_tokens,
    )
    return Arm(executor, tokenizer, way)


def _damaged(parts: ModelParts, plant: str | None) -> tuple[Executor, Tokenizer]:
    if plant is None:
        return parts.executor, parts.tokenizer
    if plant == "tokenizer":
        with closing(open_checkpoint(parts.path)) as checkpoint:
            return parts.executor, BlanksApart(checkpoint.vocab)
    wrap: Callable[[Executor], Executor] = PLANTS[plant]
    return wrap(parts.executor), parts.tokenizer


def _order(settings: Settings, parts: ModelParts) -> InfillOrder | None:
    """As `serve` would choose; both arms of one model try it on the sound executor."""
    infill = find_infill_format(parts.tokenizer)
    if infill is None:
        return None
    wanted = settings.pipeline.infill_order
    return try_orders(parts.executor, parts.tokenizer, infill).order if wanted == "auto" else wanted


def check_comparable(baseline: Side, candidate: Side) -> None:
    """Raises BadSettings for models that do not share a vocabulary: nothing can be said of their tokens."""
    with (
        closing(open_checkpoint(baseline.path)) as one,
        closing(open_checkpoint(candidate.path)) as other,
    ):
        if one.vocab.tokens != other.vocab.tokens or one.spec.vocab_size != other.spec.vocab_size:
            raise BadSettings("the two models do not share a vocabulary, so their tokens cannot be compared")
