"""What an operator may turn about text of other files."""

from dataclasses import dataclass

from halfline.context.compression.names import PASS_NAMES, Chosen, PassName


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextOptions:
    """Text of other files comes from the client, and from an index of a workspace where there is one."""

    chosen: Chosen = "wanted"
    """What is shown of text of other files for which there is no room (`pipeline.part_tokens`): `wanted` are
    definitions that the document uses and what has most in common with the text around the cursor; `first` the last
    files, and of the one before these its first lines."""

    compression: tuple[PassName, ...] = ()
    """How text of other files is shortened before that, pass by pass: `comments`, `duplicates`, `bodies`, `entropy`,
    `prune` and more ([context](context.md)). By default it is not."""

    keep: float = 0.69
    """What share of its tokens passes leave that can choose, such as `prune`, `tail` or `random`."""

    index: str | None = None
    """A folder that `halfline index DIR` has read: what looks useful in it is shown to the model. Everybody who may use
    this server may get answers from it."""

    recent_files: int = 0
    """How many files of a user (whom requests name) are remembered as requests showed them, so that the model sees
    where they were edited lately and what is alike in them; 0 remembers none."""

    def __post_init__(self) -> None:
        for name in self.compression:
            if name not in PASS_NAMES:
                raise ValueError(f"compression has `{name}`, there are {', '.join(PASS_NAMES)}")
        if not 0 <= self.recent_files <= 64:
            raise ValueError(f"recent_files is {self.recent_files}, it must be between 0 and 64")
        if not 0.0 < self.keep <= 1.0:
            raise ValueError(f"keep is {self.keep}, it must be more than 0 and at most 1")
