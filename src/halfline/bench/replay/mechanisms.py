"""Each mechanism alone, all together, and all but one: what it saves, and whether the answers stay the same.

What a mechanism saves alone, against a server with none of them, and what is lost when it alone is taken from a server
with all of them, differ where mechanisms do the same work or need each other: prefixes that are reused make a keystroke
cheap whether or not what was typed had been predicted; answers computed ahead are worth nothing where no prediction is
remembered. Counts are of tokens and of processor time, which other work on the machine does not change much.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.table import Table

from halfline.bench.replay.report import costs
from halfline.bench.replay.run import Outcome, Replayed
from halfline.bench.replay.statistics import summarize

PLAIN: Mapping[str, str] = {
    "engine.speculation": "off",
    "pipeline.suggestions": "off",
    "cache.exact": "off",
    "cache.syntax": "off",
    "warmup.share": "0",
}
"""Settings with which nothing is guessed, remembered or done ahead, by dotted name."""

NOTHING: Mapping[str, str] = {
    **PLAIN,
    "engine.prefix_caching": "off",
    "kv_format": "f16",
    "allow_unproved": "true",  # 8-bit KV is one of the mechanisms
}
"""A server that computes each keystroke anew."""

MECHANISMS: Mapping[str, Mapping[str, str]] = {
    "prefix reuse": {"engine.prefix_caching": "on"},
    "typed through": {"pipeline.suggestions": "on"},
    "kept answers": {"cache.exact": "on", "cache.syntax": "on"},
    "drafts": {"engine.speculation": "auto"},
    "warm-up": {"warmup.share": "0.5"},
    "int8 KV": {"kv_format": "int8"},
}
"""What each sets, on top of `NOTHING`. Compression is no part of it: a replay brings no text of other files."""

LOSSY = frozenset({"int8 KV"})
"""May change answers; the others may not, so "all" is without them."""

PAIRS = (
    ("prefix reuse", "typed through"),
    ("prefix reuse", "warm-up"),
    ("typed through", "warm-up"),
    ("prefix reuse", "int8 KV"),
)
"""Whose sum alone need not be what they save together."""


def servers() -> dict[str, Mapping[str, str]]:
    """Settings by name: nothing, each alone, the pairs, all, all and 8-bit KV, all but one."""
    exact = [name for name in MECHANISMS if name not in LOSSY]
    found = {"nothing": NOTHING}
    found |= {name: _with([name]) for name in MECHANISMS}
    found |= {f"{one} + {other}": _with([one, other]) for one, other in PAIRS}
    found |= {"all": _with(exact), "all + int8 KV": _with([*exact, "int8 KV"])}
    found |= {f"all but {left}": _with([name for name in exact if name != left]) for left in exact}
    return found


def _with(names: Sequence[str]) -> Mapping[str, str]:
    settings = dict(NOTHING)
    for name in names:
        settings |= MECHANISMS[name]
    return settings


@dataclass(frozen=True, slots=True)
class Row:
    """Per keystroke: prompt tokens computed while it waited, all tokens run, milliseconds of processor time; None where
    the server or the system does not tell. Shares: lines exactly as the user typed them, None where none can be judged;
    answers equal to those of the first server.
    """

    name: str
    prompt_tokens: float | None
    tokens_run: float | None
    cpu_ms: float | None
    exact: float | None
    same: float


def rows(replayed: Replayed) -> list[Row]:
    everywhere = range(len(replayed.asked))
    by_name = costs(replayed)
    found = []
    for outcome in replayed.outcomes:
        quality = summarize(replayed, outcome, everywhere).quality
        found.append(
            Row(
                outcome.name,
                _mean_prompt(outcome),
                by_name[outcome.name]["tokens_run"],
                by_name[outcome.name]["cpu_ms"],
                None if quality is None else quality.exact,
                _share_same(outcome, replayed.outcomes[0]),
            )
        )
    return found


def _mean_prompt(outcome: Outcome) -> float | None:
    computed = [each.computed for each in outcome.counted if each is not None]
    return sum(computed) / len(computed) if computed else None


def _share_same(outcome: Outcome, first: Outcome) -> float:
    pairs = list(zip(outcome.answers, first.answers, strict=True))
    return sum(ours.text == theirs.text for ours, theirs in pairs) / len(pairs)


def table(replayed: Replayed) -> Table:
    title = f"{len(replayed.asked)} keystrokes, per keystroke"
    shown = Table("", "prompt tokens", "tokens run", "CPU ms", "exact line", "same answer", title=title)
    for row in rows(replayed):
        shown.add_row(
            row.name,
            *(
                "" if each is None else f"{each:.1f}"
                for each in (row.prompt_tokens, row.tokens_run, row.cpu_ms)
            ),
            "" if row.exact is None else f"{row.exact:.1%}",
            f"{row.same:.1%}",
        )
    return shown


def interactions(found: Sequence[Row]) -> Iterator[tuple[str, float, float]]:
    """By pair: processor time per keystroke that both alone save, added up, and what they save together."""
    cpu = {row.name: row.cpu_ms for row in found}
    for one, other in PAIRS:
        nothing, first, second, both = (cpu.get(name) for name in ("nothing", one, other, f"{one} + {other}"))
        if nothing is not None and first is not None and second is not None and both is not None:
            yield f"{one} + {other}", (nothing - first) + (nothing - second), nothing - both


def record(replayed: Replayed) -> dict[str, object]:
    found = rows(replayed)
    return {
        "keystrokes": len(replayed.asked),
        "pause_ms": None if replayed.pace.pause_s is None else replayed.pace.pause_s * 1e3,
        "servers": [asdict(row) for row in found],
        "interactions": [
            {"pair": pair, "apart_cpu_ms": apart, "together_cpu_ms": together}
            for pair, apart, together in interactions(found)
        ],
    }


def draw(replayed: Replayed, path: Path) -> None:
    """Writes a PNG. Raises ImportError without matplotlib, which is the extra `plots`."""
    import matplotlib  # optional dependency

    matplotlib.use("Agg")
    from matplotlib import pyplot

    found = rows(replayed)[::-1]
    figure, (time, tokens) = pyplot.subplots(
        1, 2, figsize=(12, 0.32 * len(found) + 1.2), layout="constrained", sharey=True
    )
    names = [row.name for row in found]
    time.barh(names, [row.cpu_ms or 0.0 for row in found], color="#4477aa")
    time.set(xlabel="CPU ms per keystroke", xscale="symlog")
    tokens.barh(names, [row.tokens_run or 0.0 for row in found], color="#bbbbbb", label="run in all")
    tokens.barh(
        names, [row.prompt_tokens or 0.0 for row in found], color="#ee6677", label="prompt, waited for"
    )
    tokens.set(xlabel="tokens per keystroke", xscale="symlog")
    tokens.legend(loc="lower right")
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
