"""Keys, keyrings and key files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axon.errors import ConfigurationError
from axon.rpc.security.keys import Key, Keyring, load, save

SECRET = bytes(range(32))
HEX = SECRET.hex()

ids = st.from_regex(r"[A-Za-z0-9._-]{1,64}", fullmatch=True)
patterns = st.text(min_size=1, max_size=20).filter(
    lambda text: text.isprintable() and not text.startswith("/")
)
some_keys = st.lists(
    st.builds(
        Key, ids, st.binary(min_size=32, max_size=40), st.lists(patterns, max_size=3).map(tuple)
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda key: key.id,
)


def private_file(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_new_keys_differ_and_are_long_enough() -> None:
    first, second = Key.new(), Key.new()
    assert first.id != second.id
    assert first.secret != second.secret
    assert len(first.secret) == 32
    assert first.allow == ("*",)


def test_new_takes_an_id_and_any_iterable_of_patterns() -> None:
    key = Key.new("laptop", allow=iter(["rpc/*"]))
    assert (key.id, key.allow) == ("laptop", ("rpc/*",))


def test_repr_of_key_and_ring_never_shows_the_secret() -> None:
    key = Key("laptop", b"S" * 32)
    for text in (repr(key), str(key), repr(Keyring([key]))):
        assert "SSS" not in text
        assert "laptop" in text


@pytest.mark.parametrize("name", ["", "a b", "a;b", "a\n", "é", "x" * 65, "a/b"])
def test_ids_outside_the_alphabet_are_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be a key's id"):
        Key(name, SECRET)


def test_a_short_secret_is_refused_without_being_shown() -> None:
    with pytest.raises(ConfigurationError, match="has 31 bytes, at least 32") as caught:
        Key("a", b"S" * 31)
    assert "SSS" not in str(caught.value)


@pytest.mark.parametrize("pattern", ["", "a\nb", "\x7f", "\ud800", "/rpc/*"])
def test_patterns_that_cannot_be_meant_are_refused(pattern: str) -> None:
    with pytest.raises(ConfigurationError, match="allow pattern"):
        Key("a", SECRET, (pattern,))


def test_one_string_is_not_taken_for_a_list_of_patterns() -> None:
    with pytest.raises(ConfigurationError, match="is a str"):
        Key.new("a", allow="rpc/*")


@pytest.mark.parametrize(
    ("pattern", "path", "allowed"),
    [
        ("*", "anything/at/all", True),
        ("*", "", True),
        ("*", "a/../b", True),
        ("rpc/echo", "rpc/echo", True),
        ("rpc/echo", "/rpc/echo", True),
        ("rpc/echo", "rpc/echo2", False),
        ("rpc/echo", "xrpc/echo", False),
        ("rpc/echo", "RPC/echo", False),
        ("model/*", "model/train", True),
        ("model/*", "model/layers/first", True),
        ("model/*", "model", False),
        ("model/*", "models/train", False),
        ("model/*", "model/", False),
        ("model/*", "model/../rpc/echo", False),
        ("model/*", "model//train", False),
        ("model/*", "model/./train", False),
        ("model/*", "//model/train", False),
        ("model/*", "model/train\n", True),
        ("model/train", "model/train\n", False),
        ("rpc/get_?", "rpc/get_a", True),
        ("rpc/get_?", "rpc/get_ab", False),
        ("rpc/[!_]*", "rpc/_private", False),
        ("rpc/[!_]*", "rpc/public", True),
        ("rpc/a.b", "rpc/axb", False),
        ("rpc/a+", "rpc/aa", False),
        ("rpc/größe", "rpc/größe", True),
    ],
)
def test_may_call(pattern: str, path: str, allowed: bool) -> None:
    assert Key("a", SECRET, (pattern,)).may_call(path) is allowed


def test_any_of_several_patterns_suffices_and_none_opens_nothing() -> None:
    assert Key("a", SECRET, ("x/*", "y")).may_call("y")
    assert not Key("a", SECRET, ()).may_call("y")


def test_ring_finds_by_id_and_keeps_order() -> None:
    first, second = Key("b", SECRET), Key("a", SECRET)
    ring = Keyring([first, second])
    assert ring.get("a") is second
    assert ring.get("c") is None
    assert ring.only() is first
    assert list(ring) == [first, second]
    assert len(ring) == 2


def test_ring_refuses_two_keys_of_one_id() -> None:
    with pytest.raises(ConfigurationError, match="two keys have the id 'a'"):
        Keyring([Key("a", SECRET), Key("a", b"y" * 32)])


def test_an_empty_ring_has_no_key_to_sign_with() -> None:
    with pytest.raises(ConfigurationError, match="holds no key"):
        Keyring([]).only()


def test_ring_of_whatever_a_user_hands_over(tmp_path: Path) -> None:
    key = Key("a", SECRET)
    ring = Keyring([key])
    path = tmp_path / "axon.key"
    save(path, [key])
    assert Keyring.of(ring) is ring
    for source in (key, path, str(path), [key], (each for each in [key])):
        assert Keyring.of(source) == ring


@settings(max_examples=40, deadline=None)
@given(some_keys)
def test_what_is_saved_is_what_is_loaded(
    tmp_path_factory: pytest.TempPathFactory, some: list[Key]
) -> None:
    path = tmp_path_factory.mktemp("keys") / "axon.key"
    save(path, some)
    assert list(load(path)) == some


def test_saved_for_the_owner_alone_whatever_the_umask(tmp_path: Path) -> None:
    path = tmp_path / "axon.key"
    before = os.umask(0)
    try:
        save(path, [Key("a", SECRET)])
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600


def test_saving_replaces_and_leaves_nothing_else_behind(tmp_path: Path) -> None:
    path = tmp_path / "axon.key"
    save(path, [Key("a", SECRET)])
    save(path, [Key("b", SECRET)])
    assert load(path).only().id == "b"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "axon.key"
    save(path, [Key("a", SECRET)])

    def no_space(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(ConfigurationError, match="No space left"):
        save(path, [Key("b", SECRET)])
    assert load(path).only().id == "a"
    assert list(tmp_path.iterdir()) == [path]


def test_saving_into_no_folder_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot write key file"):
        save(tmp_path / "absent" / "axon.key", [Key("a", SECRET)])


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_a_file_open_to_others_is_refused_with_the_remedy(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "my keys"
    save(path, [Key("a", SECRET)])
    path.chmod(mode)
    with pytest.raises(ConfigurationError, match=f"mode {mode:o}") as caught:
        load(path)
    assert f"chmod 600 '{path}'" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "missing required field `key`"),
        ("key = []", "holds no key"),
        ("[[key]", "not a key file"),
        ("[[key]]\nid = 'a'", "missing required field `secret`"),
        (f"[[key]]\nid = 'a'\nsecret = '{HEX}'\nallows = ['x']", "unknown field `allows`"),
        ("[[key]]\nid = 'a'\nsecret = 'zz'", "not hexadecimal"),
        ("[[key]]\nid = 'a'\nsecret = 'abcd'", "has 2 bytes"),
        (f"[[key]]\nid = 'a b'\nsecret = '{HEX}'", "cannot be a key's id"),
        (f"[[key]]\nid = 'a'\nsecret = '{HEX}'\nallow = 'x'", "Expected `array`"),
        (f"[[key]]\nid = 'a'\nsecret = '{HEX}'\n" * 2, "two keys have the id"),
    ],
)
def test_malformed_files_are_explained_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = private_file(tmp_path / "axon.key", text)
    with pytest.raises(ConfigurationError) as caught:
        load(path)
    explained = str(caught.value)
    assert message in explained
    assert str(path) in explained
    assert "\n" not in explained
    assert HEX not in explained


def test_allow_left_out_means_everything(tmp_path: Path) -> None:
    path = private_file(tmp_path / "axon.key", f"[[key]]\nid = 'a'\nsecret = '{HEX}'")
    assert load(path).only() == Key("a", SECRET)


def absent(path: Path) -> None:
    assert not path.exists()


def not_text(path: Path) -> None:
    path.write_bytes(b"\xff\xfe")
    path.chmod(0o600)


@pytest.mark.parametrize(
    ("make", "message"),
    [(absent, "no key file"), (Path.mkdir, "cannot read"), (not_text, "not UTF-8")],
)
def test_files_that_cannot_be_read(
    tmp_path: Path, make: Callable[[Path], None], message: str
) -> None:
    path = tmp_path / "axon.key"
    make(path)
    with pytest.raises(ConfigurationError, match=message):
        load(path)
