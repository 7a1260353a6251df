"""Keys at rest: no key in the file, nothing lost between two writers, nothing guessed from a damaged one."""

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfline.api.keys import key_file
from halfline.api.keys.key import id_of, is_it, new_key
from halfline.api.keys.key_file import FILE_NAME, MAX_KEYS, add_key, read_keys, revoke_key
from halfline.errors import BadSettings


def test_the_file_holds_a_hash_and_is_its_owner_s_alone(tmp_path: Path) -> None:
    path = tmp_path / "data" / FILE_NAME
    key, sent = new_key(1e9, name="Ann")
    add_key(path, key)
    content = path.read_text()
    assert sent not in content and sent.split("_")[2] not in content
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_keys(path) == {key.id: key}
    assert sorted(each.name for each in path.parent.iterdir()) == ["keys.json", "keys.lock"]


def test_only_the_very_key_is_it() -> None:
    key, sent = new_key(1e9)
    other, _ = new_key(1e9)
    assert id_of(sent) == key.id and is_it(sent, key)
    assert not is_it(sent, other) and not is_it(sent, None)
    wrong_end = sent[:-1] + ("0" if sent[-1] != "0" else "1")
    assert id_of(wrong_end) == key.id and not is_it(wrong_end, key)
    for none_of_ours in ("", "sk-" + "a" * 48, sent + "0", sent.upper(), sent + "\n", "ж" * 80):
        assert id_of(none_of_ours) is None


def test_keys_without_a_tenant_named_have_one_each() -> None:
    assert new_key(1e9)[0].tenant != new_key(1e9)[0].tenant
    assert new_key(1e9, tenant="team")[0].tenant == "team"


def test_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    keys = [new_key(1e9)[0] for _ in range(40)]
    with ThreadPoolExecutor(8) as writers:
        for done in [writers.submit(add_key, path, key) for key in keys]:
            done.result()
    assert read_keys(path) == {key.id: key for key in keys}


def test_a_revoked_key_stays_in_the_file_so_that_the_server_stays_closed(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    key, _ = new_key(1e9)
    add_key(path, key)
    revoke_key(path, key.id, 1e9 + 5)
    revoke_key(path, key.id, 1e9 + 9)
    (kept,) = read_keys(path).values()
    assert kept.revoked_at == 10**9 + 5
    assert kept.state(1e9 + 6) == "revoked"
    with pytest.raises(BadSettings, match="no key has the id 'abc'"):
        revoke_key(path, "abc", 1e9)


def test_a_key_is_valid_up_to_its_end() -> None:
    key, _ = new_key(1e9, valid_s=60)
    assert [key.state(1e9 + seconds) for seconds in (0, 59, 60)] == ["valid", "valid", "expired"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "damaged"),
        (b"{", "damaged"),
        (b"\xff\xfe", "damaged"),
        (b"[" * 100_000, "damaged"),
        (b'{"version": 1, "keys": []}', "0 keys"),
        (b'{"version": 2, "keys": []}', "damaged at version"),
        (b'{"version": 1, "keys": [{"id": "secret-looking"}]}', "damaged at keys.0"),
        (b" " * (4 << 20) + b" ", "more than"),
    ],
)
def test_a_damaged_file_is_an_error_that_names_it_and_shows_nothing_of_it(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    path = tmp_path / FILE_NAME
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(BadSettings, match=reason) as refused:
        read_keys(path)
    assert str(path) in str(refused.value) and "secret-looking" not in str(refused.value)
    with pytest.raises(BadSettings, match=reason):
        add_key(path, new_key(1e9)[0])
    assert path.read_bytes() == content


@given(st.data())
def test_whatever_happens_to_its_bytes_the_file_never_reads_as_no_keys(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("keys") / FILE_NAME
    add_key(path, new_key(1e9, tenant="team")[0])
    content = bytearray(path.read_bytes())
    start = data.draw(st.integers(0, len(content)))
    content[start : start + data.draw(st.integers(0, 40))] = data.draw(st.binary(max_size=8))
    path.write_bytes(content)
    try:
        assert read_keys(path)
    except BadSettings as refused:
        assert str(path) in str(refused)


def test_a_file_that_others_may_write_is_not_believed(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    add_key(path, new_key(1e9)[0])
    path.chmod(0o620)
    with pytest.raises(BadSettings, match="others than its owner"):
        read_keys(path)


def test_a_full_file_forgets_what_was_revoked_longest_ago_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MAX_KEYS == 4096
    monkeypatch.setattr(key_file, "MAX_KEYS", 3)
    path = tmp_path / FILE_NAME
    first, second, third, fourth = (new_key(1e9)[0] for _ in range(4))
    for key in (first, second, third):
        add_key(path, key)
    with pytest.raises(BadSettings, match="revoke some first"):
        add_key(path, fourth)
    revoke_key(path, third.id, 1e9 + 1)
    revoke_key(path, first.id, 1e9 + 2)
    add_key(path, fourth)
    assert list(read_keys(path)) == [first.id, second.id, fourth.id]
