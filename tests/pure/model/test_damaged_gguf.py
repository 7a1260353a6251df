"""Damage of every kind: whatever the bytes, opening a model works or raises one of our errors, quickly."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from halfline.errors import DamagedModel, HalflineError
from halfline.model.dequantize import dequantize
from halfline.model.load import open_checkpoint

# No example changes the fixture, so it need not be made anew for each.
EACH_ON_THE_SAME_FILE = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def use(path: Path) -> None:
    """All that can be asked of a model file."""
    checkpoint = open_checkpoint(path)
    assert checkpoint.vocab.tokens
    for name in checkpoint.names():
        dequantize(checkpoint.tensor(name))


def header_length(tiny: Any) -> int:
    data_bytes = sum(-(-tensor.data.nbytes // 32) * 32 for tensor in tiny.tensors.values())
    return len(tiny.encoded()) - data_bytes


def test_the_undamaged_file_can_be_used(tiny_gguf: Any) -> None:
    use(tiny_gguf.write())


def test_a_file_cut_anywhere_is_called_damaged(tiny_gguf: Any) -> None:
    tiny_gguf.values["tokenizer.ggml.tokens"] = ("a", "b", "c")  # a short header can be cut at every byte
    tiny_gguf.values["tokenizer.ggml.token_type"] = (1, 1, 1)
    tiny_gguf.values["tokenizer.ggml.bos_token_id"] = tiny_gguf.values["tokenizer.ggml.eos_token_id"] = 2
    path, size = tiny_gguf.write(), len(tiny_gguf.encoded())
    use(path)
    inside_header = range(header_length(tiny_gguf))
    inside_data = range(len(inside_header), size, 997)
    for stop in reversed((*inside_header, *inside_data, size - 1)):
        os.truncate(path, stop)
        with pytest.raises(DamagedModel):
            use(path)


@settings(EACH_ON_THE_SAME_FILE, max_examples=200)
@given(random=st.randoms(use_true_random=False), num_flips=st.integers(1, 8))
def test_flipped_bytes_raise_our_errors_or_nothing(tiny_gguf: Any, random: Any, num_flips: int) -> None:
    data = bytearray(tiny_gguf.encoded())
    for _ in range(num_flips):
        data[random.randrange(header_length(tiny_gguf))] = random.choice(
            [0, 1, 2, 9, 127, 128, 255, random.randrange(256)]
        )
    try:
        use(tiny_gguf.write_bytes(bytes(data)))
    except HalflineError:
        pass


@settings(EACH_ON_THE_SAME_FILE, max_examples=100)
@given(tail=st.binary(max_size=200))
def test_any_bytes_after_the_magic_raise_our_errors(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / "noise.gguf"
    path.write_bytes(b"GGUF\x03\0\0\0" + tail)
    with pytest.raises(HalflineError):
        use(path)
