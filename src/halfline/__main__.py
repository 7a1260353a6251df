"""`python -m halfline` is the command `halfline`."""

from halfline.cli.main import app

if __name__ == "__main__":
    app()
