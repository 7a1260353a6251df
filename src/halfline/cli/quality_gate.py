"""`halfline quality gate`: the comparisons that a release has to stand (C10)."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from halfline.cli.exits import one_sentence
from halfline.cli.quality_run import AtOnce, Data, Gates
from halfline.cli.where import DataDir, Model, SettingsFile

if TYPE_CHECKING:
    from halfline.cli.quality_comparing import Comparison
    from halfline.quality.gate_file import GateArm
    from halfline.quality.regression_test import Verdict

FAILED = 1


def gate(
    arm: Annotated[
        list[str] | None,
        typer.Option(help="Of quality.toml; all that are required unless said, may be repeated."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Fewer tasks than the arm says: a look, no evidence.")
    ] = None,
    plant: Annotated[
        Literal["noise", "kv-row", "position", "sign", "tokenizer"] | None,
        typer.Option(
            help="Spoil the candidate on purpose; the gate has to fail. Arm `identity` unless said."
        ),
    ] = None,
    gates: Gates = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="New tokens at most, and true ones.")] = 64,
    at_once: AtOnce = 4,
    data: Data = Path("bench/data"),
    out: Annotated[
        Path | None, typer.Option(help="Folder for each arm's JSON lines, gone on from, and its page.")
    ] = None,
    model: Model = None,
    data_dir: DataDir = None,
    settings: SettingsFile = None,
) -> None:
    """Exit 0 if every arm keeps its margins, 1 if one does not.

    A whole run of an arm whose candidate loses something is kept as its proof: `serve` starts with such settings only
    when they have passed. Needs the extras `quality` and `syntax`. Prints tables, the worst cases of what failed, and a
    line of JSON per arm.
    """
    with one_sentence():
        from halfline.cli.quality_extras import check_extras  # start-up time: all of these

        check_extras()
        from halfline.cli.quality_arms import sides
        from halfline.cli.quality_comparing import Comparison, carry_out, line, show, show_worst, write_page
        from halfline.cli.quality_suites import load_suites
        from halfline.errors import BadSettings
        from halfline.quality.gate_file import OURS, read_gate_file

        file = read_gate_file(gates or OURS)
        names = arm or (
            ["identity"] if plant else [each.name for each in file.arms.values() if each.required]
        )
        if not names:
            raise BadSettings("no arm is required, so nothing would be judged: name an --arm")
        passed = True
        for each in [file.arm(name) for name in names]:
            n = each.n if limit is None else min(limit, each.n)
            flags = {"model": model, "data_dir": data_dir}
            right, other = sides(each.baseline, each.candidate, flags, settings)
            comparison = Comparison(
                baseline=right,
                candidate=other,
                suites=load_suites(each.suites, data, limit=n, seed=1),
                margins=each.margins,
                max_tokens=max_tokens,
                seed=1,
                plant=plant,
            )
            name = each.name if plant is None else f"{each.name}-{plant}"
            record = None if out is None else out / f"{name}.jsonl"
            cases, verdict = carry_out(comparison, record, at_once)
            show(name, comparison, verdict)
            if not verdict.passed:
                show_worst(cases)
            if out is not None:
                write_page(out / f"{name}.html", name, comparison, cases, verdict)
            if n == each.n:
                keep_proof(each, comparison, verdict)
            print(line(comparison, verdict, {"arm": name}))
            passed = passed and verdict.passed
        if not passed:
            raise typer.Exit(FAILED)


def keep_proof(arm: "GateArm", comparison: "Comparison", verdict: "Verdict") -> None:
    """Of what loses something and had occasion to, held to the same model when it loses nothing."""
    from datetime import UTC, datetime

    from halfline.cli.quality_arms import version
    from halfline.quality.proofs import MIN_TASKS, MIN_TOKENS, Proof, keep, lossy

    baseline, candidate = comparison.baseline, comparison.candidate
    lost = lossy(candidate.settings.model_dump(mode="json"))
    if not lost or comparison.plant is not None:
        return
    if also := lossy(baseline.settings.model_dump(mode="json")):
        typer.echo(f"no proof: the baseline loses something too, by {', '.join(also)}", err=True)
    elif baseline.model_sha256 != candidate.model_sha256:
        typer.echo("no proof: the baseline is another model", err=True)
    elif "context.compression" in lost and not _changed_prompts(verdict):
        # Tasks without other files, or a model that is not shown them. Where it shortens, more of them may find room.
        typer.echo("no proof: no prompt is another than without, so there was nothing to shorten", err=True)
    elif verdict.report.num_tasks < MIN_TASKS:
        typer.echo(f"no proof: {verdict.report.num_tasks} tasks, it takes {MIN_TASKS}", err=True)
    elif comparison.max_tokens < MIN_TOKENS:
        typer.echo(f"no proof: {comparison.max_tokens} tokens at most, it takes {MIN_TOKENS}", err=True)
    else:
        proof = Proof(
            model_sha256=candidate.model_sha256,
            settings=lost,
            arm=arm.name,
            passed=verdict.passed,
            date=datetime.now(UTC).date().isoformat(),
            version=version(),
            measured=verdict.report.record(),
        )
        keep(candidate.settings.data_dir, proof)


def _changed_prompts(verdict: "Verdict") -> bool:
    """Whether prompts have other lengths than the baseline's; in so few that no draw shows one is as good as none."""
    change = verdict.report.costs["prompt_tokens"]
    interval = change.interval
    return change.difference != 0.0 or (interval is not None and interval.low < interval.high)
