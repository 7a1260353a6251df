import pytest

from halfline.errors import DamagedModel
from halfline.model.checkpoint import TensorFormat
from halfline.model.random_model import BOS_ID, EOS_ID, byte_vocab, random_checkpoint
from halfline.model.spec import Family
from halfline.model.tensor_shapes import optional_shapes, required_shapes


@pytest.mark.parametrize("family", ["llama", "mistral", "qwen2", "qwen3", "starcoder2", "granite"])
@pytest.mark.parametrize("tied", [True, False])
def test_a_random_model_has_every_tensor_in_its_shape(family: Family, tied: bool) -> None:
    checkpoint = random_checkpoint(family=family, tied=tied, head_dim=32)
    required, optional = required_shapes(checkpoint.spec), optional_shapes(checkpoint.spec)
    names = set(checkpoint.names())
    assert required.keys() <= names <= required.keys() | optional.keys()
    assert ("head.weight" in names) is not tied
    for name in names:
        assert checkpoint.tensor(name).shape == (required | optional)[name]


def test_only_matrices_are_quantised() -> None:
    checkpoint = random_checkpoint(family="starcoder2", format=TensorFormat.Q4_0)
    for name in checkpoint.names():
        tensor = checkpoint.tensor(name)
        assert tensor.format is (TensorFormat.Q4_0 if len(tensor.shape) == 2 else TensorFormat.F32)


def test_the_same_seed_gives_the_same_weights_and_another_gives_others() -> None:
    def q(seed: int) -> bytes:
        return random_checkpoint(seed=seed).tensor("layers.0.q.weight").data.tobytes()

    assert q(1) == q(1)
    assert q(1) != q(2)


def test_a_missing_tensor_is_named() -> None:
    with pytest.raises(DamagedModel, match=r"'layers\.9\.q\.weight' is missing"):
        random_checkpoint().tensor("layers.9.q.weight")


def test_the_vocabulary_is_one_token_for_each_byte_and_two_marks() -> None:
    vocab = byte_vocab(300)
    assert len(set(vocab.tokens)) == len(vocab.token_types) == 300
    assert vocab.tokens[ord("a")] == "a"
    assert vocab.tokens[ord(" ")] == "Ġ"
    assert vocab.tokens[ord("\n")] == "Ċ"
    assert (vocab.tokens[BOS_ID], vocab.tokens[EOS_ID]) == ("<bos>", "<eos>")
    assert vocab.token_types[254:260] == (1, 1, 3, 3, 5, 5)
