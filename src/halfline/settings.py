"""Every setting, from a TOML file, the environment and the command line, as one frozen object.

A command-line flag wins over the environment, the environment over the file, the file over the default. The names
are the packages' own: `engine.step_tokens` is `step_tokens` of engine/options.py, written so in the file's
`[engine]` table, and HALFLINE_ENGINE__STEP_TOKENS in the environment. A name nobody knows is an error.
"""

import difflib
import json
import math
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, get_args, get_origin

import platformdirs
from pydantic import ByteSize, Field, SecretStr, ValidationError, model_validator
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from halfline.api.options import ApiOptions
from halfline.api.tls_options import TlsOptions
from halfline.cache.options import CacheOptions
from halfline.context.options import ContextOptions
from halfline.engine.options import EngineOptions
from halfline.errors import BadRequest, BadSettings
from halfline.model.kv_format import KvFormatName
from halfline.pipeline.options import PipelineOptions
from halfline.telemetry.options import TelemetryOptions
from halfline.warmup.options import WarmupOptions

PREFIX = "HALFLINE_"

_NEVER_EMPTY = ("data_dir", "cache_dir", "tasks_dir", "model", "host")

FILE_NAME = "settings.toml"


class Settings(BaseSettings):
    """Made by `load_settings`; the packages get their part of it, nobody gets it whole."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter="__", frozen=True, extra="forbid"
    )

    data_dir: Path = Field(default_factory=lambda: platformdirs.user_data_path("halfline"))
    """Models and databases. By default the system's place for a user's data."""

    cache_dir: Path = Field(default_factory=lambda: platformdirs.user_cache_path("halfline"))
    """What may be lost: weights in other formats, for benchmarks, and KV blocks, if `kv_disk_bytes` says so. By default
    the system's place for a user's caches."""

    model: str = "smollm2-135m"
    """A stored model's name, or a path to a GGUF file or a folder of Hugging Face files."""

    kv_bytes: ByteSize | None = None
    """Memory for the KV cache, such as `512MiB`. Left out: a quarter of the available memory, at most 1 GiB."""

    kv_format: KvFormatName = "f16"
    """How KV is kept: `f16`, or `int8` in three fifths of the memory, a little less exact. With `int8` only whole
    blocks of 16 tokens are found again, and guessed tokens end with their block."""

    kv_disk_bytes: ByteSize = ByteSize(0)
    """Disk for KV blocks that outlive a restart, such as `4GiB`, in `cache_dir`; 0 keeps none. They contain what was
    prompted, readable for their owner; those of another model are deleted at start."""

    chunk_disk_bytes: ByteSize = ByteSize(0)
    """Disk for the tokens of other files' text, such as `64MiB`, in `cache_dir`, so that a restart does not make them
    again; 0 keeps none. They say what was prompted, readable for their owner."""

    threads: int | None = Field(None, ge=1, le=1024)
    """Threads that compute, at most 1024. Left out: as many as this process may use cores."""

    tasks_dir: Path | None = None
    """A folder of your own task templates, `NAME/VERSION.toml` (docs/tasks.md). Left out: `tasks` in the data
    directory."""

    host: str = "127.0.0.1"
    """Address to listen on. One that others can reach also needs keys (`halfline key create`) or `insecure_open`."""

    port: int = Field(8117, ge=0, le=65535)
    """Port to listen on; 0 takes any free one."""

    allow_unproved: bool = False
    """Serve with settings that may change answers, such as `kv_format = "int8"`, although this model has not passed a
    `halfline quality gate` with them."""

    insecure_open: bool = False
    """Listen on addresses that others can reach, without keys: everyone who reaches the port may use it."""

    api_key: SecretStr | None = None
    """The key that `halfline complete` and `halfline lsp` send to the server they ask. Never shown."""

    api: ApiOptions = ApiOptions()
    tls: TlsOptions = TlsOptions()
    engine: EngineOptions = EngineOptions()
    pipeline: PipelineOptions = PipelineOptions()
    context: ContextOptions = ContextOptions()
    cache: CacheOptions = CacheOptions()
    warmup: WarmupOptions = WarmupOptions()
    telemetry: TelemetryOptions = TelemetryOptions()

    @model_validator(mode="before")
    @classmethod
    def _refuse_what_only_looks_right(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Pydantic would take true for 1, an empty path for this folder, and numbers nobody can wait for."""
        for key, kind in _kinds():
            *tables, name = key.split(".")
            given: Any = values
            for table in tables:
                given = given.get(table)
            value = given.get(name) if isinstance(given, Mapping) else None
            if not {int, float, ByteSize}.isdisjoint((kind, *get_args(kind))):
                if isinstance(value, bool):
                    raise ValueError(f"{key} is {str(value).lower()}, it must be a number")
                if not _is_finite(value):
                    raise ValueError(f"{key} is {value}, it must be a finite number")
            if name in _NEVER_EMPTY and isinstance(value, str) and not value.strip():
                raise ValueError(f"{key} is empty; leave it out to have the default")
        return values

    @model_validator(mode="before")
    @classmethod
    def _read_texts(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The environment has no lists and no tables: there a list's entries are separated by commas, or the list is
        written in JSON, as a table is.
        """
        for table, field in cls.model_fields.items():
            given = values.get(table)
            if is_dataclass(field.annotation) and isinstance(given, dict):
                for inner in dataclass_fields(field.annotation):
                    text = given.get(inner.name)
                    key, kind = f"{table}.{inner.name}", get_origin(inner.type)
                    if kind is tuple and isinstance(text, str):
                        given[inner.name] = _entries(key, text)
                    elif kind is Mapping and isinstance(text, str):
                        given[inner.name] = _json(key, text)
        return values


def load_settings(flags: Mapping[str, object], file: Path | None = None) -> Settings:
    """Everything the user said, checked.

    `flags` holds what the command line named, by dotted name; None values were not named. `file` None reads
    settings.toml of the data directory where there is one. Raises BadSettings.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    values = _file_values(file, given)

    class Layered(Settings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return init_settings, env_settings, InitSettingsSource(settings_cls, init_kwargs=values)

    _refuse_unknown_environment()
    try:
        return Layered(**_nested(given))
    except ValidationError as error:
        raise _bad_settings(error) from error
    except BadRequest as error:  # of a value that a request may hold as well
        raise BadSettings(str(error)) from error


def known_keys() -> tuple[str, ...]:
    """Every setting's dotted name, in the order they are documented."""
    return tuple(key for key, _ in _kinds())


def environment_name(key: str) -> str:
    """HALFLINE_ENGINE__STEP_TOKENS for engine.step_tokens."""
    return PREFIX + key.replace(".", "__").upper()


def _entries(key: str, text: str) -> Any:
    if text.lstrip().startswith("["):
        return _json(key, text)
    return tuple(entry.strip() for entry in text.split(",") if entry.strip())


def _json(key: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"{key} is no JSON: {error}") from error


def _kinds() -> Iterator[tuple[str, Any]]:
    """Every setting's dotted name and its type."""
    for name, field in Settings.model_fields.items():
        if is_dataclass(field.annotation):
            yield from ((f"{name}.{inner.name}", inner.type) for inner in dataclass_fields(field.annotation))
        else:
            yield name, field.annotation


def _is_finite(value: object) -> bool:
    """Also for a number that is written as text, as the environment does; what is no number is another's to refuse."""
    if not isinstance(value, str | int | float):
        return True
    try:
        return math.isfinite(float(value))
    except ValueError:
        return True
    except OverflowError:
        return False


def _file_values(file: Path | None, given: Mapping[str, object]) -> dict[str, Any]:
    if file is None:
        data_dir = given.get("data_dir") or os.environ.get(environment_name("data_dir"))
        file = Path(str(data_dir)) if data_dir else platformdirs.user_data_path("halfline")
        file = file / FILE_NAME
        if not file.exists():
            return {}
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadSettings(f"the settings file {file} cannot be read: {error}") from error
    known = known_keys()
    tables = {key.split(".")[0] for key in known if "." in key}
    for key in _dotted(values):
        # A table's name with a plain value is known, and of the wrong type.
        if key not in known and key not in tables:
            raise BadSettings(f"{file}: unknown setting `{key}`{_nearest(key, known)}")
    return values


def _dotted(values: Mapping[str, object]) -> Iterator[str]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from (f"{name}.{inner}" for inner in value)
        else:
            yield name


def _refuse_unknown_environment() -> None:
    known = {environment_name(key): key for key in known_keys()}
    for name in os.environ:
        if name.upper().startswith(PREFIX) and name.upper() not in known:
            raise BadSettings(f"unknown setting {name} in the environment{_nearest(name.upper(), known)}")


def _nearest(name: str, known: Mapping[str, object] | tuple[str, ...]) -> str:
    close = difflib.get_close_matches(name, list(known), 1, cutoff=0.5)
    return f"; did you mean {close[0]}?" if close else ""


def _nested(given: Mapping[str, object]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for key, value in given.items():
        *tables, name = key.split(".")
        inner = nested
        for table in tables:
            inner = inner.setdefault(table, {})
        inner[name] = value
    return nested


def _bad_settings(error: ValidationError) -> BadSettings:
    """Pydantic's first complaint: which setting, its value, what was expected."""
    first = error.errors(include_url=False, include_context=False)[0]
    key = ".".join(str(part) for part in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    if key == "api_key":
        return BadSettings("api_key is no text")
    if first["type"] == "value_error":
        return BadSettings(f"{key}: {message}" if key else message)
    return BadSettings(f"{key} is {first['input']!r}: {message[0].lower()}{message[1:]}")
