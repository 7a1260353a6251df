"""Tiny random models of `transformers`, saved, and asked for their logits: the oracle for every family."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from halfline.model.checkpoint import Checkpoint
from halfline.model.executor import BLOCK_TOKENS, CAUSAL, Batch
from halfline.model.reference import ReferenceExecutor

SHAPE = {
    "vocab_size": 100,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "bos_token_id": 1,
    "eos_token_id": 2,
}

Oracle = Callable[..., PreTrainedModel]


@pytest.fixture(scope="session")
def oracle() -> Oracle:
    """Makes a model with every parameter random, biases and norms too."""

    def make(model_type: str, **differences: Any) -> PreTrainedModel:
        config = AutoConfig.for_model(model_type, **(SHAPE | differences))
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="eager")
        generator = torch.Generator().manual_seed(7)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                noise = torch.randn(parameter.shape, generator=generator)
                norm = name.endswith("norm.weight") or "layernorm.weight" in name
                parameter.copy_(1 + noise / 8 if norm else noise / 4)
        return model.eval()

    return make


@pytest.fixture(scope="session")
def token_ids() -> NDArray[np.int32]:
    return np.random.default_rng(3).integers(0, SHAPE["vocab_size"], 40, dtype=np.int32)


@pytest.fixture(scope="session")
def oracle_logits(token_ids: NDArray[np.int32]) -> Callable[[PreTrainedModel], NDArray[np.float64]]:
    def logits(model: PreTrainedModel) -> NDArray[np.float64]:
        with torch.no_grad():
            ids = torch.from_numpy(token_ids.astype(np.int64))[None]
            return copy.deepcopy(model).double()(ids, use_cache=False).logits[0].numpy()

    return logits


@pytest.fixture(scope="session")
def reference_logits(token_ids: NDArray[np.int32]) -> Callable[[Checkpoint], NDArray[np.float32]]:
    def logits(checkpoint: Checkpoint) -> NDArray[np.float32]:
        num_blocks = -(-len(token_ids) // BLOCK_TOKENS)
        batch = Batch(
            token_ids=token_ids,
            row_starts=np.array([0, len(token_ids)], dtype=np.int32),
            first_places=np.array([0], dtype=np.int32),
            block_tables=np.arange(num_blocks, dtype=np.int32)[None],
            masks=[CAUSAL],
            logit_rows=np.arange(len(token_ids), dtype=np.int32),
            hidden_rows=np.array([], dtype=np.int32),
        )
        outputs = ReferenceExecutor(checkpoint, num_blocks).run(batch)
        assert outputs is not None
        return outputs.logits

    return logits


@pytest.fixture
def saved(tmp_path: Path) -> Callable[..., Path]:
    """Saves a model as a Hugging Face directory."""

    def save(model: PreTrainedModel, **options: Any) -> Path:
        directory = tmp_path / "model"
        model.save_pretrained(directory, **options)
        return directory

    return save
