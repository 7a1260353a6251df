"""A running server and its key file: changes are noticed, and no change opens the server."""

import os
from pathlib import Path

import pytest

from halfline.api.keys.key import new_key
from halfline.api.keys.key_file import FILE_NAME, add_key, revoke_key
from halfline.api.keys.key_ring import KeyRing
from halfline.errors import BadSettings, KeyRefused, KeysUnusable

BORN = 1e9


class World:
    """A key file, a ring over it, and a clock that both go by."""

    def __init__(self, path: Path) -> None:
        self.path = path / FILE_NAME
        self.passed_s = 0.0

    def ring(self, *, required: bool = False) -> KeyRing:
        return KeyRing(
            self.path, required=required, clock=lambda: self.passed_s, now=lambda: BORN + self.passed_s
        )

    def add(self, **options: object) -> tuple[str, str]:
        """Its id, and what is sent."""
        key, sent = new_key(BORN, **options)
        add_key(self.path, key)
        return key.id, sent


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_without_a_key_nobody_needs_one_unless_the_settings_say_so(world: World) -> None:
    assert not world.ring().required
    assert world.ring(required=True).required
    assert not KeyRing(None).required


def test_a_key_made_while_the_server_runs_is_wanted_a_second_later(world: World) -> None:
    ring = world.ring()
    _, sent = world.add(tenant="team")
    assert not ring.required, "looked at no more than once a second"
    world.passed_s = 1.0
    assert ring.required
    assert ring.find(sent).tenant == "team"


def test_a_revoked_key_is_refused_a_second_later_and_the_last_one_opens_nothing(world: World) -> None:
    key_id, sent = world.add()
    ring = world.ring()
    assert ring.find(sent).id == key_id
    revoke_key(world.path, key_id, BORN)
    world.passed_s = 1.0
    with pytest.raises(KeyRefused, match="revoked"):
        ring.find(sent)
    assert ring.required


def test_an_expired_key_is_refused_without_anybody_changing_the_file(world: World) -> None:
    _, sent = world.add(valid_s=60)
    ring = world.ring()
    ring.find(sent)
    world.passed_s = 60.0
    with pytest.raises(KeyRefused, match="expired"):
        ring.find(sent)


def test_the_tenants_are_those_whose_keys_are_valid(world: World) -> None:
    key_id, _ = world.add(tenant="gone")
    world.add(tenant="short", valid_s=60)
    world.add(tenant="team")
    revoke_key(world.path, key_id, BORN)
    ring = world.ring()
    assert ring.tenants == {"short", "team"}
    world.passed_s = 60.0
    assert ring.tenants == {"team"}
    assert not KeyRing(None).tenants


def test_a_file_that_goes_away_leaves_the_server_closed(world: World) -> None:
    _, sent = world.add()
    ring = world.ring()
    world.path.unlink()
    world.passed_s = 1.0
    assert ring.required
    with pytest.raises(KeyRefused, match="not known"):
        ring.find(sent)


def test_a_file_damaged_while_the_server_runs_lets_nobody_in_until_it_is_mended(world: World) -> None:
    _, sent = world.add()
    content = world.path.read_bytes()
    ring = world.ring()
    world.path.write_bytes(content[:-20])
    world.passed_s = 1.0
    assert ring.required
    with pytest.raises(KeysUnusable):
        ring.find(sent)
    world.path.write_bytes(content)
    world.passed_s = 2.0
    assert ring.find(sent)


def test_a_damaged_file_that_appears_where_there_was_none_closes_the_server(world: World) -> None:
    ring = world.ring()
    world.path.write_bytes(b"?")
    world.passed_s = 1.0
    assert ring.required
    with pytest.raises(KeysUnusable):
        ring.find("hl_")


def test_a_server_does_not_start_with_a_damaged_file(world: World) -> None:
    world.path.write_bytes(b"?")
    with pytest.raises(BadSettings, match="damaged"):
        world.ring()


def test_the_file_is_looked_at_once_a_second_at_most(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    _, sent = world.add()
    ring = world.ring()
    looks = []
    stat = os.stat
    monkeypatch.setattr(os, "stat", lambda path: looks.append(path) or stat(path))
    for tick in range(40):
        world.passed_s = tick / 16
        ring.find(sent)
    assert len(looks) == 2
