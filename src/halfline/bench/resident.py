"""How much memory a loaded engine really takes: run as a program, so that nothing else is in the process.

    python -m halfline.bench.resident MODEL [NUM_BLOCKS]

loads, prefills 512 tokens, decodes 64, and prints one line of JSON. The bound it is held to is

    1.25 × (packed weights + KV touched) + 80 MB

where the 80 MB are for the interpreter, numpy and the engine's buffers.
"""

import json
import subprocess
import sys
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

from halfline.bench.steps import blocks_for, decode_seconds, fill
from halfline.model.load import open_checkpoint
from halfline.native.executor import NativeExecutor

PREFILL, DECODE = 512, 64
_FACTOR, _BASE_BYTES = 1.25, 80_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Resident:
    """Bytes, as the system counts them after the work was done; the peak includes reading the file."""

    rss_bytes: int
    peak_bytes: int
    weight_bytes: int
    kv_bytes: int

    @property
    def bound_bytes(self) -> int:
        return int(_FACTOR * (self.weight_bytes + self.kv_bytes)) + _BASE_BYTES


def measure_resident(model: Path, num_blocks: int) -> Resident:
    """In a process of its own. Raises CalledProcessError with what it said."""
    command = [sys.executable, "-m", "halfline.bench.resident", str(model), str(num_blocks)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return Resident(**json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    model = Path(sys.argv[1])
    used = blocks_for(PREFILL + DECODE)
    num_blocks = int(sys.argv[2]) if len(sys.argv) > 2 else used
    with closing(open_checkpoint(model)) as checkpoint:
        executor = NativeExecutor(checkpoint, num_blocks=num_blocks)
    fill(executor, 1, PREFILL, used)
    decode_seconds(executor, num_sequences=1, first_place=PREFILL, steps=DECODE)
    resident = Resident(
        rss_bytes=_status("VmRSS"),
        peak_bytes=_status("VmHWM"),
        weight_bytes=executor.weight_bytes,
        kv_bytes=used * executor.block_bytes,
    )
    print(json.dumps(asdict(resident)))


def _status(key: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024
    raise LookupError(f"/proc/self/status does not say {key}")


if __name__ == "__main__":
    main()
