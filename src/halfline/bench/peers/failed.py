"""What a peer that does not run is worth: one sentence."""

from halfline.errors import HalflineError


class PeerFailed(HalflineError):
    """The program of a peer ended with an error; the last lines of what it said are part of the sentence."""

    def __init__(self, peer: str, said: str) -> None:
        super().__init__(f"{peer} failed:\n" + "\n".join(said.strip().splitlines()[-8:]))
