"""`halfline quality confidence`: what a `min_confidence` would hide, and how right what it leaves is."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from halfline.cli.exits import one_sentence
from halfline.cli.where import DataDir, Model, SettingsFile

if TYPE_CHECKING:
    from halfline.bench.replay.trace import Stretch
    from halfline.pipeline.pipeline import Pipeline
    from halfline.quality.confidence import Answered, Point

_MEASURES = {"first token": 1, "first 4 tokens": 4, "whole line": None}


def confidence(
    trace: Annotated[Path, typer.Argument(help="An editing trace (josephg/editing-traces).")] = Path(
        "bench/data/rustcode.json.gz"
    ),
    path: Annotated[str, typer.Option(help="What an editor would call its file.")] = "src/lib.rs",
    places: Annotated[int, typer.Option(min=1, help="Stretches of the trace, evenly spread.")] = 4,
    keystrokes: Annotated[int, typer.Option(min=1, help="Keystrokes in each.")] = 100,
    max_tokens: Annotated[int, typer.Option(min=1, help="New tokens at most, of one line.")] = 24,
    plot: Annotated[Path | None, typer.Option(help="PNG to draw the curves in.")] = None,
    model: Model = None,
    data_dir: DataDir = None,
    settings: SettingsFile = None,
) -> None:
    """Ask after each keystroke of recorded typing, and compare the answer's first line with what was typed next.

    Prints, for every threshold, the share of answers that would still be shown and how many of them are right; ends
    with one line of JSON.
    """
    with one_sentence():
        import asyncio  # start-up time: all of these
        import json

        from rich.console import Console
        from rich.table import Table

        from halfline.bench.replay.places import chosen
        from halfline.bench.replay.trace import load
        from halfline.cli.loading import assemble
        from halfline.cli.model_parts import find_model, load_parts
        from halfline.errors import BadSettings
        from halfline.quality.confidence import average_precision, curve
        from halfline.settings import load_settings

        try:
            stretches = chosen([load(trace, path)], [], places, keystrokes)
        except (OSError, ValueError) as error:
            raise BadSettings(f"{trace}: {error}") from error
        known = load_settings({"model": model, "data_dir": data_dir}, settings)
        ready = assemble(known, load_parts(known, find_model(known)))
        try:
            answers = asyncio.run(_answers(ready.pipeline, stretches, max_tokens))
        finally:
            ready.loaded.close()
        curves = {name: curve(answers, num_tokens) for name, num_tokens in _MEASURES.items()}
        table = Table(f"{len(answers)} answers", *(f"{name}: shown, right, first word" for name in curves))
        for row in zip(*curves.values(), strict=True):
            table.add_row(f"{row[0].threshold:.2f}", *map(_cell, row))
        Console().print(table)
        if plot is not None:
            _draw(curves, plot)
        print(
            json.dumps(
                {
                    "answers": len(answers),
                    "right": sum(answer.right for answer in answers),
                    "average_precision": {
                        name: average_precision(answers, num_tokens) for name, num_tokens in _MEASURES.items()
                    },
                    "curves": {
                        name: [
                            (each.threshold, each.share, each.precision, each.first_word) for each in points
                        ]
                        for name, points in curves.items()
                    },
                }
            )
        )


async def _answers(pipeline: "Pipeline", stretches: "list[Stretch]", max_tokens: int) -> "list[Answered]":
    """One for each keystroke that something was typed after, and that got an answer of more than blanks."""
    import uuid

    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress

    from halfline.bench.replay.typed_next import MOST_TRANSACTIONS, typed_next, worth
    from halfline.quality.confidence import Answered, first_word
    from halfline.request import CompletionRequest, Document, SamplingParams

    answers = []
    with Progress(*Progress.get_default_columns(), MofNCompleteColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task("keystrokes", total=sum(each.stop - each.first for each in stretches))
        for stretch in stretches:
            transactions = stretch.trace.transactions
            for keystroke in stretch.keystrokes():
                later = transactions[keystroke.transaction + 1 :][:MOST_TRANSACTIONS]
                typed = typed_next(len(keystroke.prefix), later)
                bar.advance(task)
                if not typed:
                    continue
                completion = await pipeline.complete(
                    CompletionRequest(
                        id=f"cmpl-{uuid.uuid4().hex}",
                        prompt=Document(keystroke.prefix, keystroke.suffix, stretch.trace.path),
                        params=SamplingParams(stop=("\n",), logprobs=0),
                        max_tokens=max_tokens,
                    )
                )
                (choice,) = completion.choices
                logprobs = tuple(each.logprob for each in choice.logprobs or () if each.logprob is not None)
                if choice.text.strip() and logprobs:
                    begins_right = first_word(choice.text) == first_word(typed)
                    answers.append(Answered(logprobs, worth(choice.text, typed).exact, begins_right))
    return answers


def _cell(point: "Point") -> str:
    if point.precision is None or point.first_word is None:
        return "none"
    return f"{point.share:.0%}, {point.precision:.1%}, {point.first_word:.0%}"


def _draw(curves: "dict[str, list[Point]]", path: Path) -> None:
    """Writes a PNG. Raises BadSettings without matplotlib."""
    from halfline.errors import BadSettings

    try:
        import matplotlib  # optional dependency
    except ImportError as error:
        raise BadSettings(
            f"--plot needs the extra `plots`, .venv/bin/pip install -e '.[plots]': {error}"
        ) from error

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (by_threshold, by_share) = pyplot.subplots(1, 2, figsize=(11, 4), layout="constrained")
    for name, points in curves.items():
        shown = [point for point in points if point.first_word is not None]
        thresholds, shares = [each.threshold for each in shown], [each.share for each in shown]
        (line,) = by_threshold.plot(thresholds, [each.first_word for each in shown], label=name)
        by_threshold.plot(thresholds, [each.precision for each in shown], "--", color=line.get_color())
        by_threshold.plot(thresholds, shares, ":", color=line.get_color())
        by_share.plot(shares, [each.first_word for each in shown], ".-", label=name)
        by_share.plot(shares, [each.precision for each in shown], ".--", color=line.get_color())
    by_threshold.set(xlabel="min_confidence", ylabel="dotted: share shown", ylim=(0, 1))
    by_share.set(xlabel="share of answers shown", ylabel="first word right; dashed: line right", ylim=(0, 1))
    for axes in (by_threshold, by_share):
        axes.grid(alpha=0.3)
        axes.legend()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
