"""Builds everything that serves completions, from settings and a model's files.

The one place that knows every part by its class: files, tokenizer, executor, engine, pipeline.
"""

import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from halfline.api.serving import Loaded, ServedModel
from halfline.cli.kv_scope import kv_scope
from halfline.cli.kv_size import blocks_in, default_kv_bytes, kv_block_bytes
from halfline.cli.pull_progress import PullProgress
from halfline.engine.handle import EngineHandle
from halfline.kv.disk_store import DiskStore
from halfline.model.executor import BLOCK_TOKENS
from halfline.model.load import open_checkpoint
from halfline.model.pull import EMBEDDED, pull_embedded
from halfline.model.store import ModelStore
from halfline.native.executor import NativeExecutor
from halfline.pipeline.complete import CompletionPipeline
from halfline.settings import Settings
from halfline.text.infill import find_infill_format
from halfline.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Ready:
    """What was loaded, and the facts a person wants to see at start."""

    loaded: Loaded
    pipeline: CompletionPipeline
    kernels: str
    num_threads: int
    kv_bytes: int
    kv_tokens: int
    load_s: float


def find_model(settings: Settings) -> Path:
    """Where the model lies; the embedded one is fetched when it is not there, with a bar on the terminal.

    Raises ModelNotFound or DownloadFailed.
    """
    store = ModelStore(settings.data_dir)
    if settings.model == EMBEDDED.name and store.find(EMBEDDED.name) is None:
        with PullProgress(EMBEDDED.name) as progress:
            return pull_embedded(store, progress)
    return store.resolve(settings.model)


def load_model(settings: Settings, path: Path) -> Ready:
    """Open the files, build every part and start the engine's thread.

    Raises BadModel for files that cannot be run, BadSettings for a KV cache too small to work with.
    """
    started = time.perf_counter()
    with closing(open_checkpoint(path)) as checkpoint:
        spec = checkpoint.spec
        num_blocks = blocks_in(settings.kv_bytes or default_kv_bytes(), kv_block_bytes(spec))
        executor = NativeExecutor(checkpoint, num_blocks=num_blocks, num_threads=settings.threads)
        tokenizer = Tokenizer(checkpoint.vocab)
    disk = None
    if settings.kv_disk_bytes:
        scope = kv_scope(path, spec, executor.block_bytes)
        disk = DiskStore(settings.cache_dir / "kv", scope, settings.kv_disk_bytes)
    engine = EngineHandle(executor, settings.engine, disk=disk)
    pipeline = CompletionPipeline(engine, tokenizer, spec, settings.pipeline)
    engine.start()
    infill = find_infill_format(tokenizer)
    model = ServedModel(
        name=_served_name(settings.model),
        max_context=engine.max_sequence_tokens,
        infill_format=None if infill is None else infill.name,
    )
    return Ready(
        loaded=Loaded(
            pipeline=pipeline,
            model=model,
            engine_state=engine.stats,
            failure=lambda: engine.failure,
            # Whoever wanted to finish has had the server's grace period.
            close=lambda: engine.close(0.0),
        ),
        pipeline=pipeline,
        kernels=executor.isa,
        num_threads=executor.num_threads,
        kv_bytes=num_blocks * executor.block_bytes,
        kv_tokens=num_blocks * BLOCK_TOKENS,
        load_s=time.perf_counter() - started,
    )


def _served_name(name_or_path: str) -> str:
    """What clients are told: a stored model's name as it is, of a path its last part without the extension."""
    return name_or_path if name_or_path.startswith("hf:") else Path(name_or_path).stem
