"""Whether `serve` may start with settings that lose something (C10)."""

from importlib.metadata import version
from pathlib import Path

from halfline.errors import Unproved
from halfline.model.content_digest import MEMORY, content_digest
from halfline.quality.proofs import find, lossy
from halfline.settings import Settings


def check_proved(settings: Settings, model: Path) -> None:
    """Reads the model's files whole, only where something is lost and only the first time. Raises Unproved, and
    BadSettings for proofs that cannot be read.
    """
    lost = lossy(settings.model_dump(mode="json"))
    if not lost or settings.allow_unproved:
        return
    running = version("halfline")
    digest = content_digest(model, settings.cache_dir / MEMORY)
    proof = find(settings.data_dir, digest, lost, running)
    if proof is None:
        raise Unproved(lost, f"this model has passed no gate with it in version {running}")
    if not proof.passed:
        raise Unproved(lost, f"this model failed the gate {proof.arm} with it on {proof.date}")
