from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Priority(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PRIORITY_UNSPECIFIED: _ClassVar[Priority]
    INTERACTIVE: _ClassVar[Priority]
    BATCH: _ClassVar[Priority]
    IDLE: _ClassVar[Priority]

class FinishReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FINISH_REASON_UNSPECIFIED: _ClassVar[FinishReason]
    STOP: _ClassVar[FinishReason]
    LENGTH: _ClassVar[FinishReason]
    DEADLINE: _ClassVar[FinishReason]
    CANCELLED: _ClassVar[FinishReason]
    SUPERSEDED: _ClassVar[FinishReason]
    SHED: _ClassVar[FinishReason]
    FAILED: _ClassVar[FinishReason]
PRIORITY_UNSPECIFIED: Priority
INTERACTIVE: Priority
BATCH: Priority
IDLE: Priority
FINISH_REASON_UNSPECIFIED: FinishReason
STOP: FinishReason
LENGTH: FinishReason
DEADLINE: FinishReason
CANCELLED: FinishReason
SUPERSEDED: FinishReason
SHED: FinishReason
FAILED: FinishReason

class CompletionRequest(_message.Message):
    __slots__ = ("text", "token_ids", "document", "max_tokens", "num_choices", "echo", "user", "priority", "deadline_ms", "postprocess", "min_confidence", "sampling", "bounds")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    NUM_CHOICES_FIELD_NUMBER: _ClassVar[int]
    ECHO_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_MS_FIELD_NUMBER: _ClassVar[int]
    POSTPROCESS_FIELD_NUMBER: _ClassVar[int]
    MIN_CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    BOUNDS_FIELD_NUMBER: _ClassVar[int]
    text: str
    token_ids: TokenIds
    document: Document
    max_tokens: int
    num_choices: int
    echo: bool
    user: str
    priority: Priority
    deadline_ms: int
    postprocess: bool
    min_confidence: float
    sampling: Sampling
    bounds: Bounds
    def __init__(self, text: _Optional[str] = ..., token_ids: _Optional[_Union[TokenIds, _Mapping]] = ..., document: _Optional[_Union[Document, _Mapping]] = ..., max_tokens: _Optional[int] = ..., num_choices: _Optional[int] = ..., echo: _Optional[bool] = ..., user: _Optional[str] = ..., priority: _Optional[_Union[Priority, str]] = ..., deadline_ms: _Optional[int] = ..., postprocess: _Optional[bool] = ..., min_confidence: _Optional[float] = ..., sampling: _Optional[_Union[Sampling, _Mapping]] = ..., bounds: _Optional[_Union[Bounds, _Mapping]] = ...) -> None: ...

class TokenIds(_message.Message):
    __slots__ = ("ids",)
    IDS_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, ids: _Optional[_Iterable[int]] = ...) -> None: ...

class Document(_message.Message):
    __slots__ = ("prefix", "suffix", "path", "parts")
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    SUFFIX_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    prefix: str
    suffix: str
    path: str
    parts: _containers.RepeatedCompositeFieldContainer[Part]
    def __init__(self, prefix: _Optional[str] = ..., suffix: _Optional[str] = ..., path: _Optional[str] = ..., parts: _Optional[_Iterable[_Union[Part, _Mapping]]] = ...) -> None: ...

class Part(_message.Message):
    __slots__ = ("text", "path")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    text: str
    path: str
    def __init__(self, text: _Optional[str] = ..., path: _Optional[str] = ...) -> None: ...

class Sampling(_message.Message):
    __slots__ = ("profile", "do_sample", "temperature", "top_k", "top_p", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty", "logit_bias", "seed", "stop", "stop_token_ids", "ignore_eos", "schedule", "logprobs")
    class LogitBiasEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: float
        def __init__(self, key: _Optional[int] = ..., value: _Optional[float] = ...) -> None: ...
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    DO_SAMPLE_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    TOP_P_FIELD_NUMBER: _ClassVar[int]
    MIN_P_FIELD_NUMBER: _ClassVar[int]
    PRESENCE_PENALTY_FIELD_NUMBER: _ClassVar[int]
    FREQUENCY_PENALTY_FIELD_NUMBER: _ClassVar[int]
    REPETITION_PENALTY_FIELD_NUMBER: _ClassVar[int]
    LOGIT_BIAS_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    STOP_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    IGNORE_EOS_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    profile: str
    do_sample: bool
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    presence_penalty: float
    frequency_penalty: float
    repetition_penalty: float
    logit_bias: _containers.ScalarMap[int, float]
    seed: int
    stop: _containers.RepeatedScalarFieldContainer[str]
    stop_token_ids: _containers.RepeatedScalarFieldContainer[int]
    ignore_eos: bool
    schedule: Schedule
    logprobs: int
    def __init__(self, profile: _Optional[str] = ..., do_sample: _Optional[bool] = ..., temperature: _Optional[float] = ..., top_k: _Optional[int] = ..., top_p: _Optional[float] = ..., min_p: _Optional[float] = ..., presence_penalty: _Optional[float] = ..., frequency_penalty: _Optional[float] = ..., repetition_penalty: _Optional[float] = ..., logit_bias: _Optional[_Mapping[int, float]] = ..., seed: _Optional[int] = ..., stop: _Optional[_Iterable[str]] = ..., stop_token_ids: _Optional[_Iterable[int]] = ..., ignore_eos: _Optional[bool] = ..., schedule: _Optional[_Union[Schedule, _Mapping]] = ..., logprobs: _Optional[int] = ...) -> None: ...

class Schedule(_message.Message):
    __slots__ = ("by", "base_temp", "min_temp", "k_min", "k_max", "decay_rate")
    BY_FIELD_NUMBER: _ClassVar[int]
    BASE_TEMP_FIELD_NUMBER: _ClassVar[int]
    MIN_TEMP_FIELD_NUMBER: _ClassVar[int]
    K_MIN_FIELD_NUMBER: _ClassVar[int]
    K_MAX_FIELD_NUMBER: _ClassVar[int]
    DECAY_RATE_FIELD_NUMBER: _ClassVar[int]
    by: str
    base_temp: float
    min_temp: float
    k_min: int
    k_max: int
    decay_rate: float
    def __init__(self, by: _Optional[str] = ..., base_temp: _Optional[float] = ..., min_temp: _Optional[float] = ..., k_min: _Optional[int] = ..., k_max: _Optional[int] = ..., decay_rate: _Optional[float] = ...) -> None: ...

class Bounds(_message.Message):
    __slots__ = ("min_indent", "line_time_ms")
    MIN_INDENT_FIELD_NUMBER: _ClassVar[int]
    LINE_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    min_indent: int
    line_time_ms: int
    def __init__(self, min_indent: _Optional[int] = ..., line_time_ms: _Optional[int] = ...) -> None: ...

class Completion(_message.Message):
    __slots__ = ("id", "model", "choices", "receipt")
    ID_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    CHOICES_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    id: str
    model: str
    choices: _containers.RepeatedCompositeFieldContainer[Choice]
    receipt: Receipt
    def __init__(self, id: _Optional[str] = ..., model: _Optional[str] = ..., choices: _Optional[_Iterable[_Union[Choice, _Mapping]]] = ..., receipt: _Optional[_Union[Receipt, _Mapping]] = ...) -> None: ...

class Choice(_message.Message):
    __slots__ = ("index", "text", "token_ids", "finish_reason", "logprobs")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    FINISH_REASON_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    index: int
    text: str
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    finish_reason: FinishReason
    logprobs: _containers.RepeatedCompositeFieldContainer[TokenLogprob]
    def __init__(self, index: _Optional[int] = ..., text: _Optional[str] = ..., token_ids: _Optional[_Iterable[int]] = ..., finish_reason: _Optional[_Union[FinishReason, str]] = ..., logprobs: _Optional[_Iterable[_Union[TokenLogprob, _Mapping]]] = ...) -> None: ...

class CompletionEvent(_message.Message):
    __slots__ = ("id", "delta", "receipt")
    ID_FIELD_NUMBER: _ClassVar[int]
    DELTA_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    id: str
    delta: Choice
    receipt: Receipt
    def __init__(self, id: _Optional[str] = ..., delta: _Optional[_Union[Choice, _Mapping]] = ..., receipt: _Optional[_Union[Receipt, _Mapping]] = ...) -> None: ...

class TokenLogprob(_message.Message):
    __slots__ = ("token_id", "text", "logprob", "offset", "top")
    TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    LOGPROB_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    TOP_FIELD_NUMBER: _ClassVar[int]
    token_id: int
    text: str
    logprob: float
    offset: int
    top: _containers.RepeatedCompositeFieldContainer[Alternative]
    def __init__(self, token_id: _Optional[int] = ..., text: _Optional[str] = ..., logprob: _Optional[float] = ..., offset: _Optional[int] = ..., top: _Optional[_Iterable[_Union[Alternative, _Mapping]]] = ...) -> None: ...

class Alternative(_message.Message):
    __slots__ = ("token_id", "text", "logprob")
    TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    LOGPROB_FIELD_NUMBER: _ClassVar[int]
    token_id: int
    text: str
    logprob: float
    def __init__(self, token_id: _Optional[int] = ..., text: _Optional[str] = ..., logprob: _Optional[float] = ...) -> None: ...

class Receipt(_message.Message):
    __slots__ = ("request_id", "num_prompt_tokens", "num_reused_tokens", "num_computed_tokens", "num_generated_tokens", "queue_ms", "prefill_ms", "decode_ms", "total_ms", "finish_reasons", "drafted_tokens", "accepted_tokens", "coalesced_with", "tier", "num_known_tokens", "num_unshown_tokens", "cut_characters", "confidence", "ledger")
    class DraftedTokensEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class AcceptedTokensEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class CutCharactersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    NUM_PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    NUM_REUSED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    NUM_COMPUTED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    NUM_GENERATED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    QUEUE_MS_FIELD_NUMBER: _ClassVar[int]
    PREFILL_MS_FIELD_NUMBER: _ClassVar[int]
    DECODE_MS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_MS_FIELD_NUMBER: _ClassVar[int]
    FINISH_REASONS_FIELD_NUMBER: _ClassVar[int]
    DRAFTED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    COALESCED_WITH_FIELD_NUMBER: _ClassVar[int]
    TIER_FIELD_NUMBER: _ClassVar[int]
    NUM_KNOWN_TOKENS_FIELD_NUMBER: _ClassVar[int]
    NUM_UNSHOWN_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CUT_CHARACTERS_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    LEDGER_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    num_prompt_tokens: int
    num_reused_tokens: int
    num_computed_tokens: int
    num_generated_tokens: int
    queue_ms: float
    prefill_ms: float
    decode_ms: float
    total_ms: float
    finish_reasons: _containers.RepeatedScalarFieldContainer[FinishReason]
    drafted_tokens: _containers.ScalarMap[str, int]
    accepted_tokens: _containers.ScalarMap[str, int]
    coalesced_with: str
    tier: str
    num_known_tokens: int
    num_unshown_tokens: int
    cut_characters: _containers.ScalarMap[str, int]
    confidence: float
    ledger: _struct_pb2.Struct
    def __init__(self, request_id: _Optional[str] = ..., num_prompt_tokens: _Optional[int] = ..., num_reused_tokens: _Optional[int] = ..., num_computed_tokens: _Optional[int] = ..., num_generated_tokens: _Optional[int] = ..., queue_ms: _Optional[float] = ..., prefill_ms: _Optional[float] = ..., decode_ms: _Optional[float] = ..., total_ms: _Optional[float] = ..., finish_reasons: _Optional[_Iterable[_Union[FinishReason, str]]] = ..., drafted_tokens: _Optional[_Mapping[str, int]] = ..., accepted_tokens: _Optional[_Mapping[str, int]] = ..., coalesced_with: _Optional[str] = ..., tier: _Optional[str] = ..., num_known_tokens: _Optional[int] = ..., num_unshown_tokens: _Optional[int] = ..., cut_characters: _Optional[_Mapping[str, int]] = ..., confidence: _Optional[float] = ..., ledger: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...
