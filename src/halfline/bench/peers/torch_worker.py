"""transformers with torch on a model of a GGUF file's shape, in float32. Needs nothing of halfline.

The weights are random: reading the file's own would need one more package, and dense arithmetic takes the same time
for every value.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
import transformers


def main() -> None:
    path, threads, sizes = Path(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
    torch.set_num_threads(threads)
    config = transformers.AutoConfig.from_pretrained(path.parent, gguf_file=path.name, local_files_only=True)
    # The package does not say this method's type.
    from_config: Any = transformers.AutoModelForCausalLM.from_config
    model = from_config(config, dtype=torch.float32).train(False)

    def run(num_sequences: int, num_tokens: int, num_steps: int) -> tuple[float, float]:
        """Seconds of the prefill and of all the steps behind it."""
        tokens = torch.randint(256, model.config.vocab_size, (num_sequences, num_tokens))
        began = time.perf_counter()
        output = model(tokens, use_cache=True, logits_to_keep=1)
        middle = time.perf_counter()
        for _ in range(num_steps):
            output = model(
                tokens[:, :1], past_key_values=output.past_key_values, use_cache=True, logits_to_keep=1
            )
        return middle - began, time.perf_counter() - middle

    with torch.inference_mode():
        run(1, 32, 2)
        versions = {"transformers": transformers.__version__, "torch": torch.__version__}
        print(json.dumps(versions), flush=True)
        for _ in sys.stdin:
            prefill, _ = run(1, sizes["prefill"], 0)
            _, flat = run(1, 1, sizes["decode"])
            _, deep = run(1, sizes["depth"], sizes["decode"])
            _, together = run(sizes["sequences"], sizes["sequence_depth"], sizes["sequence_decode"])
            rates = {
                "prefill": sizes["prefill"] / prefill,
                "decode": sizes["decode"] / flat,
                "decode_deep": sizes["decode"] / deep,
                "parallel": sizes["sequences"] * sizes["sequence_decode"] / together,
            }
            print(json.dumps(rates), flush=True)


main()
