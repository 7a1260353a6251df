"""The whole engine benchmark: who takes part, the rounds, and everything that is measured beside them.

Knows how the parts of this package are put together, not how results are shown.
"""

import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from halfline.bench.allocation import Blocks, Doubling, Waste, editor_requests, replay
from halfline.bench.first_token import FirstToken, blocks_needed, measure_first_token
from halfline.bench.limits import Limits, measure_limits
from halfline.bench.ours import OurEngine
from halfline.bench.parts import Part, decode_parts, prefill_blocks, prefill_parts
from halfline.bench.peers import llama_cpp
from halfline.bench.peers.failed import PeerFailed
from halfline.bench.peers.worker import Worker
from halfline.bench.resident import Resident, measure_resident
from halfline.bench.rounds import Contestant, Round, take_turns
from halfline.bench.steps import blocks_for
from halfline.bench.work import ModelWork, Work, count, main_format
from halfline.bench.workloads import FULL, QUICK, Sizes, Workload
from halfline.model.load import open_checkpoint
from halfline.native.executor import NativeExecutor

_PEERS = Path(__file__).parent / "peers"
LLAMA_FORMATS = ("Q4_1", "Q4_0", "Q8_0", "F16")
OPENVINO_FORMATS = ("Q4_0", "Q8_0", "F16")  # what its GGUF reader takes
_REPLAYED, _SLOTS = 400, 16


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """`llama_programs` is a folder with llama-bench, `openvino_python` an interpreter with openvino-genai.

    `isa` None is this machine's best instruction path; a peer that is None stays away.
    """

    model: Path
    cache_dir: Path
    num_rounds: int
    num_threads: int
    isa: str | None
    quick: bool
    llama_programs: Path | None
    openvino_python: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineResult:
    """Everything measured. `limits` has one entry per round."""

    ours: str
    model_format: str
    sizes: Sizes
    rounds: list[Round]
    limits: list[Limits]
    steps: dict[Workload, Work]
    tokens_per_step: dict[Workload, int]
    parts: dict[str, list[Part]]
    resident: Resident
    waste: dict[str, Waste]
    first_token: FirstToken
    peer_versions: dict[str, str]
    absent: dict[str, str]
    """Peers that were asked for and did not run, with the reason."""


def run_engine(options: EngineOptions, progress: Callable[[str], None]) -> EngineResult:
    """Minutes. Raises BadModel, or PeerFailed when a peer that has started does not finish its turn."""
    sizes = QUICK if options.quick else FULL
    absent: dict[str, str] = {}
    versions: dict[str, str] = {}
    with closing(open_checkpoint(options.model)) as checkpoint:
        spec, work, model_format = checkpoint.spec, count(checkpoint), main_format(checkpoint)

        def executor_of(num_blocks: int) -> NativeExecutor:
            return NativeExecutor(
                checkpoint, num_blocks=num_blocks, num_threads=options.num_threads, isa=options.isa
            )

        with _peers(options, model_format, sizes, absent, versions, progress) as peers:
            progress("our weights")
            executor = executor_of(max(blocks_for(sizes.num_places), prefill_blocks(sizes.prefill)))
            ours = OurEngine(f"halfline {model_format} ({executor.isa})", executor, sizes)
            steps = step_work(work, sizes)
            limits: list[Limits] = []

            def measure_machine() -> None:
                progress("the machine's limits")
                near_bytes = int(steps["decode_deep"].num_bytes)
                limits.append(measure_limits(executor.isa, options.num_threads, near_bytes))

            rounds = take_turns(
                [ours, *peers], options.num_rounds, before_round=measure_machine, before_turn=progress
            )
        progress("parts of a step")
        parts = {
            sizes.title("decode_deep"): decode_parts(executor, work, sizes.depth, looks=sizes.looks),
            sizes.title("prefill"): prefill_parts(executor, work, sizes.prefill, looks=sizes.looks),
        }
        progress("first token")
        first_token = measure_first_token(executor_of(blocks_needed(spec, sizes.looks)), sizes.looks)
    progress("memory in use")
    requests = editor_requests(_REPLAYED, max_tokens=min(2048, spec.max_context))
    return EngineResult(
        ours=ours.name,
        model_format=model_format,
        sizes=sizes,
        rounds=rounds,
        limits=limits,
        steps=steps,
        tokens_per_step={
            "prefill": sizes.prefill,
            "decode": 1,
            "decode_deep": 1,
            "parallel": sizes.sequences,
        },
        parts=parts,
        resident=measure_resident(options.model, blocks_for(2048)),
        waste={
            "blocks of one arena": replay(requests, Blocks(), _SLOTS),
            "pieces that double": replay(requests, Doubling(), _SLOTS),
        },
        first_token=first_token,
        peer_versions=versions,
        absent=absent,
    )


def step_work(work: ModelWork, sizes: Sizes) -> dict[Workload, Work]:
    """Of one step of each workload; a decode step is the one in the middle."""
    alone, together = sizes.decode // 2, sizes.sequence_depth + sizes.sequence_decode // 2
    return {
        "prefill": work.step([(0, sizes.prefill)], 1),
        "decode": work.step([(alone, 1)], 1),
        "decode_deep": work.step([(sizes.depth + alone, 1)], 1),
        "parallel": work.step([(together, 1)] * sizes.sequences, sizes.sequences),
    }


@contextmanager
def _peers(
    options: EngineOptions,
    model_format: str,
    sizes: Sizes,
    absent: dict[str, str],
    versions: dict[str, str],
    progress: Callable[[str], None],
) -> Iterator[list[Contestant]]:
    """Everyone else, started and stopped; closed again at the end."""
    with ExitStack() as stack:
        peers: list[Contestant] = []
        files = {model_format: options.model}
        if options.llama_programs is not None:
            versions["llama.cpp"] = llama_cpp.version(options.llama_programs)
            for name in LLAMA_FORMATS:
                if name not in files:
                    progress(f"{name} weights for the peers")
                    folder = options.cache_dir / "bench"
                    files[name] = llama_cpp.requantized(options.llama_programs, options.model, name, folder)
            peers += [
                llama_cpp.LlamaCpp(
                    options.llama_programs,
                    file,
                    f"llama.cpp {name}",
                    sizes=sizes,
                    threads=options.num_threads,
                )
                for name, file in files.items()
            ]
        for name, interpreter, script, file in _workers(options, files):
            progress(f"loading {name}")
            try:
                worker = Worker(name, interpreter, script, file, sizes=sizes, threads=options.num_threads)
            except (PeerFailed, OSError) as error:
                absent[name] = str(error)
                continue
            stack.callback(worker.close)
            versions |= {package: str(version) for package, version in worker.versions.items()}
            peers.append(worker)
        yield peers


def _workers(options: EngineOptions, files: dict[str, Path]) -> Iterator[tuple[str, Path, Path, Path]]:
    if options.openvino_python is not None:
        for name in OPENVINO_FORMATS:
            if name in files:
                yield (
                    f"OpenVINO GenAI {name}",
                    options.openvino_python,
                    _PEERS / "openvino_worker.py",
                    files[name],
                )
    if not options.quick and all(
        importlib.util.find_spec(package) for package in ("transformers", "torch", "gguf")
    ):
        yield "transformers float32", Path(sys.executable), _PEERS / "torch_worker.py", options.model
