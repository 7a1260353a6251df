"""`halfline quality cuts`: how often the rules of post-processing cut what people really wrote."""

from pathlib import Path
from typing import Annotated

import typer

from halfline.cli.exits import one_sentence


def cuts(
    paths: Annotated[
        list[Path] | None, typer.Argument(help="Files and folders; Python's own library unless said.")
    ] = None,
    files: Annotated[int, typer.Option(min=1, help="Files per language at most.")] = 100,
    holes_per_file: Annotated[int, typer.Option("--holes", min=1, help="Holes of each kind per file.")] = 6,
    seed: Annotated[int, typer.Option(help="Which files and holes are drawn.")] = 1,
) -> None:
    """Give the rules what really stood in a hole of a file, and count how often they end it too early.

    Prints a row per language and kind of hole; ends with one line of JSON.
    """
    with one_sentence():
        import json  # start-up time: all of these
        import sysconfig

        from rich.console import Console
        from rich.table import Table

        from halfline.quality.cuts import KINDS, judge_files, source_files, tally

        found = source_files(paths or [Path(sysconfig.get_path("stdlib"))], files, seed)
        judged = judge_files(found, holes_per_file, seed)
        table = Table("language", "hole", "answers", "cut early", "by", "ended right", "went on", "rewritten")
        record = []
        for language in sorted({each.language for each in judged}):
            for kind in KINDS:
                row = tally([each for each in judged if (each.language, each.kind) == (language, kind)])
                if not row.num_answers:
                    continue
                rules = ", ".join(f"{rule} {count}" for rule, count in sorted(row.early_by_rule.items()))
                table.add_row(
                    language,
                    kind,
                    f"{row.num_answers}",
                    f"{row.early:.2%}",
                    rules,
                    f"{row.right:.1%}",
                    f"{row.late:.1%}",
                    f"{row.rewritten:.2%}",
                )
                record.append({"language": language, "hole": kind, **row.record()})
        Console().print(table)
        print(json.dumps(record))
