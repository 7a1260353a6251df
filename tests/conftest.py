"""Fixtures that more than one folder of tests needs."""

import os
from pathlib import Path

import platformdirs
import pytest

from halfline.model.pull import pull_embedded
from halfline.model.store import ModelStore


@pytest.fixture(scope="session")
def embedded_model() -> Path:
    """The embedded model's GGUF file out of the user's own store, fetched (93 MB) if it is not there yet."""
    data_dir = os.environ.get("HALFLINE_DATA_DIR") or platformdirs.user_data_path("halfline")
    return pull_embedded(ModelStore(Path(data_dir)), lambda stage, done_bytes, total_bytes: None)


@pytest.fixture
def anyio_backend() -> str:
    """What tests that are coroutines run on."""
    return "asyncio"
