"""What stands behind the cursor, as the model was told it last, for as long as that is nearly true.

In most infill orders the suffix comes before what is being typed, so that each change of it costs all of the prompt.
Two texts behind a cursor are nearly the same when they begin with the same token and at most a tenth of their heads
differs. (GitHub Copilot's client keeps its suffix so, with the same tenth.)
"""

from collections.abc import Sequence

from halfline.text.tokenizer import Tokenizer

_HEAD_TOKENS = 50
_TOKEN_CHARACTERS = 6  # of a token of code, seldom more


class StickySuffix:
    """One document's, as it was read last."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._text: str | None = None  # seen last, and read or found nearly the same
        self._token_ids: tuple[int, ...] = ()

    def fork(self) -> "StickySuffix":
        """One that knows the same and learns apart."""
        copy = StickySuffix(self._tokenizer)
        copy._text, copy._token_ids = self._text, self._token_ids
        return copy

    def read(self, suffix: str, max_tokens: int, *, renew: bool) -> tuple[tuple[int, ...], bool]:
        """Its tokens, at most so many, and whether they are those of before. `renew`: everything is read anew anyway.

        Raises UnencodableText.
        """
        text = suffix[: max_tokens * _TOKEN_CHARACTERS]
        if text == self._text and not renew and len(self._token_ids) <= max_tokens:
            return self._token_ids, True
        token_ids = tuple(self._tokenizer.encode(text, continues=True)[:max_tokens])
        fits = self._text is not None and len(self._token_ids) <= max_tokens
        kept = fits and not renew and nearly_same(self._token_ids, token_ids)
        self._text = text
        if not kept:
            self._token_ids = token_ids
        return self._token_ids, kept


def nearly_same(before: Sequence[int], now: Sequence[int]) -> bool:
    """Whether they begin with the same token, and the first of them have one place where they differ, by a tenth."""
    if not before or not now or before[0] != now[0]:
        return not before and not now
    head = before[:_HEAD_TOKENS]
    length = min(len(head), len(now))
    alike = next((i for i in range(length) if head[i] != now[i]), length)
    most = len(head) // 10
    return any(
        _goes_on(head[alike + removed :], now[alike + added :])
        for removed in range(min(most, len(head) - alike) + 1)
        for added in range(min(most, len(now) - alike) + 1)
    )


def _goes_on(rest: Sequence[int], now: Sequence[int]) -> bool:
    """Whether the rest of the head is there, or, where less is known of what is there now, none of it contradicts."""
    length = min(len(rest), len(now))
    return rest[:length] == now[:length] and len(rest) - length <= len(rest) // 10
