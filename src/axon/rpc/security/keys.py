"""Keys: who may call what, and the files they are kept in.

A key is a secret shared by a client and a worker. It never crosses the link; it signs what does
(see `auth`). A key file is TOML, readable by its owner alone:

    [[key]]
    id = "laptop"
    secret = "64 or more hexadecimal digits"
    allow = ["rpc/*", "model/train"]
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
import stat
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from axon.errors import ConfigurationError

KEY_FILE = "axon.key"
"""What `axon keys new` calls the key file in the folder it makes."""

MIN_SECRET_BYTES = 32
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_HEADING = """\
# Axon keys. Whoever can read this file can call the workers that hold it: keep it to yourself,
# and copy it to other devices only over a channel you trust.
"""


@dataclass(frozen=True, slots=True)
class Key:
    """A named secret and the functions it opens.

    `allow` holds shell patterns over function paths such as `rpc/echo`; a `*` also spans slashes,
    so `model/*` covers `model/layers/first`. Without any pattern the key may call nothing.
    """

    id: str
    secret: bytes = field(repr=False)
    allow: tuple[str, ...] = ("*",)

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id):
            raise ConfigurationError(
                f"{self.id!r} cannot be a key's id", hint="use 1 to 64 of A-Z a-z 0-9 . _ -"
            )
        if len(self.secret) < MIN_SECRET_BYTES:
            raise ConfigurationError(
                f"the secret of key {self.id!r} has {len(self.secret)} bytes, "
                f"at least {MIN_SECRET_BYTES} are needed",
                hint="make one with `axon keys new`",
            )
        _check_patterns(self.id, self.allow)

    @classmethod
    def new(cls, id: str | None = None, allow: Iterable[str] = ("*",)) -> Key:
        """A key with a fresh random secret, and a random id unless one is given."""
        patterns = allow if isinstance(allow, str) else tuple(allow)
        # A string is passed on as it is, for the check above to refuse it rather than split it.
        name = f"key-{secrets.token_hex(4)}" if id is None else id
        return cls(name, secrets.token_bytes(MIN_SECRET_BYTES), patterns)  # type: ignore[arg-type]

    def may_call(self, path: str) -> bool:
        """Whether a pattern covers the path, percent-decoded as the worker looks it up.

        A path with an empty, `.` or `..` part is covered by `*` alone, because what it points at
        after some later tidying may be outside the pattern that it seems to match.
        """
        if "*" in self.allow:
            return True
        path = path.removeprefix("/")
        if any(part in ("", ".", "..") for part in path.split("/")):
            return False
        return any(fnmatchcase(path, pattern) for pattern in self.allow)


def _check_patterns(id: str, allow: object) -> None:
    if not isinstance(allow, tuple):
        raise ConfigurationError(
            f"the allow-list of key {id!r} is a {type(allow).__name__}",
            hint="give a tuple of patterns",
        )
    for pattern in allow:
        # Only printable text survives a round through a file that people edit.
        if not isinstance(pattern, str) or not pattern or not pattern.isprintable():
            raise ConfigurationError(f"{pattern!r} cannot be an allow pattern of key {id!r}")
        if pattern.startswith("/"):
            raise ConfigurationError(
                f"the allow pattern {pattern!r} of key {id!r} can match nothing",
                hint=f"paths have no leading slash: write {pattern.lstrip('/')!r}",
            )


@dataclass(frozen=True, init=False)
class Keyring:
    """Keys by id, in the order they were given; the first is the one a client signs with."""

    _keys: dict[str, Key]

    def __init__(self, keys: Iterable[Key]) -> None:
        by_id: dict[str, Key] = {}
        for key in keys:
            if key.id in by_id:
                raise ConfigurationError(
                    f"two keys have the id {key.id!r}", hint="rename one of them"
                )
            by_id[key.id] = key
        object.__setattr__(self, "_keys", by_id)

    @classmethod
    def of(cls, source: str | os.PathLike[str] | Key | Keyring | Iterable[Key]) -> Keyring:
        """A keyring from whatever a user may hand over: the path of a key file, a key, several.

        Raises `ConfigurationError` where there is none: who asks for keys must not go without.
        """
        if isinstance(source, Key):
            return cls([source])
        if isinstance(source, (str, os.PathLike)):
            path = Path(source)
            return load(path / KEY_FILE if path.is_dir() else path)
        ring = source if isinstance(source, Keyring) else cls(source)
        ring.only()
        return ring

    def get(self, id: str) -> Key | None:
        """The key of that id, if it is here."""
        return self._keys.get(id)

    def only(self) -> Key:
        """The first key: the one a client signs with."""
        if not self._keys:
            raise ConfigurationError(
                "the keyring holds no key", hint="make one with `axon keys new`"
            )
        return next(iter(self._keys.values()))

    def __iter__(self) -> Iterator[Key]:
        return iter(self._keys.values())

    def __len__(self) -> int:
        return len(self._keys)


class _StoredKey(msgspec.Struct, forbid_unknown_fields=True):
    """One `[[key]]` table of a key file."""

    id: str
    secret: str
    allow: list[str] = msgspec.field(default_factory=lambda: ["*"])


class _KeyFile(msgspec.Struct, forbid_unknown_fields=True):
    """A key file as a whole."""

    key: list[_StoredKey]


def load(path: str | os.PathLike[str]) -> Keyring:
    """Read a key file.

    Raises `ConfigurationError` when it is absent, malformed, or open to other users of the machine.
    """
    import tomllib  # Late: only who holds a key file needs a TOML parser.

    place = Path(path).expanduser()
    text = _read_private(place)
    try:
        stored = msgspec.convert(tomllib.loads(text), _KeyFile)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise ConfigurationError(f"{place} is not a key file: {error}") from error
    if not stored.key:
        raise ConfigurationError(f"{place} holds no key", hint="make one with `axon keys new`")
    try:
        return Keyring(_key_of(entry) for entry in stored.key)
    except ConfigurationError as error:
        raise ConfigurationError(f"{place}: {error.message}", hint=error.hint) from error


def _key_of(entry: _StoredKey) -> Key:
    try:
        secret = bytes.fromhex(entry.secret)
    except ValueError:
        # Without the cause: it would quote a character of the secret.
        raise ConfigurationError(f"the secret of key {entry.id!r} is not hexadecimal") from None
    return Key(entry.id, secret, tuple(entry.allow))


def _read_private(place: Path) -> str:
    """The file's text, provided that only its owner can read it."""
    try:
        with place.open("rb") as file:
            # Asked of the open file, so that it cannot be swapped between the look and the read.
            mode = os.fstat(file.fileno()).st_mode
            if os.name == "posix" and stat.S_IMODE(mode) & 0o077:
                raise ConfigurationError(
                    f"{place} is open to other users (mode {stat.S_IMODE(mode):03o})",
                    hint=f"run: chmod 600 {shlex.quote(str(place))}",
                )
            return file.read().decode()
    except FileNotFoundError:
        raise ConfigurationError(f"no key file {place}", hint="make one: axon keys new") from None
    except OSError as error:
        raise ConfigurationError(f"cannot read key file {place}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{place} is not a key file: it is not UTF-8 text") from error


def save(path: str | os.PathLike[str], keys: Iterable[Key]) -> None:
    """Write a key file for its owner alone, whole or not at all; an existing file is replaced."""
    place = Path(path).expanduser()
    text = _HEADING + "".join(_table(key) for key in Keyring(keys))
    try:
        write_private(place, text.encode())
    except OSError as error:
        raise ConfigurationError(f"cannot write key file {place}: {error.strerror}") from error


def _table(key: Key) -> str:
    # A JSON string of printable characters is a TOML string too.
    allow = json.dumps(list(key.allow), ensure_ascii=False)
    return f'\n[[key]]\nid = "{key.id}"\nsecret = "{key.secret.hex()}"\nallow = {allow}\n'


def write_private(place: Path, data: bytes) -> None:
    """Put a file in place in one step, readable by its owner alone from its first byte."""
    # mkstemp creates with mode 0600, and the rename keeps it.
    handle, temporary = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(place)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
