"""The entry point: one typer application, one file per command."""

import typer

from halfline.cli.bench import bench_app
from halfline.cli.complete import complete
from halfline.cli.index import index
from halfline.cli.key import key_app
from halfline.cli.lsp import lsp
from halfline.cli.model import model_app
from halfline.cli.quality import quality_app
from halfline.cli.replay import replay
from halfline.cli.serve import serve
from halfline.cli.settings import settings_app
from halfline.cli.task import task_app

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
app.command()(serve)
app.command()(complete)
app.command()(replay)
app.command()(lsp)
app.command()(index)
app.add_typer(bench_app, name="bench")
app.add_typer(key_app, name="key")
app.add_typer(model_app, name="model")
app.add_typer(quality_app, name="quality")
app.add_typer(settings_app, name="settings")
app.add_typer(task_app, name="task")


@app.callback()
def halfline() -> None:
    """A private code-completion server that answers before the next keystroke."""
