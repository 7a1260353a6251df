"""OpenVINO GenAI on a GGUF file. Runs in an interpreter that has openvino-genai and nothing of halfline.

Times are its own: prompt tokens over the time to the first token, and further steps over what its generation took
beyond that. The time to the first token includes sampling one token, a share that is lost in it. Its time per token is
not used: of several sequences it is the time of a step divided by their number.
"""

import json
import sys

import numpy as np
import openvino as ov
import openvino_genai


def main() -> None:
    model, threads, sizes = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
    pipeline = openvino_genai.LLMPipeline(model, "CPU", INFERENCE_NUM_THREADS=threads)
    random = np.random.default_rng(0)

    def generate(num_sequences: int, num_tokens: int, num_new: int) -> tuple[float, float]:
        """Seconds to the first token and seconds per further step."""
        tokens = random.integers(256, 32_000, (num_sequences, num_tokens))
        inputs = openvino_genai.TokenizedInputs(ov.Tensor(tokens), ov.Tensor(np.ones_like(tokens)))
        config = openvino_genai.GenerationConfig()
        config.max_new_tokens = num_new + 1
        config.ignore_eos = True
        config.do_sample = False
        metrics = pipeline.generate(inputs, config).perf_metrics
        first = metrics.get_ttft().mean
        return first / 1000, (metrics.get_generate_duration().mean - first) / num_new / 1000

    generate(1, 32, 2)
    print(json.dumps({"openvino-genai": openvino_genai.__version__}), flush=True)
    for _ in sys.stdin:
        first, deep = generate(1, sizes["prefill"], sizes["decode"])
        _, flat = generate(1, 1, sizes["decode"])
        _, together = generate(sizes["sequences"], sizes["sequence_depth"], sizes["sequence_decode"])
        rates = {"prefill": sizes["prefill"] / first, "decode": 1 / flat}
        # Only where the prefill's length is the depth has the decode behind it that depth.
        if sizes["prefill"] == sizes["depth"]:
            rates["decode_deep"] = 1 / deep
        rates["parallel"] = sizes["sequences"] / together
        print(json.dumps(rates), flush=True)


main()
