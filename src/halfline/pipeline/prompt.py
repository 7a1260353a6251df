"""From what the client sent to the token ids the model reads, and an account of both.

Raw mode takes the prompt as it is. Editor mode takes a document of any length and chooses: a window before the
cursor, and some of what is behind it when the model has an infill format.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from halfline.context.chunks.chunk_tokens import ChunkTokens, tokens_in_memory
from halfline.context.document_prompt import DocumentPrompts, Room
from halfline.context.documents import DocumentKey
from halfline.context.layout import LayoutSizes
from halfline.context.other_files import OtherFiles
from halfline.context.surroundings import Surroundings
from halfline.document.healing_point import MAX_FORCED_BYTES
from halfline.errors import BadRequest, PromptTooLong
from halfline.pipeline.double_buffer import DoubleBuffer
from halfline.pipeline.options import PipelineOptions
from halfline.request import CompletionRequest, Document
from halfline.text.file_markers import find_file_markers
from halfline.text.infill import InfillOrder, extra_stop_ids, find_infill_format
from halfline.text.tokenizer import Tokenizer

# Encoding more in one turn of the event loop, for whomever, would hold it up for longer than a decode step.
_INLINE_CHARACTERS = 1 << 16

_TOKEN_CHARACTERS = 4  # on average: decoding a token takes about as long as encoding as many characters

CROWDED_WINDOW = 0.5
"""What of the windows' usual length is left under overload."""

_FRAME_TOKENS = 4  # infill markers and BOS

_AROUND_CHARACTERS = 1 << 13  # of what was left out before the window, for guesses


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What the model reads. `text` is the part of it that an echo repeats: the tokens at `places`; "" for token ids
    that nobody wants echoed. It was encoded as if it continued other text, or not (`continues`).

    `rest_of_line` is what stands between the cursor and the end of its line, `before` the last of what stands before
    the window and `behind` what stands behind the cursor; all empty in raw mode. `ledger` says what went in and what
    was left out.

    `forced_text` stands between the last token of the prompt and the cursor: a word that the cursor cuts. The model
    writes it first, in tokens of its own choice, and it is no part of the answer. `forced_ids` are the tokens that it
    probably chooses, a mere hint. `planned_ids` is how a prompt of this document to come begins: so much of it should
    have been read before the next keystroke; empty when none is planned.
    """

    token_ids: tuple[int, ...]
    max_new_tokens: int
    stop_token_ids: frozenset[int]
    text: str
    places: range
    continues: bool = False
    rest_of_line: str = ""
    before: str = ""
    behind: str = ""
    forced_text: str = ""
    forced_ids: tuple[int, ...] = ()
    planned_ids: tuple[int, ...] = ()
    ledger: Mapping[str, object] = field(default_factory=dict)


class PromptBuilder:
    """Builds prompts for one tokenizer; prompt and output together never exceed `max_sequence_tokens`."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        options: PipelineOptions,
        vocab_size: int,
        max_sequence_tokens: int,
        order: InfillOrder | None = None,
        surroundings: Surroundings | None = None,
        chunks: ChunkTokens | None = None,
    ) -> None:
        """`vocab_size` is the model's: its embedding may have more rows than the tokenizer has tokens. `order` None:
        the one that models of its infill format are said to like best. `surroundings` None: of other files there is
        what clients send, as they send it. `chunks` None: tokens of their text are remembered by this builder alone.
        """
        self._surroundings = surroundings
        self._prepared = DoubleBuffer()
        self._max_part_tokens = min(options.part_tokens, max_sequence_tokens // 4)
        self._tokenizer = tokenizer
        self._options = options
        self._vocab_size = vocab_size
        self._limit = max_sequence_tokens
        self._infill = find_infill_format(tokenizer)
        sizes = LayoutSizes(
            fresh_tokens=min(options.fresh_prefix_tokens, options.prefix_tokens),
            least_tokens=min(options.fresh_prefix_tokens, options.prefix_tokens) // 2,
            grown_tokens=min(options.grown_prefix_tokens, options.prefix_tokens),
            max_tokens=options.prefix_tokens,
        )
        if order is None:
            order = "prefix_only" if self._infill is None else self._infill.orders[0]
        self._documents = DocumentPrompts(tokenizer, sizes, self._infill, order)
        self._behind_files = self._documents
        """Of documents behind other files, where their text is encoded otherwise there."""
        if tokenizer.space_prefix and not self._documents.continues:
            self._behind_files = DocumentPrompts(tokenizer, sizes, self._infill, order, behind_files=True)
        self._others = OtherFiles(
            find_file_markers(tokenizer, self._infill), chunks or tokens_in_memory(tokenizer)
        )
        self._extra_stop_ids = extra_stop_ids(tokenizer)
        self._num_inline = 0  # characters encoded in this turn of the event loop
        self._encoding = (
            asyncio.Lock()
        )  # one thread at a time: more would only fight the event loop for the interpreter

    async def build(self, request: CompletionRequest, *, crowded: bool = False, keeps: bool = True) -> Prompt:
        """`crowded` shortens the windows of documents by `CROWDED_WINDOW`: so many wait that each gets less. `keeps`
        False: for a guess at the future of its document, which goes on as if it had not been asked.

        Raises BadRequest: PromptTooLong, UnencodableText, token ids outside the vocabulary.
        """
        if isinstance(request.prompt, Document):
            return await self._surrounded(request, request.prompt, crowded=crowded, keeps=keeps)
        if isinstance(request.prompt, str):
            return self._raw(request, request.prompt, await self._encode(request, request.prompt))
        self._check_fits(request, len(request.prompt))
        self._check_ids(request.prompt)
        text = await self._decode(request.prompt) if request.echo else ""
        return self._raw(request, text, list(request.prompt))

    async def _surrounded(
        self, request: CompletionRequest, document: Document, *, crowded: bool, keeps: bool
    ) -> Prompt:
        """With the text of other files. What is remembered is there at once; what has to be searched and shortened is
        prepared beside the event loop, while the engine runs what was prepared before.
        """
        surroundings, key = self._surroundings, _key(request, document)
        if surroundings is None:
            return self._from_document(request, document, {}, crowded=crowded, keeps=keeps)
        room = self._others.room(document, self._max_part_tokens)
        prepare = partial(surroundings.prepare, document, key, room, keeps=keeps)
        if surroundings.remembers(document, key):
            return self._from_document(request, *prepare(), crowded=crowded, keeps=keeps)
        async with self._prepared.prepared(prepare) as prepared:
            return self._from_document(request, *prepared, crowded=crowded, keeps=keeps)

    def _raw(self, request: CompletionRequest, text: str, token_ids: list[int]) -> Prompt:
        token_ids = token_ids or [self._first_id()]
        self._check_fits(request, len(token_ids))
        return Prompt(
            token_ids=tuple(token_ids),
            max_new_tokens=request.max_tokens,
            stop_token_ids=self._stop_ids(request, frozenset()),
            text=text,
            places=range(len(token_ids)),
            ledger={"mode": "raw", "prompt_tokens": len(token_ids)},
        )

    async def _encode(self, request: CompletionRequest, text: str) -> list[int]:
        if self._inline(len(text)):
            return self._tokenizer.encode(text)
        self._check_fits(request, self._tokenizer.fewest_tokens(text), counted=False)
        async with self._encoding:
            return await asyncio.to_thread(self._tokenizer.encode, text)

    async def _decode(self, token_ids: tuple[int, ...]) -> str:
        if self._inline(len(token_ids) * _TOKEN_CHARACTERS):
            return self._tokenizer.decode(token_ids)
        async with self._encoding:
            return await asyncio.to_thread(self._tokenizer.decode, token_ids)

    def _inline(self, num_characters: int) -> bool:
        """Whether so many may be encoded here and now. 128 prompts of one call all come in the same turn."""
        if self._num_inline == 0:
            asyncio.get_running_loop().call_soon(self._next_turn)
        if self._num_inline + num_characters > _INLINE_CHARACTERS:
            return False
        self._num_inline += num_characters
        return True

    def _next_turn(self) -> None:
        self._num_inline = 0

    def _check_fits(self, request: CompletionRequest, num_tokens: int, *, counted: bool = True) -> None:
        if num_tokens + request.max_tokens > self._limit:
            raise PromptTooLong(num_tokens, request.max_tokens, self._limit, counted=counted)

    def _from_document(
        self,
        request: CompletionRequest,
        document: Document,
        around: Mapping[str, object],
        *,
        crowded: bool,
        keeps: bool,
    ) -> Prompt:
        """A crowd is one of documents that nobody names or that are new: an anchor that is there costs least."""
        max_new_tokens = min(request.max_tokens, self._limit // 2)
        share = CROWDED_WINDOW if crowded else 1.0
        bos_ids = self._tokenizer.encode("")  # if the vocabulary wants one
        front = self._others.before(document, self._max_part_tokens)
        head_ids = (*bos_ids, *front.token_ids)
        room = self._limit - max_new_tokens - _FRAME_TOKENS - len(front.token_ids)
        heals = self._options.healing == "on" and not request.echo and room >= 4 * MAX_FORCED_BYTES
        if heals:
            room -= MAX_FORCED_BYTES
        documents = self._behind_files if front.token_ids else self._documents
        built = documents.build(
            document,
            _key(request, document),
            Room(
                num_tokens=room,
                num_suffix_tokens=self._options.suffix_tokens,
                share=share,
            ),
            heals=heals,
            keeps=keeps,
        )
        token_ids = (*head_ids, *built.token_ids) or (self._first_id(),)
        places = range(built.places.start + len(head_ids), built.places.stop + len(head_ids))
        return Prompt(
            token_ids=token_ids,
            max_new_tokens=max_new_tokens,
            stop_token_ids=self._stop_ids(request, self._extra_stop_ids),
            text=built.window,
            places=places,
            continues=documents.continues,
            rest_of_line=_first_line(document.suffix),
            before=document.prefix[max(0, built.start - _AROUND_CHARACTERS) : built.start],
            behind=document.suffix,
            forced_text=built.forced_text,
            forced_ids=built.forced_ids,
            planned_ids=(*head_ids, *built.planned_ids) if built.planned_ids else (),
            ledger={
                "mode": "editor",
                "infill": self._infill.name if self._infill else None,
                "max_tokens": max_new_tokens,
                "prompt_tokens": len(token_ids),
                "suffix_characters": len(document.suffix),
                "parts": front.num_used,
                "parts_left_out": front.num_left_out,
                "part_is_cut": front.is_cut,
                "part_tokens": len(front.token_ids),
                **around,
                **built.ledger,
            },
        )

    def _stop_ids(self, request: CompletionRequest, others: frozenset[int]) -> frozenset[int]:
        chosen = frozenset(request.params.stop_token_ids)
        return chosen if request.params.ignore_eos else chosen | self._tokenizer.eos_ids | others

    def _first_id(self) -> int:
        """What an empty prompt becomes: something has to be run."""
        if self._tokenizer.bos_id is not None:
            return self._tokenizer.bos_id
        return min(self._tokenizer.eos_ids, default=0)

    def _check_ids(self, token_ids: tuple[int, ...]) -> None:
        for token_id in (min(token_ids, default=0), max(token_ids, default=0)):
            if not 0 <= token_id < self._vocab_size:
                raise BadRequest(
                    f"the prompt holds token {token_id}, the vocabulary has {self._vocab_size}", "prompt"
                )


def _key(request: CompletionRequest, document: Document) -> DocumentKey | None:
    series = document.series
    return None if series is None else DocumentKey(request.tenant, request.user, series)


def _first_line(text: str) -> str:
    end = text.find("\n")  # and not `partition`, which copies the rest too
    return text if end < 0 else text[:end]
