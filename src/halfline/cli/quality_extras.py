"""Says before anything is loaded which optional packages a comparison lacks."""

from importlib.util import find_spec

from halfline.document.syntax_tree import has_grammars
from halfline.errors import MissingExtra


def check_extras() -> None:
    """Raises MissingExtra."""
    if find_spec("rapidfuzz") is None or find_spec("sacrebleu") is None:
        raise MissingExtra("comparing answers", "quality")
    if not has_grammars():
        raise MissingExtra("comparing answers", "syntax")
