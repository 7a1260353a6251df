"""What `halfline replay` was asked for, checked: which typing, at which pace, against whom."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from halfline.bench.replay import git_history
from halfline.bench.replay.places import chosen
from halfline.bench.replay.trace import Stretch, load
from halfline.errors import BadSettings


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
    most_s: float
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
