"""What `halfline replay` does: find the typing, start the servers, play, print and keep what came out."""

import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from halfline.bench.machine import describe
from halfline.bench.peers.llama_cpp import requantized, version
from halfline.bench.replay import git_history
from halfline.bench.replay.dialects import WINDOW_LINES, Dialect, LlamaCompletion, OpenAI
from halfline.bench.replay.equality import Difference, differences
from halfline.bench.replay.places import chosen
from halfline.bench.replay.plots import draw
from halfline.bench.replay.report import full_record, summary_record, tables
from halfline.bench.replay.run import Encode, Replayed, run_replay
from halfline.bench.replay.servers import halfline_server, llama_server
from halfline.bench.replay.side import Side, SomebodyElses
from halfline.bench.replay.trace import Stretch, load
from halfline.bench.replay.typist import Pace
from halfline.errors import BadSettings
from halfline.model.load import open_checkpoint
from halfline.model.store import ModelStore
from halfline.settings import load_settings
from halfline.text.tokenizer import Tokenizer

_WIDTH = 150  # of a table in a file


@dataclass(frozen=True, slots=True)
class Opponent:
    """llama-server as it takes part. `anchored`: once more, with our prompts."""

    programs: Path
    format_name: str
    arguments: Sequence[str]
    anchored: bool

    @classmethod
    def chosen(
        cls,
        against: Literal["llama-server"] | None,
        programs: Path | None,
        format_name: str,
        arguments: Sequence[str],
        *,
        anchored: bool,
    ) -> "Opponent | None":
        """None when nobody is played against. Raises BadSettings."""
        if against is None:
            if programs is not None or arguments or anchored:
                raise BadSettings("--llama-bin, --llama-argument and --anchored need --against llama-server")
            return None
        if programs is None:
            raise BadSettings("--against llama-server needs --llama-bin, the folder with its programs")
        return cls(programs, format_name, arguments, anchored)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayArguments:
    stretches: Sequence[Stretch]
    num_typists: int
    pause_s: float | None
    url: str | None
    dialect: Literal["openai", "llama"]
    model: str | None
    threads: int
    data_dir: Path | None
    settings: Path | None
    opponent: Opponent | None
    results: Path

    def __post_init__(self) -> None:
        if self.num_typists > len(self.stretches):
            raise BadSettings(
                f"{self.num_typists} typists need as many places, there are {len(self.stretches)}"
            )
        if self.opponent is not None and self.url is not None:
            raise BadSettings("--against stops a server while the other one runs, so it takes no --url")
        if self.opponent is not None and self.opponent.anchored and self.pause_s is not None:
            raise BadSettings("--anchored needs our prompts, and an answer given up in real time tells none")


def find_stretches(
    files: Sequence[Path],
    repository: Path | None,
    paths: Sequence[str],
    first: Sequence[int],
    num_places: int,
    num_keystrokes: int,
) -> list[Stretch]:
    """Raises BadSettings for what cannot be read."""
    if paths and repository is None:
        raise BadSettings("--file names a file of a repository: say which with --git")
    try:
        traces = [load(each, f"{each.name.split('.')[0]}.rs") for each in files]
        if repository is not None:
            named = paths or git_history.most_changed(repository, max(1, num_places - len(traces)))
            traces += [git_history.history(repository, path) for path in named]
        if not traces:
            raise BadSettings("nothing to replay: name an editing trace, or a repository with --git")
        return chosen(traces, first, num_places, num_keystrokes)
    except (OSError, ValueError) as error:
        raise BadSettings(f"cannot replay: {error}") from error


def replay_and_report(arguments: ReplayArguments) -> None:
    """Raises BadSettings, ReplayFailed and PeerFailed."""
    replayed = _played(arguments)
    console = Console() if sys.stdout.isatty() else Console(width=_WIDTH)
    for table in tables(replayed):
        console.print(table)
    arguments.results.mkdir(parents=True, exist_ok=True)
    machine = describe()
    if arguments.opponent is not None:
        machine["llama.cpp"] = version(arguments.opponent.programs)
    pace = "squeezed" if replayed.pace.pause_s is None else f"{replayed.pace.pause_s * 1e3:.0f}ms"
    stem = arguments.results / f"replay-{pace}-{replayed.num_typists}-{str(machine['date'])[:10]}"
    text = json.dumps(full_record(replayed, machine), separators=(",", ":"))
    stem.with_suffix(".json").write_text(text.replace("],[", "],\n[") + "\n", encoding="utf-8")
    try:
        draw(replayed, stem.with_suffix(".png"))
    except ImportError:
        Console(stderr=True).print(
            "no pictures were drawn: they need matplotlib, `pip install 'halfline[plots]'`", markup=False
        )
    print(json.dumps(summary_record(replayed)))


def check_equality(arguments: ReplayArguments) -> None:
    """Print the first differing answers; exit code 1 when there are any. Raises as `replay_and_report` does."""
    known = load_settings({"model": arguments.model, "data_dir": arguments.data_dir}, arguments.settings)
    model = ModelStore(known.data_dir).resolve(known.model)
    with ExitStack() as stack:
        sides = []
        for name, settings in (("on", {}), ("off", PLAIN)):
            state = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            process = stack.enter_context(
                halfline_server(
                    model, state, threads=arguments.threads, settings=settings, file=arguments.settings
                )
            )
            process.freeze()
            sides.append(Side(name, process, ("127.0.0.1", process.port), _openai(arguments.stretches)))
        replayed = _play(arguments, sides, lambda text: ())
    found = list(differences(replayed))
    _print_differences(found, len(replayed.asked))
    if found:
        raise typer.Exit(1)


PLAIN = {"engine.speculation": "off", "pipeline.suggestions": "off", "warmup.share": "0"}
"""Settings with which nothing is guessed, remembered or done ahead, by dotted name."""


def _print_differences(found: Sequence[Difference], num_keystrokes: int) -> None:
    for each in found[:5]:
        print(f"{each.path}, transaction {each.transaction}: {each.texts}")
    print(json.dumps({"keystrokes": num_keystrokes, "differing": len(found)}))


def _played(arguments: ReplayArguments) -> Replayed:
    if arguments.url is not None:
        address = _address(arguments.url)
        makes = _openai(arguments.stretches) if arguments.dialect == "openai" else _llama
        return _play(arguments, [Side(arguments.url, SomebodyElses(), address, makes)], lambda text: ())
    known = load_settings({"model": arguments.model, "data_dir": arguments.data_dir}, arguments.settings)
    model = ModelStore(known.data_dir).resolve(known.model)
    checkpoint = open_checkpoint(model)
    try:
        tokenizer = Tokenizer(checkpoint.vocab)
    finally:
        checkpoint.close()
    with ExitStack() as stack:
        state = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ours = stack.enter_context(
            halfline_server(model, state, threads=arguments.threads, settings={}, file=arguments.settings)
        )
        ours.freeze()
        sides = [Side("halfline", ours, ("127.0.0.1", ours.port), _openai(arguments.stretches))]
        if arguments.opponent is not None:
            theirs = requantized(
                arguments.opponent.programs, model, arguments.opponent.format_name, known.cache_dir / "peers"
            )
            sides.append(stack.enter_context(_llama_side(arguments, theirs, "llama-server", follows=None)))
            if arguments.opponent.anchored:
                sides.append(
                    stack.enter_context(
                        _llama_side(arguments, theirs, "llama-server, our prompts", follows="halfline")
                    )
                )
        return _play(arguments, sides, tokenizer.encode)


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


def _play(arguments: ReplayArguments, sides: Sequence[Side], encode: Encode) -> Replayed:
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    ) as bar:
        total = sum(stretch.stop - stretch.first for stretch in arguments.stretches)
        task = bar.add_task("keystrokes", total=total)
        return run_replay(
            arguments.stretches,
            sides,
            Pace(arguments.pause_s),
            arguments.num_typists,
            encode,
            lambda done: bar.advance(task, done),
        )


def _openai(stretches: Sequence[Stretch]) -> Callable[[int], Dialect]:
    """Every place is its own user's own file."""

    def dialect(place: int) -> Dialect:
        return OpenAI(f"place-{place}/{stretches[place].trace.path}", f"typist-{place}")

    return dialect


def _llama(place: int) -> Dialect:
    return LlamaCompletion(0, WINDOW_LINES)


def _address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    if parts.scheme != "http" or parts.hostname is None:
        raise BadSettings(f"--url {url}: it must be like http://127.0.0.1:8117")
    return parts.hostname, parts.port or 80
