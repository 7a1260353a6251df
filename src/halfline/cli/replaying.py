"""What `halfline replay` does: start the servers, play, print and keep what came out."""

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from halfline.bench.machine import describe
from halfline.bench.peers.llama_cpp import requantized, version
from halfline.bench.replay import mechanisms
from halfline.bench.replay.dialects import WINDOW_LINES, Dialect, LlamaCompletion, OpenAI
from halfline.bench.replay.equality import differences
from halfline.bench.replay.plots import draw
from halfline.bench.replay.report import full_record, summary_record, tables
from halfline.bench.replay.run import Encode, Replayed, run_replay
from halfline.bench.replay.servers import halfline_server, llama_server
from halfline.bench.replay.side import Side, SomebodyElses
from halfline.bench.replay.trace import Stretch
from halfline.bench.replay.typist import Pace
from halfline.cli.replay_arguments import ReplayArguments
from halfline.errors import BadSettings
from halfline.model.load import open_checkpoint
from halfline.model.store import ModelStore
from halfline.settings import load_settings
from halfline.text.tokenizer import Tokenizer

_WIDTH = 150  # of a table in a file


def replay_and_report(arguments: ReplayArguments) -> None:
    """Raises BadSettings, ReplayFailed and PeerFailed."""
    replayed = _beside_a_running_one(arguments) if arguments.url is not None else _against(arguments)
    _report(arguments, replayed, "replay")
    print(json.dumps(summary_record(replayed)))


def check_equality(arguments: ReplayArguments) -> None:
    """Print the first differing answers; exit code 1 when there are any. Raises as `replay_and_report` does."""
    model, encode = _model(arguments)
    with ExitStack() as stack:
        sides = [
            stack.enter_context(_our_side(arguments, model, name, settings))
            for name, settings in (("halfline", {}), ("everything off", mechanisms.PLAIN))
        ]
        replayed = _play(arguments, sides, encode)
    _report(arguments, replayed, "replay-equality")
    found = list(differences(replayed))
    for each in found[:5]:
        print(f"{each.path}, transaction {each.transaction}: {each.texts}")
    print(json.dumps({"keystrokes": len(replayed.asked), "differing": len(found)}))
    if found:
        raise typer.Exit(1)


def compare_mechanisms(arguments: ReplayArguments) -> None:
    """Print what each mechanism saves, alone and beside the others. Raises as `replay_and_report` does."""
    if arguments.url is not None or arguments.opponent is not None:
        raise BadSettings(
            "--mechanisms plays servers of its own against each other, without --url and --against"
        )
    model, encode = _model(arguments)
    with ExitStack() as stack:
        sides = [
            stack.enter_context(_our_side(arguments, model, name, settings))
            for name, settings in mechanisms.servers().items()
        ]
        replayed = _play(arguments, sides, encode)
    _console().print(mechanisms.table(replayed))
    found = mechanisms.record(replayed)
    stem = _stem(arguments, replayed, "mechanisms")
    stem.with_suffix(".json").write_text(
        json.dumps({"machine": describe(), **found}, indent=1) + "\n", "utf-8"
    )
    _draw(lambda: mechanisms.draw(replayed, stem.with_suffix(".png")))
    print(json.dumps(found))


def _report(arguments: ReplayArguments, replayed: Replayed, name: str) -> None:
    console = _console()
    for table in tables(replayed):
        console.print(table)
    machine = describe()
    if arguments.opponent is not None:
        machine["llama.cpp"] = version(arguments.opponent.programs)
    stem = _stem(arguments, replayed, name)
    text = json.dumps(full_record(replayed, machine), separators=(",", ":"))
    stem.with_suffix(".json").write_text(text.replace("],[", "],\n[") + "\n", encoding="utf-8")
    _draw(lambda: draw(replayed, stem.with_suffix(".png")))


def _console() -> Console:
    return Console() if sys.stdout.isatty() else Console(width=_WIDTH)


def _stem(arguments: ReplayArguments, replayed: Replayed, name: str) -> Path:
    """Of the files with results, in their folder."""
    arguments.results.mkdir(parents=True, exist_ok=True)
    pace = "squeezed" if replayed.pace.pause_s is None else f"{replayed.pace.pause_s * 1e3:.0f}ms"
    return _unused(arguments.results / f"{name}-{pace}-{replayed.num_typists}-{str(describe()['date'])[:10]}")


def _draw(picture: Callable[[], None]) -> None:
    try:
        picture()
    except ImportError:
        Console(stderr=True).print(
            "no pictures were drawn: they need matplotlib, `.venv/bin/pip install -e '.[plots]'`",
            markup=False,
        )


def _unused(stem: Path) -> Path:
    """Several replays of a day keep their results apart."""
    taken = {each.stem for each in stem.parent.glob(f"{stem.name}*.json")}
    names = (stem.name, *(f"{stem.name}-{number}" for number in range(2, len(taken) + 3)))
    return stem.with_name(next(name for name in names if name not in taken))


def _beside_a_running_one(arguments: ReplayArguments) -> Replayed:
    """Somebody else's server: nothing is known of its tokenizer."""
    assert arguments.url is not None
    makes = _openai(arguments.stretches) if arguments.dialect == "openai" else _llama
    side = Side(arguments.url, SomebodyElses(), _address(arguments.url), makes)
    return _play(arguments, [side], None)


def _against(arguments: ReplayArguments) -> Replayed:
    """A server of ours, and whoever answers in turns with it."""
    model, encode = _model(arguments)
    with ExitStack() as stack:
        sides = [stack.enter_context(_our_side(arguments, model, "halfline", {}))]
        if arguments.opponent is not None:
            cache = load_settings({}, arguments.settings).cache_dir / "peers"
            opponent = arguments.opponent
            theirs = requantized(opponent.programs, model, opponent.format_name, cache)
            sides.append(stack.enter_context(_llama_side(arguments, theirs, "llama-server", follows=None)))
            if opponent.anchored:
                name = "llama-server, our prompts"
                sides.append(stack.enter_context(_llama_side(arguments, theirs, name, follows="halfline")))
        return _play(arguments, sides, encode)


def _model(arguments: ReplayArguments) -> tuple[Path, Encode]:
    known = load_settings({"model": arguments.model, "data_dir": arguments.data_dir}, arguments.settings)
    model = ModelStore(known.data_dir).resolve(known.model)
    with closing(open_checkpoint(model)) as checkpoint:
        return model, Tokenizer(checkpoint.vocab).encode


@contextmanager
def _our_side(
    arguments: ReplayArguments, model: Path, name: str, settings: Mapping[str, str]
) -> Iterator[Side]:
    with tempfile.TemporaryDirectory() as state:
        server = halfline_server(
            model, Path(state), threads=arguments.threads, settings=settings, file=arguments.settings
        )
        with server as process:
            process.freeze()
            yield Side(name, process, ("127.0.0.1", process.port), _openai(arguments.stretches))


@contextmanager
def _llama_side(arguments: ReplayArguments, model: Path, name: str, *, follows: str | None) -> Iterator[Side]:
    assert arguments.opponent is not None
    server = llama_server(
        arguments.opponent.programs / "llama-server",
        model,
        threads=arguments.threads,
        typists=arguments.num_typists,
        arguments=[word for each in arguments.opponent.arguments for word in each.split("=", 1)],
    )
    with server as process:
        process.freeze()

        def dialect(place: int) -> Dialect:
            window = WINDOW_LINES if follows is None else None
            return LlamaCompletion(place % arguments.num_typists, window)

        yield Side(name, process, ("127.0.0.1", process.port), dialect, follows=follows)


def _play(arguments: ReplayArguments, sides: Sequence[Side], encode: Encode | None) -> Replayed:
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    ) as bar:
        total = sum(stretch.stop - stretch.first for stretch in arguments.stretches)
        task = bar.add_task("keystrokes", total=total)
        began = time.monotonic()
        return run_replay(
            arguments.stretches,
            sides,
            Pace(arguments.pause_s),
            arguments.num_typists,
            encode,
            lambda done: bar.advance(task, done),
            lambda share: time.monotonic() - began > share * arguments.most_s,
        )


def _openai(stretches: Sequence[Stretch]) -> Callable[[int], Dialect]:
    """Every place is its own user's own file."""

    def dialect(place: int) -> Dialect:
        return OpenAI(f"place-{place}/{stretches[place].trace.path}", f"typist-{place}")

    return dialect


def _llama(place: int) -> Dialect:
    return LlamaCompletion(None, WINDOW_LINES)


def _address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    if parts.scheme != "http" or parts.hostname is None:
        raise BadSettings(f"--url {url}: it must be like http://127.0.0.1:8117")
    return parts.hostname, parts.port or 80
