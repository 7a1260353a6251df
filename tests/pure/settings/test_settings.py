"""What wins over what, and what a user is told about a mistake."""

import re
from pathlib import Path

import pytest

from halfline.errors import BadSettings
from halfline.request import Schedule
from halfline.sampling.profiles import Profile
from halfline.settings import Settings, environment_name, known_keys, load_settings


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Only what a test sets is set; the data directory is empty."""
    for key in known_keys():
        monkeypatch.delenv(environment_name(key), raising=False)
    monkeypatch.setenv("HALFLINE_DATA_DIR", str(tmp_path / "data"))


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "my.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_without_file_environment_or_flags_every_setting_has_its_default() -> None:
    settings = load_settings({})
    assert settings.port == 8117
    assert settings.host == "127.0.0.1"
    assert settings.kv_bytes is None
    assert settings.engine.step_tokens == Settings.model_fields["engine"].default.step_tokens


def test_a_flag_wins_over_the_environment_which_wins_over_the_file_which_wins_over_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path, "port = 1\n[engine]\nstep_tokens = 300\nmax_waiting = 7\n")
    assert load_settings({}, file).port == 1
    monkeypatch.setenv("HALFLINE_PORT", "2")
    monkeypatch.setenv("HALFLINE_ENGINE__STEP_TOKENS", "400")
    settings = load_settings({}, file)
    assert settings.port == 2
    assert settings.engine.step_tokens == 400
    assert settings.engine.max_waiting == 7, "the environment replaces one setting, not its table"
    settings = load_settings({"port": 3, "host": None, "engine.step_tokens": 500}, file)
    assert (settings.port, settings.engine.step_tokens, settings.engine.max_waiting) == (3, 500, 7)


def test_the_data_directory_s_settings_file_is_read_when_none_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "settings.toml").write_text("port = 5\n")
    assert load_settings({}).port == 5
    assert load_settings({}, written(tmp_path, "")).port == 8117
    assert load_settings({"data_dir": tmp_path}).port == 8117


def test_sizes_may_be_written_with_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HALFLINE_KV_BYTES", "512MiB")
    assert load_settings({}).kv_bytes == 512 * 1024 * 1024


def test_a_list_can_be_given_in_the_file_and_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path, '[api]\ncors_origins = ["https://a.example"]\n')
    assert load_settings({}, file).api.cors_origins == ("https://a.example",)
    monkeypatch.setenv("HALFLINE_API__CORS_ORIGINS", "https://b.example, https://c.example")
    assert load_settings({}, file).api.cors_origins == ("https://b.example", "https://c.example")
    monkeypatch.setenv("HALFLINE_API__CORS_ORIGINS", ' ["https://d.example", "https://e.example"]')
    assert load_settings({}, file).api.cors_origins == ("https://d.example", "https://e.example")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('["comments",', "context.compression is no JSON"),
        ("comments,bodys", "context.compression.1 is 'bodys'"),
        ("[1]", "context.compression.0 is 1"),
    ],
)
def test_what_is_no_list_in_the_environment_is_named(
    monkeypatch: pytest.MonkeyPatch, text: str, sentence: str
) -> None:
    monkeypatch.setenv("HALFLINE_CONTEXT__COMPRESSION", text)
    with pytest.raises(BadSettings, match=sentence):
        load_settings({})


@pytest.mark.parametrize(
    ("text", "unknown", "nearest"),
    [
        ("prot = 1", "prot", "port"),
        ("[engine]\nstep_token = 1", "engine.step_token", "engine.step_tokens"),
        ("[engin]\nstep_tokens = 1", "engin.step_tokens", "engine.step_tokens"),
        ("[api.limits]\nx = 1", "api.limits", None),
    ],
)
def test_an_unknown_key_in_the_file_is_an_error_that_names_the_nearest_known_one(
    tmp_path: Path, text: str, unknown: str, nearest: str | None
) -> None:
    with pytest.raises(BadSettings) as caught:
        load_settings({}, written(tmp_path, text))
    assert f"`{unknown}`" in str(caught.value)
    assert nearest is None or f"did you mean {nearest}?" in str(caught.value)


def test_an_unknown_variable_is_an_error_that_names_the_nearest_known_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HALFLINE_KV_BYTE", "1")
    with pytest.raises(BadSettings, match=r"HALFLINE_KV_BYTE in .* did you mean HALFLINE_KV_BYTES\?"):
        load_settings({})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('port = "many"', "port is 'many': input should be a valid integer"),
        ("port = 70000", "port is 70000: input should be less than or equal to 65535"),
        ('[engine]\nstep_tokens = "x"', "engine.step_tokens is 'x': input should be a valid integer"),
        ('[telemetry]\nlog_level = "loud"', "telemetry.log_level is 'loud': input should be 'debug'"),
        ("engine = 3", "engine is 3: input should be"),
        ("[engine]\nstep_tokens = 0", "step_tokens is 0, it must be at least 1"),
        ("[api]\ngrace_s = -1", "api: grace_s is -1"),
        ("[api]\ngrace_s = 1e9", "grace_s is 1000000000.0, it must be at most 86400"),
        ("port = true", "port is true, it must be a number"),
        ("kv_bytes = true", "kv_bytes is true, it must be a number"),
        ("[engine]\nstep_ms = false", "engine.step_ms is false, it must be a number"),
        ("[engine]\nstep_tokens = 65537", "step_tokens is 65537, it must be at most 65536"),
        ("threads = 1025", "threads is 1025: input should be less than or equal to 1024"),
        ("kv_bytes = inf", "kv_bytes is inf, it must be a finite number"),
        ('model = ""', "model is empty"),
        ('cache_dir = " "', "cache_dir is empty"),
    ],
)
def test_a_wrong_value_is_an_error_that_names_setting_value_and_what_was_expected(
    tmp_path: Path, text: str, expected: str
) -> None:
    with pytest.raises(BadSettings) as caught:
        load_settings({}, written(tmp_path, text))
    assert expected in str(caught.value)


def test_profiles_are_tables_of_the_file_or_json_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {"bold": Profile(temperature=0.9, do_sample=True, schedule=Schedule(by="entropy"))}
    file = tmp_path / "settings.toml"
    file.write_text(
        "[api.profiles.bold]\ntemperature = 0.9\ndo_sample = true\nschedule = { by = 'entropy' }\n"
    )
    assert load_settings({}, file).api.profiles == own
    monkeypatch.setenv(
        "HALFLINE_API__PROFILES",
        '{"bold": {"temperature": 0.9, "do_sample": true, "schedule": {"by": "entropy"}}}',
    )
    assert load_settings({}).api.profiles == own


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[api]\nprofile = 'bold'\n", "no profile 'bold'; this server has low-latency, high-quality"),
        ("[api.profiles.bold]\ntemprature = 1\n", "api.profiles.bold.temprature"),
        ("[api.profiles.bold]\ntemperature = -1\n", "temperature is -1.0"),
        ("[api.profiles.bold.schedule]\nk_min = 0\n", "`k_min` is 0"),
        ("[api.profiles.bold.schedule]\nk = 3\n", "schedule.k is 3"),
    ],
)
def test_a_profile_that_is_none_is_an_error_that_says_what_is_wrong(
    tmp_path: Path, content: str, said: str
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(content)
    with pytest.raises(BadSettings, match=re.escape(said)):
        load_settings({}, file)


# Settings without a default: it does not say what they are.
_NUMBERS_LEFT_OUT = ("kv_bytes", "threads", "pipeline.deadline_ms", "api.grpc_port")
_TEXTS_LEFT_OUT = (
    "api_key",
    "tls.cert",
    "tls.key",
    "tls.client_ca",
    "tasks_dir",
    "context.index",
    "cache.redis_url",
)


@pytest.mark.parametrize("number", ["inf", "-inf", "nan", "1e999"])
@pytest.mark.parametrize("key", known_keys())
def test_no_number_may_be_infinite_or_none_wherever_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, number: str
) -> None:
    """Whatever is added: a new option that is a number is in `known_keys` too."""
    default = _default(key)
    is_number = isinstance(default, int | float) and not isinstance(default, bool)
    if is_number or key in _NUMBERS_LEFT_OUT:
        *table, name = key.split(".")
        head = f"[{table[0]}]\n" if table else ""
        with pytest.raises(BadSettings, match=f"{key} is .* finite number"):
            load_settings({}, written(tmp_path, f"{head}{name} = {number}"))
        monkeypatch.setenv(environment_name(key), number)
        with pytest.raises(BadSettings, match=f"{key} is .* finite number"):
            load_settings({})
    else:
        assert isinstance(default, str | bool | tuple | dict | Path) or key in _TEXTS_LEFT_OUT


def _default(key: str) -> object:
    value: object = Settings()
    for name in key.split("."):
        value = getattr(value, name)
    return value


@pytest.mark.parametrize("key", ["data_dir", "cache_dir", "model", "host"])
def test_an_empty_variable_is_no_name_and_no_folder(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv(environment_name(key), "")
    with pytest.raises(BadSettings, match=f"{key} is empty"):
        load_settings({})


@pytest.mark.parametrize("content", [b"port = ", b"\xff\xfe", b"[engine"])
def test_a_file_that_is_no_toml_is_an_error_that_names_the_file(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "broken.toml"
    file.write_bytes(content)
    with pytest.raises(BadSettings, match=r"broken\.toml"):
        load_settings({}, file)


def test_a_named_file_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match=r"absent\.toml"):
        load_settings({}, tmp_path / "absent.toml")


def test_settings_cannot_be_changed() -> None:
    settings = load_settings({})
    with pytest.raises(ValueError, match="frozen"):
        settings.port = 1


def test_the_key_to_send_is_shown_nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HALFLINE_API_KEY", "hl_secret")
    known = load_settings({})
    assert known.api_key is not None and known.api_key.get_secret_value() == "hl_secret"
    assert "hl_secret" not in f"{known!r} {known.api_key} {known.model_dump_json()}"
    monkeypatch.delenv("HALFLINE_API_KEY")
    file = tmp_path / "settings.toml"
    file.write_text('api_key = ["hl_secret"]')
    with pytest.raises(BadSettings) as refused:
        load_settings({}, file)
    assert "hl_secret" not in str(refused.value)
