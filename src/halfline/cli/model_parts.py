"""What a model's files become: an executor and a tokenizer. Needs neither HTTP nor an engine, so it can begin early."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from halfline.cli.kv_size import blocks_in, default_kv_bytes, kv_block_bytes
from halfline.cli.start_up import settle
from halfline.model.content_digest import MEMORY, content_digest
from halfline.model.kv_format import kv_format_named
from halfline.model.load import open_checkpoint
from halfline.model.pull import EMBEDDED, pull_embedded
from halfline.model.spec import ModelSpec
from halfline.model.store import ModelStore
from halfline.native.executor import NativeExecutor
from halfline.settings import Settings
from halfline.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class ModelParts:
    """In memory and ready to run, with nobody to run them yet. `path` is where they came from, `digest` of what the
    files there hold; None: what is computed neither outlives this process nor is shared, so nobody has to know.

    `chat_template` None: the model brings none.
    """

    path: Path
    digest: str | None
    spec: ModelSpec
    executor: NativeExecutor
    tokenizer: Tokenizer
    chat_template: str | None
    load_s: float


def find_model(settings: Settings) -> Path:
    """Where the model lies; the embedded one is fetched when it is not there, with a bar on the terminal.

    Raises ModelNotFound or DownloadFailed.
    """
    store = ModelStore(settings.data_dir)
    if settings.model == EMBEDDED.name and store.find(EMBEDDED.name) is None:
        from halfline.cli.pull_progress import PullProgress  # start-up time: nearly always it is there

        settle()  # a download takes its time
        with PullProgress(EMBEDDED.name) as progress:
            return pull_embedded(store, progress)
    return store.resolve(settings.model)


def load_parts(settings: Settings, path: Path) -> ModelParts:
    """Open the files, pack the weights, build the tokenizer.

    Raises BadModel for files that cannot be run, BadSettings for a KV cache too small to work with.
    """
    started = time.perf_counter()
    with (
        ModelStore(settings.data_dir).repairable(settings.model),
        closing(open_checkpoint(path)) as checkpoint,
        ThreadPoolExecutor(1, "digest") as beside,
    ):
        # At the first start with this file as long as reading it takes; then it is remembered.
        digest = beside.submit(_digest, settings, path)
        spec = checkpoint.spec
        kv_format = kv_format_named(settings.kv_format)
        num_blocks = blocks_in(settings.kv_bytes or default_kv_bytes(), kv_block_bytes(spec, kv_format))
        executor = NativeExecutor(
            checkpoint, num_blocks=num_blocks, num_threads=settings.threads, kv_format=kv_format
        )
        tokenizer = Tokenizer(checkpoint.vocab)
        chat_template = checkpoint.vocab.chat_template
    load_s = time.perf_counter() - started
    return ModelParts(path, digest.result(), spec, executor, tokenizer, chat_template, load_s)


def _digest(settings: Settings, path: Path) -> str | None:
    cache = settings.cache
    outlives = settings.kv_disk_bytes or cache.disk_bytes or cache.redis_url is not None
    return content_digest(path, settings.cache_dir / MEMORY) if outlives else None
