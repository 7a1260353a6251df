"""The container: read like the `gguf` package reads it, and refused when it is damaged."""

import struct
import tracemalloc
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from halfline.errors import DamagedModel, UnsupportedModel
from halfline.model.checkpoint import Tensor, TensorFormat
from halfline.model.gguf import GgufFile
from halfline.model.quantize import quantize


def test_values_and_tensors_are_those_the_gguf_package_reads(tiny_gguf: Any) -> None:
    path = tiny_gguf.write()
    ours, theirs = GgufFile(path), gguf.GGUFReader(path)
    scalars = ours.scalars("")
    for key, value in scalars.items():
        assert value == theirs.get_field(key).contents(), key
    assert ours.strings("tokenizer.ggml.tokens") == tuple(
        theirs.get_field("tokenizer.ggml.tokens").contents()
    )
    types = ours.numbers("tokenizer.ggml.token_type")
    assert types is not None
    assert types.tolist() == theirs.get_field("tokenizer.ggml.token_type").contents()
    assert list(ours.names()) == [tensor.name for tensor in theirs.tensors]
    for expected in theirs.tensors:
        tensor = ours.tensor(expected.name)
        assert tensor.shape == tuple(reversed(expected.shape.tolist()))
        np.testing.assert_array_equal(tensor.data.ravel(), expected.data.view(np.uint8).ravel())


@pytest.mark.parametrize(
    ("kind", "packing", "value"),
    [
        (0, "<B", 255),
        (1, "<b", -1),
        (2, "<H", 65535),
        (3, "<h", -2),
        (4, "<I", 2**32 - 1),
        (5, "<i", -3),
        (6, "<f", 0.5),
        (7, "<?", True),
        (10, "<Q", 2**64 - 1),
        (11, "<q", -4),
        (12, "<d", 0.1),
    ],
)
def test_every_kind_of_number_is_read(tiny_gguf: Any, kind: int, packing: str, value: Any) -> None:
    tiny_gguf.values["one"] = struct.pack("<I", kind) + struct.pack(packing, value)
    tiny_gguf.values["many"] = struct.pack("<IIQ", 9, kind, 3) + struct.pack(packing, value) * 3
    file = GgufFile(tiny_gguf.write())
    assert file.scalars("one") == {"one": value}
    numbers = file.numbers("many")
    assert numbers is not None
    assert numbers.tolist() == [value] * 3


def test_asking_for_another_type_than_is_there_gives_nothing(tiny_gguf: Any) -> None:
    file = GgufFile(tiny_gguf.write())
    assert file.numbers("tokenizer.ggml.tokens") is None
    assert file.strings("tokenizer.ggml.token_type") is None
    assert file.strings("general.name") is None
    assert file.strings("nowhere") is None
    assert file.scalars("tokenizer.ggml.tokens") == {}


def test_version_2_is_read(tiny_gguf: Any) -> None:
    assert "token_embd.weight" in GgufFile(tiny_gguf.write(version=2)).names()


def test_another_alignment_moves_the_data(tiny_gguf: Any) -> None:
    tiny_gguf.values["general.alignment"] = 256
    expected = tiny_gguf.tensors["token_embd.weight"].data
    file = GgufFile(tiny_gguf.write(alignment=256))
    np.testing.assert_array_equal(file.tensor("token_embd.weight").data, expected)


def test_opening_and_viewing_copies_no_tensor(tiny_gguf: Any) -> None:
    big = quantize("big", np.zeros((4096, 1024), dtype=np.float32), TensorFormat.F32)
    tiny_gguf.tensors["big"] = big
    path = tiny_gguf.write()
    tracemalloc.start()
    try:
        file = GgufFile(path)
        tensors = [file.tensor(name) for name in file.names()]
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sum(tensor.data.nbytes for tensor in tensors) > 16 * 2**20
    assert peak_bytes < 2**20


def test_tensors_outlive_the_file_they_came_from(tiny_gguf: Any) -> None:
    expected = tiny_gguf.tensors["token_embd.weight"].data
    tensor = GgufFile(tiny_gguf.write()).tensor("token_embd.weight")
    np.testing.assert_array_equal(tensor.data, expected)


HUGE = [2**20, 10**12, 2**60, 2**63, 2**64 - 1]


@pytest.mark.parametrize("count", HUGE)
@pytest.mark.parametrize("what", ["num_values", "num_tensors"])
def test_an_impossible_count_fails_before_anything_is_made_of_it(
    tiny_gguf: Any, what: str, count: int
) -> None:
    refused_cheaply(tiny_gguf.write(**{what: count}), "the header claims")


@pytest.mark.parametrize("length", HUGE)
def test_an_impossible_length_of_a_text_fails_at_once(tiny_gguf: Any, length: int) -> None:
    tiny_gguf.values["long"] = struct.pack("<IQ", 8, length)
    refused_cheaply(tiny_gguf.write(), "ends")


@pytest.mark.parametrize("length", HUGE)
@pytest.mark.parametrize("kind", [0, 6, 8, 12])
def test_an_impossible_length_of_an_array_fails_at_once(tiny_gguf: Any, kind: int, length: int) -> None:
    tiny_gguf.values["long"] = struct.pack("<IIQ", 9, kind, length)
    refused_cheaply(tiny_gguf.write(), "the header claims")


@pytest.mark.parametrize("length", HUGE)
def test_an_impossible_length_of_a_key_fails_at_once(tiny_gguf: Any, length: int) -> None:
    data = bytearray(tiny_gguf.encoded())
    data[24:32] = struct.pack("<Q", length)
    refused_cheaply(tiny_gguf.write_bytes(bytes(data)), "a name of")


def refused_cheaply(path: Path, reason: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(DamagedModel, match=reason):
            GgufFile(path)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 2**20


@pytest.mark.parametrize(
    ("data", "error", "reason"),
    [
        (b"", DamagedModel, "the file is empty"),
        (b"GG", DamagedModel, "begins with b'GGUF', this one with b'GG'"),
        (b"PK\x03\x04" + bytes(60), DamagedModel, "this one with b'PK"),
        (b"GGUF" + struct.pack("<I", 3), DamagedModel, "ends inside its header"),
        (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), UnsupportedModel, "GGUF version 1"),
        (b"GGUF" + struct.pack("<IQQ", 4, 0, 0), UnsupportedModel, "GGUF version 4"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), UnsupportedModel, "version 3, big-endian"),
    ],
)
def test_what_is_not_such_a_file_is_named(
    tmp_path: Path, data: bytes, error: type[Exception], reason: str
) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(data)
    with pytest.raises(error, match=reason):
        GgufFile(path)


@pytest.mark.parametrize(
    ("value", "error", "reason"),
    [
        (struct.pack("<I", 13), DamagedModel, "type number 13"),
        (struct.pack("<IIQ", 9, 9, 1), UnsupportedModel, "an array of arrays"),
    ],
)
def test_a_value_of_an_odd_type_is_refused(
    tiny_gguf: Any, value: bytes, error: type[Exception], reason: str
) -> None:
    tiny_gguf.values["odd"] = value + bytes(64)
    with pytest.raises(error, match=reason):
        GgufFile(tiny_gguf.write())


@pytest.mark.parametrize("alignment", [0, 3, 48])
def test_an_alignment_that_is_no_power_of_two_is_refused(tiny_gguf: Any, alignment: int) -> None:
    tiny_gguf.values["general.alignment"] = alignment
    with pytest.raises(DamagedModel, match="no power of two"):
        GgufFile(tiny_gguf.write())


def test_an_alignment_that_is_no_number_is_refused(tiny_gguf: Any) -> None:
    tiny_gguf.values["general.alignment"] = "32"
    with pytest.raises(DamagedModel, match="not a u32"):
        GgufFile(tiny_gguf.write())


@pytest.mark.parametrize(
    ("one", "other"), [("general.name", "general.site"), ("blk.0.attn_q.bias", "blk.0.attn_k.bias")]
)
def test_a_name_that_appears_twice_is_refused(tiny_gguf: Any, one: str, other: str) -> None:
    tiny_gguf.values["general.site"] = "here"
    data = tiny_gguf.encoded().replace(one.encode(), other.encode())
    with pytest.raises(DamagedModel, match=f"'{other}' appears twice"):
        GgufFile(tiny_gguf.write_bytes(data))


def test_text_that_is_not_utf_8_is_refused_when_it_is_read(tiny_gguf: Any) -> None:
    tiny_gguf.values["general.author"] = struct.pack("<IQ", 8, 2) + b"\xff\xfe"
    file = GgufFile(tiny_gguf.write())
    assert file.scalars("general.name") == {"general.name": "tiny"}
    with pytest.raises(DamagedModel, match=r"'general\.author' holds text that is not UTF-8"):
        file.scalars("general.author")


def test_a_tensor_past_the_end_is_refused_by_name(tiny_gguf: Any) -> None:
    data = tiny_gguf.encoded()
    last = list(tiny_gguf.tensors)[-1]
    file = GgufFile(tiny_gguf.write_bytes(data[:-64]))
    with pytest.raises(DamagedModel, match=rf"'{last}' ends \d+ bytes past the end"):
        file.tensor(last)


def test_a_format_we_do_not_read_is_named_beside_those_we_do(tiny_gguf: Any) -> None:
    data = tiny_gguf.encoded()
    name = b"token_embd.weight"
    at = data.index(name) + len(name) + 4 + 2 * 8
    changed = data[:at] + struct.pack("<I", 10) + data[at + 4 :]
    with pytest.raises(UnsupportedModel, match=r"stored as Q2_K; the formats supported are F32, F16, Q4_0"):
        GgufFile(tiny_gguf.write_bytes(changed)).tensor("token_embd.weight")


def test_rows_that_are_no_whole_blocks_are_refused(tiny_gguf: Any) -> None:
    data = np.zeros((2, 18), dtype=np.uint8)
    tiny_gguf.tensors["odd"] = Tensor("odd", TensorFormat.Q4_0, (2, 33), data)
    with pytest.raises(DamagedModel, match="33 values, Q4_0 needs a multiple of 32"):
        GgufFile(tiny_gguf.write()).tensor("odd")


@pytest.mark.parametrize("shape", [(), (1, 1, 1, 1, 1), (0, 4), (2**62, 2**62, 2**62)])
def test_an_impossible_shape_is_refused(tiny_gguf: Any, shape: tuple[int, ...]) -> None:
    tiny_gguf.tensors["odd"] = Tensor("odd", TensorFormat.F32, shape, np.zeros((1, 4), dtype=np.uint8))
    with pytest.raises(DamagedModel, match="'odd'"):
        GgufFile(tiny_gguf.write()).tensor("odd")
