"""How files say that layers see only a window of what came before."""

from halfline.errors import UnsupportedModel
from halfline.model.facts import Facts

_LAYER_TYPES = {"full_attention": False, "sliding_attention": True}


def config_window(config: Facts) -> int | None:
    return config.integer("sliding_window") if config.has("sliding_window") else None


def metadata_window(metadata: Facts) -> int | None:
    """GGUF writers say 0, or nothing, for none."""
    return metadata.integer("attention.sliding_window", 0, minimum=0) or None


def qwen_window(config: Facts, num_layers: int) -> tuple[int | None, tuple[bool, ...] | None]:
    """Qwen's window and which layers have it: those named in `layer_types`, else all from `max_window_layers` on."""
    if not config.flag("use_sliding_window", False):
        return None, None
    window = config_window(config)
    layer_types = config.values.get("layer_types")
    if layer_types is None:
        first = config.integer("max_window_layers", 28, minimum=0)
        return window, tuple(layer >= first for layer in range(num_layers))
    if not isinstance(layer_types, list) or len(layer_types) != num_layers:
        raise config.damaged(f"`layer_types` is {layer_types!r}, not a list of {num_layers}")
    supported = [*_LAYER_TYPES]  # a list, because what came from JSON need not be hashable
    unknown = [layer_type for layer_type in layer_types if layer_type not in supported]
    if unknown:
        raise UnsupportedModel(config.source, f"layers of type {unknown[0]!r}; supported are {supported}")
    return window, tuple(_LAYER_TYPES[layer_type] for layer_type in layer_types)
