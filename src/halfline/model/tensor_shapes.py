"""Which tensors a model of a given shape has, under their canonical names, and what shape each must be."""

from halfline.model.spec import ModelSpec

Shapes = dict[str, tuple[int, ...]]


def required_shapes(spec: ModelSpec) -> Shapes:
    """Every tensor without which the model cannot run; a matrix is (out, in)."""
    hidden = spec.hidden_size
    shapes: Shapes = {"embed.weight": (spec.vocab_size, hidden)}
    for layer in range(spec.num_layers):
        shapes |= {f"layers.{layer}.{part}.weight": shape for part, shape in _layer_shapes(spec).items()}
        if spec.norm == "layer":
            shapes |= {f"layers.{layer}.{part}.bias": (hidden,) for part in ("attn_norm", "ffn_norm")}
    shapes["final_norm.weight"] = (hidden,)
    if spec.norm == "layer":
        shapes["final_norm.bias"] = (hidden,)
    return shapes


def optional_shapes(spec: ModelSpec) -> Shapes:
    """The untied head, and the biases of matrices."""
    shapes: Shapes = {"head.weight": (spec.vocab_size, spec.hidden_size)}
    for layer in range(spec.num_layers):
        for part, shape in _layer_shapes(spec).items():
            if len(shape) == 2:
                shapes[f"layers.{layer}.{part}.bias"] = shape[:1]
    return shapes


def _layer_shapes(spec: ModelSpec) -> Shapes:
    hidden = spec.hidden_size
    shapes: Shapes = {
        "attn_norm": (hidden,),
        "q": (spec.q_size, hidden),
        "k": (spec.kv_size, hidden),
        "v": (spec.kv_size, hidden),
        "o": (hidden, spec.q_size),
        "ffn_norm": (hidden,),
        "up": (spec.ffn_size, hidden),
        "down": (hidden, spec.ffn_size),
    }
    if spec.gated:
        shapes["gate"] = (spec.ffn_size, hidden)
    if spec.qk_norm:
        shapes |= {"q_norm": (spec.head_dim,), "k_norm": (spec.head_dim,)}
    return shapes
