"""`halfline quality`: how far one way of running a model lies from another, and what answers are worth."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from halfline.cli.exits import one_sentence
from halfline.cli.quality_confidence import confidence
from halfline.cli.quality_cuts import cuts
from halfline.cli.quality_gate import gate
from halfline.cli.quality_infilling import infilling
from halfline.cli.quality_run import run
from halfline.cli.where import DataDir, Model, SettingsFile

if TYPE_CHECKING:
    from halfline.model.checkpoint import Checkpoint
    from halfline.model.executor import Executor

quality_app = typer.Typer(no_args_is_help=True, help="Compare ways of running a model.")

quality_app.command()(run)
quality_app.command()(gate)
quality_app.command()(infilling)
quality_app.command()(cuts)
quality_app.command()(confidence)

_EXECUTORS = "reference, or native[:threads=N,isa=NAME,kv=f16|int8]"


@quality_app.command()
def kl(
    baseline: Annotated[str, typer.Option(help=f"What is right: {_EXECUTORS}.")] = "reference",
    candidate: Annotated[str, typer.Option(help=f"What is judged: {_EXECUTORS}.")] = "native",
    model: Model = None,
    data_dir: DataDir = None,
    settings: SettingsFile = None,
    text: Annotated[
        list[Path] | None, typer.Option(help="Files to score; by default code that comes along.")
    ] = None,
    positions: Annotated[int, typer.Option(min=1, help="How many tokens to predict.")] = 2000,
    window: Annotated[int, typer.Option(min=2, help="Tokens that share one context, at most.")] = 512,
) -> None:
    """KL divergence, agreement and perplexity, teacher forced on real code.

    Prints a table and ends with one line of JSON.
    """
    with one_sentence():
        import json  # start-up time: all of these

        from rich.console import Console
        from rich.progress import MofNCompleteColumn, Progress
        from rich.table import Table

        from halfline.errors import BadSettings
        from halfline.model.kv_format import INT8
        from halfline.model.load import open_checkpoint
        from halfline.model.store import ModelStore
        from halfline.quality.divergence import ExecutorLogits, measure, summarize
        from halfline.quality.report import record, rows
        from halfline.quality.texts import cut_windows, default_texts, fingerprint
        from halfline.settings import load_settings
        from halfline.text.tokenizer import Tokenizer

        known = load_settings({"model": model, "data_dir": data_dir}, settings)
        checkpoint = open_checkpoint(ModelStore(known.data_dir).resolve(known.model))
        try:
            windows = cut_windows(
                text or default_texts(),
                Tokenizer(checkpoint.vocab).encode,
                num_positions=positions,
                max_window=min(window, checkpoint.spec.max_context),
            )
        except (OSError, ValueError) as error:
            raise BadSettings(f"--text: {error}") from error
        num_blocks = INT8.num_blocks(window)  # enough in every format
        right, judged = (
            ExecutorLogits(build_executor(words, checkpoint, num_blocks)) for words in (baseline, candidate)
        )
        with Progress(
            *Progress.get_default_columns(), MofNCompleteColumn(), console=Console(stderr=True)
        ) as bar:
            task = bar.add_task("positions", total=sum(window.num_positions for window in windows))
            scores = measure(right, judged, windows, advanced=lambda done: bar.advance(task, done))
        checkpoint.close()
        divergence = summarize(scores)
        table = Table(f"{candidate} against {baseline}", known.model)
        for name, value in rows(divergence):
            table.add_row(name, value)
        Console().print(table)
        names = {"baseline": baseline, "candidate": candidate, "model": known.model}
        print(json.dumps({**names, "positions_sha256": fingerprint(windows), **record(divergence)}))


def build_executor(words: str, checkpoint: "Checkpoint", num_blocks: int) -> "Executor":
    """An executor from its name and options, as the command line spells them. Raises BadSettings."""
    from halfline.errors import BadSettings
    from halfline.model.reference import ReferenceExecutor

    name, _, listed = words.partition(":")
    options = dict(option.partition("=")[::2] for option in listed.split(",") if option)
    if name == "reference" and not options:
        return ReferenceExecutor(checkpoint, num_blocks)
    if (
        name != "native"
        or not options.keys() <= {"threads", "isa", "kv"}
        or options.get("kv", "f16") not in ("f16", "int8")
        or not options.get("threads", "1").isdigit()
    ):
        raise BadSettings(f"{words!r} is no executor; say {_EXECUTORS}")

    from halfline.model.kv_format import F16, INT8
    from halfline.native.executor import NativeExecutor

    try:
        return NativeExecutor(
            checkpoint,
            num_blocks=num_blocks,
            num_threads=int(options.get("threads", "1")),
            isa=options.get("isa"),
            kv_format=INT8 if options.get("kv") == "int8" else F16,
        )
    except ValueError as error:
        raise BadSettings(f"{words!r}: {error}") from error
