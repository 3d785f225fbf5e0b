"""Named streams: the same names give the same numbers, for ever; any other names give others."""

from __future__ import annotations

import hashlib
import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from axon.seeds import Name, derive, plain_stream, stream

GOLDEN = (7, "shards", 3, "pi-1")

names = st.lists(st.integers() | st.text(max_size=6), max_size=4).map(tuple)


def numbers(seed: int, *path: Name) -> list[int]:
    return stream(seed, *path).integers(1 << 62, size=4).tolist()  # type: ignore[no-any-return]


def test_the_numbers_never_change() -> None:
    """A run that is taken up elsewhere, or next year, draws what it would have drawn here."""
    assert derive(*GOLDEN) == 3969445807874822696
    assert stream(*GOLDEN).integers(1 << 62) == 583134375290318834
    assert stream(*GOLDEN).permutation(8).tolist() == [0, 7, 5, 6, 4, 1, 2, 3]
    assert plain_stream(*GOLDEN).getrandbits(60) == 392798077210832169


def test_a_seed_is_the_upper_bits_of_the_names_digest() -> None:
    text = "7\x1f'shards'\x1f3\x1f'pi-1'"
    whole = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
    assert derive(*GOLDEN) == whole >> 1


def test_every_name_counts_and_so_do_its_type_and_place() -> None:
    paths: list[tuple[int, *tuple[Name, ...]]] = [
        (7, "shards", 3, "pi-1"),
        (8, "shards", 3, "pi-1"),
        (7, "select", 3, "pi-1"),
        (7, "shards", 4, "pi-1"),
        (7, "shards", "3", "pi-1"),
        (7, "shards", 3, "pi-2"),
        (7, 3, "shards", "pi-1"),
        (7, "shards", 3),
        (7, "shards", 3, "pi-1", ""),
        (7, "shards3", "pi-1"),
        (7, "shards", 3, "pi", "-1"),
        (7, "shards", 3, "pi\x1f'-1"),
        (7,),
        (73,),
    ]
    for one, other in itertools.combinations(paths, 2):
        assert derive(*one) != derive(*other)
        assert numbers(*one) != numbers(*other)
        assert plain_stream(*one).random() != plain_stream(*other).random()


@settings(max_examples=200, deadline=None)
@given(st.integers(), names, st.integers(), names)
def test_equal_names_and_only_those_give_equal_seeds(
    seed: int, path: tuple[Name, ...], other_seed: int, other: tuple[Name, ...]
) -> None:
    same = (seed, path) == (other_seed, other)
    assert (derive(seed, *path) == derive(other_seed, *other)) == same
    assert 0 <= derive(seed, *path) < 1 << 63


def test_what_one_stream_gives_does_not_depend_on_the_others() -> None:
    wanted = {name: numbers(1, name) for name in ("a", "b", "c")}
    first, second = stream(1, "a"), stream(1, "b")
    drawn: dict[str, list[int]] = {"a": [], "b": []}
    for _ in range(4):
        drawn["b"].append(int(second.integers(1 << 62)))
        stream(1, "c").random(100)
        drawn["a"].append(int(first.integers(1 << 62)))
    assert drawn == {"a": wanted["a"], "b": wanted["b"]}
    assert numbers(1, "c") == wanted["c"]
