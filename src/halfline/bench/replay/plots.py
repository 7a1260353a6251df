"""A replay as pictures: how many keystrokes are answered within a time, and what each one computed.

Needs matplotlib, which is the extra `plots`.
"""

from pathlib import Path

import numpy as np

from halfline.bench.replay.report import groups
from halfline.bench.replay.run import Replayed


def draw(replayed: Replayed, path: Path) -> None:
    """Writes a PNG: one row of two pictures per group of keystrokes. Raises ImportError without matplotlib."""
    import matplotlib  # optional dependency

    matplotlib.use("Agg")
    from matplotlib import pyplot

    found = groups(replayed)
    figure, rows = pyplot.subplots(
        len(found), 2, figsize=(12, 4.2 * len(found)), layout="constrained", squeeze=False
    )
    for (name, places), (latency, tokens) in zip(found.items(), rows, strict=True):
        for outcome in replayed.outcomes:
            answers = [outcome.answers[i] for i in places]
            times = np.sort([answer.ms for answer in answers if answer.ms is not None])
            # Answers that were given up never arrive: the curve ends below 1.
            latency.step(times, np.arange(1, len(times) + 1) / len(answers), where="post", label=outcome.name)
            counted = [outcome.counted[i] for i in places]
            computed = [np.nan if each is None else each.computed for each in counted]
            tokens.plot(computed, ".", markersize=3, label=outcome.name)
        latency.set(xscale="log", ylim=(0, 1), xlabel="ms from keystroke to whole answer", title=name)
        latency.set(ylabel="share of keystrokes")
        latency.grid(alpha=0.3)
        latency.legend(loc="lower right")
        tokens.set(yscale="symlog", xlabel="keystroke", ylabel="prompt tokens computed", title=name)
        tokens.legend(loc="upper right")
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
