"""`halfline settings`: what is set, and what could be."""

import typer

from halfline.cli.exits import one_sentence
from halfline.cli.where import DataDir, SettingsFile

settings_app = typer.Typer(no_args_is_help=True, help="Show the settings in force, or document them all.")


@settings_app.command()
def show(
    data_dir: DataDir = None,
    settings: SettingsFile = None,
) -> None:
    """Every setting and the value it has here."""
    with one_sentence():
        # Start-up time: `halfline --help` needs no settings.
        from halfline.settings import known_keys, load_settings

        known = load_settings({"data_dir": data_dir}, settings)
        for key in known_keys():
            value: object = known
            for name in key.split("."):
                value = getattr(value, name)
            print(f"{key} = {value}")


@settings_app.command()
def doc() -> None:
    """docs/settings.md, made from the code."""
    # Start-up time: `halfline --help` needs no settings.
    from halfline.cli.settings_doc import settings_page

    print(settings_page(), end="")


@settings_app.command()
def article() -> None:
    """A settings file with the articles' own parameters."""
    # Start-up time: `halfline --help` needs no settings.
    from halfline.quality.configuration import ARTICLE

    print(ARTICLE.read_text(encoding="utf-8"), end="")
