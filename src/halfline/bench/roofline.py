"""The roofline as a picture: operations per second over operations per byte, under the machine's limits.

Needs matplotlib, which is the extra `plots`.
"""

from pathlib import Path

from halfline.bench.engine_run import EngineResult
from halfline.bench.ratios import rates_of, spread_of
from halfline.bench.workloads import WORKLOADS


def draw(result: EngineResult, path: Path) -> None:
    """Writes a PNG. Raises ImportError without matplotlib."""
    import matplotlib  # optional dependency

    matplotlib.use("Agg")
    from matplotlib import pyplot

    limits = result.limits[-1]
    figure, axes = pyplot.subplots(figsize=(8, 5.5), layout="constrained")
    low, high = 0.5, 5000.0
    axes.set(xscale="log", yscale="log", xlim=(low, high))
    axes.set(
        xlabel="operations per byte read",
        ylabel="GOP/s",
        title=f"{result.ours}, {limits.num_threads} threads",
    )
    for name, peak, style in (
        ("int8 products", limits.int8, ":"),
        ("int8, scaled per block", limits.int8_block, "-"),
        ("float32 FMA", limits.fma, "--"),
    ):
        ridge = peak / limits.read_near
        axes.plot(
            [low, ridge, high],
            [low * limits.read_near / 1e9, peak / 1e9, peak / 1e9],
            style,
            color="0.4",
            label=f"{name}: {peak / 1e9:.0f} GOP/s",
        )
    for workload in WORKLOADS:
        step, tokens = result.steps[workload], result.tokens_per_step[workload]
        rate = spread_of(rates_of(result.rounds, result.ours, workload)).median
        operations = step.int_ops + step.float_ops
        axes.plot(
            [operations / step.num_bytes],
            [operations * rate / tokens / 1e9],
            "o",
            label=f"{result.sizes.title(workload)}: {rate:.0f} tokens/s",
        )
    axes.legend(loc="lower right", title=f"slope: reading, {limits.read_near / 1e9:.0f} GB/s")
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
