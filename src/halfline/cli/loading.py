"""Builds everything that serves completions around a loaded model.

The one place that knows every part by its class: executor, tokenizer, engine, pipeline.
"""

from dataclasses import dataclass
from math import prod
from pathlib import Path

from halfline.api.chat_template import CHATML, ChatTemplate
from halfline.api.serving import Loaded, ServedModel
from halfline.cli.caches import CacheNumbers, open_caches
from halfline.cli.chunks import open_chunks
from halfline.cli.kv_scope import kv_scope
from halfline.cli.model_parts import ModelParts
from halfline.cli.surroundings import surroundings_of
from halfline.context.order_trial import Trial, try_orders
from halfline.context.templates.library import TaskLibrary
from halfline.engine.handle import EngineHandle
from halfline.errors import BadSettings
from halfline.kv.disk_store import DiskStore
from halfline.model.executor import BLOCK_TOKENS
from halfline.model.tensor_shapes import required_shapes
from halfline.native.executor import NativeExecutor
from halfline.pipeline.complete import CompletionPipeline
from halfline.pipeline.embed import Embedder
from halfline.pipeline.reranking import Reranking
from halfline.settings import Settings
from halfline.text.infill import InfillFormat, InfillOrder, find_infill_format, usable_orders
from halfline.text.tokenizer import Tokenizer
from halfline.warmup.ahead import AheadOfKeystrokes


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


def assemble(settings: Settings, parts: ModelParts) -> Ready:
    """Build the engine and the pipeline, and start the engine's thread; `loaded.close` ends it.

    Raises BadSettings when KV blocks cannot be kept on disk as `kv_disk_bytes` asks, or the model does not know the
    order that `pipeline.infill_order` names.
    """
    executor, tokenizer = parts.executor, parts.tokenizer
    disk = None
    scope = kv_scope(parts.digest, parts.spec, executor.kv_format, executor.block_bytes)
    if settings.kv_disk_bytes:
        disk = DiskStore(settings.cache_dir / "kv", scope, settings.kv_disk_bytes)
    engine = EngineHandle(executor, settings.engine, disk=disk)
    infill = find_infill_format(tokenizer)
    order, trial = _infill_order(settings, executor, tokenizer, infill)
    caches = open_caches(settings, scope)
    chunks = open_chunks(settings, tokenizer)
    pipeline = CompletionPipeline(
        engine,
        tokenizer,
        parts.spec,
        settings.pipeline,
        infill_order=order,
        exact=caches.exact,
        guessing=caches.guessing,
        fragments=caches.fragments,
        surroundings=surroundings_of(settings, tokenizer, parts.spec.vocab_size),
        chunks=chunks,
    )

    def close() -> None:
        # Whoever wanted to finish has had the server's grace period.
        engine.close(0.0)
        caches.close()
        chunks.registry.close()

    # A model that reads what is behind the cursor has no need to choose.
    chosen = pipeline if infill else Reranking(pipeline, pipeline.judge, settings.pipeline)
    model = ServedModel(
        name=_served_name(settings.model),
        max_context=engine.max_sequence_tokens,
        infill_format=None if infill is None else infill.name,
        infill_order=order,
        infill_trial={} if trial is None else {str(key): each for key, each in trial.logprobs.items()},
        family=parts.spec.family,
        num_parameters=sum(map(prod, required_shapes(parts.spec).values())),
        num_bytes=_num_bytes(parts.path),
        modified_at=parts.path.stat().st_mtime,
    )
    ready = Ready(
        loaded=Loaded(
            pipeline=AheadOfKeystrokes(chosen, pipeline.foresight, settings.warmup),
            embedder=Embedder(engine, tokenizer, parts.spec),
            model=model,
            tokenizer=tokenizer,
            chat=ChatTemplate(tokenizer, parts.chat_template or CHATML),
            tasks=TaskLibrary(settings.tasks_dir or settings.data_dir / "tasks"),
            chunks=chunks,
            engine_state=engine.stats,
            failure=lambda: engine.failure,
            close=close,
            ahead_state=lambda: pipeline.suggestions,
            fragments=caches.fragments,
            cache_state=CacheNumbers(caches.store, pipeline.proposals.totals),
        ),
        pipeline=pipeline,
        kernels=executor.isa,
        num_threads=executor.num_threads,
        kv_bytes=executor.num_blocks * executor.block_bytes,
        kv_tokens=executor.num_blocks * BLOCK_TOKENS,
        load_s=parts.load_s,
    )
    # Last: from here on somebody has to close what a failure above would simply have dropped.
    engine.start()
    return ready


def _infill_order(
    settings: Settings, executor: NativeExecutor, tokenizer: Tokenizer, infill: InfillFormat | None
) -> tuple[InfillOrder | None, Trial | None]:
    """What the settings name, or what this model does best; None of a model without an infill format."""
    wanted = settings.pipeline.infill_order
    if infill is None:
        return None, None
    if wanted == "auto":
        trial = try_orders(executor, tokenizer, infill)
        return trial.order, trial
    if wanted not in usable_orders(infill):
        names = ", ".join(usable_orders(infill))
        raise BadSettings(
            f"pipeline.infill_order is {wanted}, this model's prompts can be in the order {names}"
        )
    return wanted, None


def _served_name(name_or_path: str) -> str:
    """What clients are told: a stored model's name as it is, of a path its last part without the extension."""
    return name_or_path if name_or_path.startswith("hf:") else Path(name_or_path).stem


def _num_bytes(path: Path) -> int:
    files = path.iterdir() if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())
