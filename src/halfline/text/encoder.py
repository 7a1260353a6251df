"""One shape for every kind of vocabulary: plain text into token ids, token texts into bytes.

Here the kinds differ (byte-level BPE and SentencePiece from GGUF, either of them as a tokenizer.json);
`tokenizer` no longer sees which one it has. The BPE engine never learns of control tokens, so no text can
spell one.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

from halfline.errors import BadRequest, DamagedModel, UnsupportedModel
from halfline.text import token_bytes
from halfline.text.markers import STOP_TEXTS
from halfline.text.pretokenizers import find_pre_tokenizer
from halfline.text.sentencepiece import SPACE, merges_from_scores, spaces_only_lead
from halfline.text.vocab import VocabSpec

_Component = normalizers.Normalizer | pre_tokenizers.PreTokenizer | decoders.Decoder
_UNKNOWN, _CONTROL, _USER_DEFINED, _BYTE = 2, 3, 4, 6
_PIECE_CHARS = 1 << 16
# What cannot be cut costs the engine up to 150 bytes a character: these are 600 MB at worst.
_MAX_PIECE_CHARS = 1 << 22
_REACHES = (128, 1024, 8192)  # how far back a cut is looked for: nearly always there is one in the last line
# Every supported pre-tokenizer cuts behind a line, between two words, and where a word or a number ends and a line's
# end or a sign follows, whatever else the text holds.
_BETWEEN_WORDS = re.compile(
    r"(?<=\S\n)(?=\S)|(?<=[A-Za-z0-9])(?= [A-Za-z])|(?<=[A-Za-z0-9])(?=[\n!\"#$%&()*+,./:;<=>?@\[\\\]^_`{|}~-])"
)
_PROBES = (
    "one two Three 4 five\nsix\n  seven\n(eight);\nnine\n\nten\n'll be\n_x\n12\n13 a\t\nb\r\nc d",
    "if x == 1:\n#é\n日本 語\nend a b\n}\n]);\n}\n// it's\n\"s\"\n's a's b\n  \n-- c",
)
_BEFORE_SPACE = re.compile(f"(?<=[^{SPACE}])(?={SPACE})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoder:
    """A vocabulary ready to encode: `texts` by id, `control_ids` that no text encodes to.

    user_defined    tokens whose text is found before all else; `encode` is given none of it
    has_gaps        some bytes have no token: they vanish but keep their neighbours apart, so the engine knows
                    them by ids behind the vocabulary
    spaces_escaped  the engine wants ▁ for every space
    space_prefix    one more in front of a text; with `metaspace` only where it does not begin with one
    cut             where a long text may be cut without changing its tokens; None: nowhere
    """

    engine: tokenizers.Tokenizer
    texts: tuple[str, ...]
    control_ids: frozenset[int]
    user_defined: dict[str, int]
    spelling: token_bytes.Spelling
    has_gaps: bool = False
    metaspace: bool = False
    spaces_escaped: bool
    space_prefix: bool
    cut: re.Pattern[str] | None

    def start(self, text: str) -> str:
        """A text that continues no other, with the space its first word is expected to have."""
        needs_space = self.space_prefix and not (self.metaspace and text.startswith((" ", SPACE)))
        return " " + text if needs_space else text

    def encode(self, text: str) -> list[int]:
        """Ids of a text holding no user defined token. Linear in its length, other threads run meanwhile."""
        if self.spaces_escaped:
            text = text.replace(" ", SPACE)
        token_ids: list[int] = []
        for piece in self._pieces(text):
            # The batch call, unlike `encode`, lets go of the interpreter lock and tracks no offsets.
            token_ids += self.engine.encode_batch_fast([piece], add_special_tokens=False)[0].ids
        return [i for i in token_ids if i < len(self.texts)] if self.has_gaps else token_ids

    def last_cut(self, text: str, stop: int) -> int | None:
        """The last place where the text may be cut, as far as its first `stop` characters show; None: none is known."""
        if self.cut is None or (self.engine.normalizer is not None and not text.isascii()):
            return None
        for reach in _REACHES:
            start = max(0, stop - reach)
            places = [found.start() for found in self.cut.finditer(text, start, stop)]
            if places or start == 0:
                return places[-1] if places else None
        return None

    def last_word(self, text: str) -> int:
        """Where the last of the words begins that the text is cut into before they are merged."""
        if self.engine.pre_tokenizer is None:
            return len(text)
        words = self.engine.pre_tokenizer.pre_tokenize_str(
            text.replace(" ", SPACE) if self.spaces_escaped else text
        )
        return int(words[-1][1][0]) if words else 0

    def _pieces(self, text: str) -> Iterator[str]:
        """The text in pieces that bound the engine's memory, as far as it can be cut."""
        start = 0
        while start < len(text):
            found = self.cut.search(text, start + _PIECE_CHARS) if self.cut is not None else None
            stop = found.start() if found is not None else len(text)
            if stop - start > _MAX_PIECE_CHARS:
                raise BadRequest(
                    f"the text has {stop - start} characters without a place between words to cut it at,"
                    f" at most {_MAX_PIECE_CHARS} can be encoded at once",
                    "prompt",
                )
            yield text[start:stop]
            start = stop


def build_encoder(vocab: VocabSpec) -> Encoder:
    """Raises UnsupportedModel for a pre-tokenizer or a model we lack, DamagedModel for contradictions."""
    if vocab.kind == "tokenizer_json":
        return _from_json(vocab)
    if len(vocab.token_types) not in (0, len(vocab.tokens)):
        raise _damaged(f"{len(vocab.tokens)} tokens but {len(vocab.token_types)} token types")
    if vocab.kind == "sentencepiece":
        return _from_scores(vocab)
    return _from_merges(vocab)


def _from_merges(vocab: VocabSpec) -> Encoder:
    pre_tokenizer = find_pre_tokenizer(vocab.pre_tokenizer)
    control_ids = _control_ids(vocab)
    ids = {text: i for i, text in enumerate(vocab.tokens) if text and i not in control_ids}
    pairs = dict.fromkeys(_split_merge(merge) for merge in vocab.merges)
    merges = [(a, b) for a, b in pairs if a in ids and b in ids and a + b in ids]
    missing = [char for char in token_bytes.byte_alphabet().values() if char not in ids]
    ids |= {char: len(vocab.tokens) + i for i, char in enumerate(missing)}
    engine = tokenizers.Tokenizer(models.BPE(ids, merges, ignore_merges=pre_tokenizer.whole_words))
    engine.pre_tokenizer = pre_tokenizer.build()
    return Encoder(
        engine=engine,
        texts=vocab.tokens,
        control_ids=control_ids,
        user_defined=_user_defined(vocab, control_ids),
        spelling=token_bytes.byte_level,
        has_gaps=bool(missing),
        spaces_escaped=False,
        space_prefix=False,
        cut=_BETWEEN_WORDS,
    )


def _from_scores(vocab: VocabSpec) -> Encoder:
    if len(vocab.scores) != len(vocab.tokens):
        raise _damaged(f"{len(vocab.tokens)} tokens but {len(vocab.scores)} scores")
    control_ids = _control_ids(vocab)
    bytes_ids = {i for i, kind in enumerate(vocab.token_types) if kind == _BYTE}
    ids = {text: i for i, text in enumerate(vocab.tokens) if text and i not in control_ids}
    merges = merges_from_scores({t: vocab.scores[i] for t, i in ids.items() if i not in bytes_ids})
    unknown = next((vocab.tokens[i] for i, kind in enumerate(vocab.token_types) if kind == _UNKNOWN), None)
    if unknown is not None:
        ids[unknown] = vocab.tokens.index(unknown)  # the engine's answer to a character it has no bytes for
    engine = tokenizers.Tokenizer(
        models.BPE(ids, merges, unk_token=unknown, fuse_unk=True, byte_fallback=bool(bytes_ids))
    )
    words = spaces_only_lead(ids)
    if words:
        engine.pre_tokenizer = pre_tokenizers.Split(tokenizers.Regex(f"{SPACE}*[^{SPACE}]+"), "isolated")
    return Encoder(
        engine=engine,
        texts=vocab.tokens,
        control_ids=control_ids,
        user_defined=_user_defined(vocab, control_ids),
        spelling=token_bytes.sentencepiece,
        spaces_escaped=True,
        space_prefix=vocab.add_space_prefix,
        cut=_BEFORE_SPACE if words else None,
    )


def _from_json(vocab: VocabSpec) -> Encoder:
    """Model, normalizer and pre-tokenizer as the file has them; its added tokens become our own business."""
    try:
        source = tokenizers.Tokenizer.from_buffer(vocab.tokenizer_json or b"")
    except Exception as error:  # the library raises nothing narrower
        raise DamagedModel("tokenizer.json", str(error)) from error
    if not isinstance(source.model, models.BPE):
        raise UnsupportedModel(
            "tokenizer.json", f"a {type(source.model).__name__} model; only BPE is supported"
        )
    by_text = source.get_vocab(with_added_tokens=True)
    texts = [""] * (max(by_text.values(), default=-1) + 1)
    for text, token_id in by_text.items():
        texts[token_id] = text
    added = source.get_added_tokens_decoder()
    control_ids = _ends(vocab) | {
        i for i, token in added.items() if token.special or _looks_special(token.content)
    }
    engine = tokenizers.Tokenizer(source.model)
    steps = [*_steps(source.normalizer), *_steps(source.pre_tokenizer), *_steps(source.decoder)]
    kinds = {str(step["type"]) for step in steps}
    byte_level = "ByteLevel" in kinds
    if byte_level:
        engine.normalizer = source.normalizer
        engine.pre_tokenizer = source.pre_tokenizer
    elif any(step["type"] == "Metaspace" and step.get("split") for step in _steps(source.pre_tokenizer)):
        engine.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never", split=True)
    return Encoder(
        engine=engine,
        texts=tuple(texts),
        control_ids=frozenset(control_ids),
        user_defined={token.content: i for i, token in added.items() if i not in control_ids},
        spelling=token_bytes.byte_level if byte_level else token_bytes.sentencepiece,
        spaces_escaped=not byte_level,
        metaspace="Metaspace" in (step["type"] for step in _steps(source.pre_tokenizer)),
        space_prefix=any(
            step["type"] == "Prepend" or step.get("prepend_scheme") in ("first", "always")
            for step in _steps(source.normalizer) + _steps(source.pre_tokenizer)
        ),
        cut=_BETWEEN_WORDS if byte_level and _falls_apart(engine) else None,
    )


def _falls_apart(engine: tokenizers.Tokenizer) -> bool:
    """Whether a pre-tokenizer that we did not choose cuts where all those do that we know."""
    if engine.pre_tokenizer is None:
        return False
    for text in _PROBES:
        starts = {start for _, (start, _) in engine.pre_tokenizer.pre_tokenize_str(text)}
        whole = engine.encode(text, add_special_tokens=False).ids
        for found in _BETWEEN_WORDS.finditer(text):
            place = found.start()
            parts = (
                engine.encode(part, add_special_tokens=False).ids for part in (text[:place], text[place:])
            )
            if place not in starts or whole != [token_id for part in parts for token_id in part]:
                return False
    return True


def _split_merge(merge: str) -> tuple[str, str]:
    left, _, right = merge.partition(" ")
    if not left or not right:
        raise _damaged(f"the merge {merge!r} is not two tokens with a space between them")
    return left, right


def _control_ids(vocab: VocabSpec) -> frozenset[int]:
    """Control and unknown tokens, and those a badly converted file should have marked so."""
    marked = (i for i, kind in enumerate(vocab.token_types) if kind in (_CONTROL, _UNKNOWN))
    known = (i for i, text in enumerate(vocab.tokens) if text in STOP_TEXTS)
    ends = _ends(vocab)
    if any(not 0 <= i < len(vocab.tokens) for i in ends):
        raise _damaged(f"BOS or EOS ids {sorted(ends)} outside of its {len(vocab.tokens)} tokens")
    return frozenset((*marked, *known, *ends))


def _ends(vocab: VocabSpec) -> set[int]:
    return {*vocab.eos_ids} | ({vocab.bos_id} if vocab.bos_id is not None else set())


def _user_defined(vocab: VocabSpec, control_ids: frozenset[int]) -> dict[str, int]:
    kinds = enumerate(vocab.token_types)
    return {vocab.tokens[i]: i for i, kind in kinds if kind == _USER_DEFINED and i not in control_ids}


def _looks_special(text: str) -> bool:
    """Markers that many tokenizer.json files list without saying `special`."""
    return text in STOP_TEXTS or (text.startswith(("<|", "<｜")) and text.endswith(("|>", "｜>")))


def _steps(component: _Component | None) -> list[dict[str, object]]:
    """A normalizer, pre-tokenizer or decoder as the flat list of its steps."""
    if component is None:
        return []
    state = json.loads(component.__getstate__())
    nested = next((state[key] for key in ("normalizers", "pretokenizers", "decoders") if key in state), None)
    return [state] if nested is None else list(nested)


def _damaged(reason: str) -> DamagedModel:
    return DamagedModel("tokenizer", f"its vocabulary has {reason}")
