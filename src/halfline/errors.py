"""Every error halfline raises on purpose.

    HalflineError
    ├── BadRequest              the client can fix it
    │   ├── UnsupportedField    a known field with a value we do not serve
    │   ├── PromptTooLong
    │   ├── BodyTooLarge
    │   ├── BodyTooSlow
    │   ├── UnknownCompletion   no receipt by that id
    │   ├── UnknownFragment     no answer by that address
    │   ├── NotRunning          nothing by that id to cancel
    │   ├── KeyRefused          no API key, or none that is known and valid
    │   ├── NotPermitted        a key, and not for this
    │   ├── UnknownTask         no task template by that name, or none like that text
    │   ├── PlaceholdersRefused a task's placeholders, missing or wrong
    │   └── UnencodableText     lone surrogates
    ├── BadModel                the model file is not one we can run
    │   ├── DamagedModel        truncated, wrong magic, impossible header, missing tensor, wrong shape
    │   └── UnsupportedModel    unknown family, format or pre-tokenizer
    ├── BadTemplate             a task template's file is not one we can use
    ├── ModelNotFound           nothing by that name; says what to do
    ├── DownloadFailed
    ├── BadSettings             unknown key, wrong type, impossible value
    │   └── Unproved            may change answers, and nobody has shown by how much
    ├── MissingExtra            an optional part of the install is needed for this
    ├── NotNow                  try again later
    │   ├── Loading
    │   ├── ShuttingDown
    │   ├── Overloaded
    │   ├── OverLimit           this key asked for more than it may
    │   └── KeysUnusable        nobody can tell who has a key
    ├── EngineFailed            our fault: the engine's thread has ended, nothing can be computed any more
    ├── UnusableLogits          our fault: the model overflowed on this request, others are fine
    └── InvariantBroken         our fault: a check() found its structure inconsistent

Constructors take the numbers and build the sentence. `api/failures.py` alone knows HTTP codes,
`cli` alone knows exit codes.
"""

from collections.abc import Mapping, Sequence


class HalflineError(Exception):
    """Root of the tree; its text is one sentence a user can act on."""


class BadRequest(HalflineError):
    """The client can fix it. `field` names the offending field where there is one."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class UnsupportedField(BadRequest):
    """A known field whose value is not served; its neutral value would be accepted."""

    def __init__(self, field: str, value: object, neutral: object) -> None:
        super().__init__(
            f"`{field}` is {value!r}, which this server does not support; leave it out or send {neutral!r}",
            field,
        )


class PromptTooLong(BadRequest):
    """Prompt plus the tokens asked for exceed what the model, or the KV arena, can hold.

    `max_new_tokens` None: as many as there is room for; 0: there is no answer. `counted` False: there may be more in
    the prompt. `field` is where it came from.
    """

    def __init__(
        self,
        num_tokens: int,
        max_new_tokens: int | None,
        limit: int,
        *,
        counted: bool = True,
        field: str = "prompt",
    ) -> None:
        prompt = f"the prompt has {num_tokens if counted else f'at least {num_tokens}'} tokens"
        if max_new_tokens is None:
            reason = f", which leaves no room for an answer: together they may be at most {limit}; shorten it"
        elif max_new_tokens == 0:
            reason = f", but may have at most {limit}; shorten it"
        else:
            reason = (
                f" and its answer up to {max_new_tokens}, but together they may be at most {limit};"
                " shorten one of them"
            )
        super().__init__(prompt + reason, field)
        self.num_tokens = num_tokens
        self.limit = limit


class UnencodableText(BadRequest):
    """The text holds a lone surrogate and so is not Unicode text."""

    def __init__(self, offset: int) -> None:
        super().__init__(
            f"the text holds a lone surrogate at character {offset}; send valid Unicode", "prompt"
        )
        self.offset = offset


class BodyTooLarge(BadRequest):
    """The request's body is larger than the server reads."""

    def __init__(self, num_bytes: int, limit: int) -> None:
        super().__init__(f"the request body has {num_bytes} bytes or more, the limit is {limit}")
        self.num_bytes = num_bytes
        self.limit = limit


class BodyTooSlow(BadRequest):
    """The request's body did not come in time."""

    def __init__(self, num_bytes: int, timeout_s: float) -> None:
        super().__init__(f"only {num_bytes} bytes of the request body came within {timeout_s:g} seconds")
        self.num_bytes = num_bytes
        self.timeout_s = timeout_s


class UnknownFragment(BadRequest):
    """No answer is kept at this address."""

    def __init__(self, address: str) -> None:
        super().__init__(
            f"no answer is kept at {address!r}: it is too long ago, or another model's; ask anew"
        )
        self.address = address


class UnknownCompletion(BadRequest):
    """Nothing is remembered of this completion."""

    def __init__(self, request_id: str) -> None:
        super().__init__(
            f"no receipt of completion {request_id!r}: it never ran here, still runs, or is too long ago"
        )
        self.request_id = request_id


class NotRunning(BadRequest):
    """There is nothing to cancel."""

    def __init__(self, name: str) -> None:
        super().__init__(f"no completion {name!r} runs here: it has ended, or never began")
        self.name = name


class KeyRefused(BadRequest):
    """Whoever asks has to have an API key, and this is none, or no longer one."""


class NotPermitted(BadRequest):
    """Who asks is known, and may not have this."""


class UnknownTask(BadRequest):
    """No task template is called so; `known` are those that are."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(f"no task {name!r}; there are {', '.join(known) or 'none'}", "name")
        self.name = name


class PlaceholdersRefused(BadRequest):
    """What was sent for a task's placeholders: `wrong` says of each place what is wrong there."""

    def __init__(self, wrong: Mapping[str, str]) -> None:
        sentences = "; ".join(f"`{place}` {reason}" for place, reason in wrong.items())
        super().__init__(sentences, next(iter(wrong)))
        self.wrong = wrong


class BadTemplate(HalflineError):
    """The task template `name` cannot be used."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"the task template {name}: {reason}")
        self.name = name
        self.reason = reason


class BadModel(HalflineError):
    """The model at `source` cannot be run."""

    def __init__(self, source: str, reason: str) -> None:
        super().__init__(f"{source}: {reason}")
        self.source = source
        self.reason = reason


class DamagedModel(BadModel):
    """The file contradicts itself or its format."""


class UnsupportedModel(BadModel):
    """The file is fine, halfline does not run its kind."""


class ModelNotFound(HalflineError):
    """Nothing by this name or path."""

    def __init__(self, name: str, advice: str) -> None:
        super().__init__(f"no model {name!r}: {advice}")
        self.name = name


class DownloadFailed(HalflineError):
    """A model could not be fetched, or what came does not match its checksum."""


class MissingExtra(HalflineError):
    """An optional part of the install is needed for this."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs the extra `{extra}`: `.venv/bin/pip install -e '.[{extra}]'`")


class BadSettings(HalflineError):
    """A setting is unknown, of the wrong type, or contradicts another."""


class Unproved(BadSettings):
    """Settings may change answers, and this model has passed no gate with them."""

    def __init__(self, settings: Mapping[str, object], found: str) -> None:
        named = ", ".join(f"{name} is {value}" for name, value in settings.items())
        super().__init__(
            f"{named}, which may change answers, and {found}; run `halfline quality gate` on an arm with just these,"
            " or serve with --allow-unproved"
        )


class NotNow(HalflineError):
    """Try again: nothing is wrong with the request. `retry_after_s` says when."""

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Loading(NotNow):
    """The model is not in memory yet."""

    def __init__(self) -> None:
        super().__init__("the model is still loading; try again in a second", 1.0)


class ShuttingDown(NotNow):
    """The server was told to stop."""

    def __init__(self) -> None:
        super().__init__("the server is shutting down", 5.0)


class Overloaded(NotNow):
    """More requests wait than the server admits. `retry_after_s`: how long these will take."""

    def __init__(self, num_waiting: int, limit: int, retry_after_s: float) -> None:
        super().__init__(f"{num_waiting} requests are waiting and the limit is {limit}", retry_after_s)


class OverLimit(NotNow):
    """An API key was used more often, or for more at once, than it may."""


class KeysUnusable(NotNow):
    """The key file was damaged while the server ran: until it is mended nobody is let in."""

    def __init__(self) -> None:
        super().__init__("the server cannot read its API keys; its log says why", 30.0)


class EngineFailed(HalflineError):
    """The engine's thread ended with `cause`; only a restart helps."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(f"the engine stopped: {type(cause).__name__}: {cause}")
        self.cause = cause


class UnusableLogits(HalflineError):
    """The model's numbers hold nothing to choose a token by, for this request; `reason` is what they are instead."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the model produced no usable logits for this request: {reason}")
        self.reason = reason


class InvariantBroken(HalflineError):
    """Only we can cause this: a structure's `check()` found it inconsistent."""
