"""Finding the four files, and fetching them: folders, digests, addresses that fail."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from axon.data import locate
from axon.data.locate import SOURCES, TRAIN_LABELS, Source, cache_folder, find, read
from axon.errors import ConfigurationError

LABELS = struct.pack(">BBBBI", 0, 0, 8, 1, 5) + bytes([3, 1, 4, 1, 5])
OTHERS = struct.pack(">BBBBI", 0, 0, 8, 1, 5) + bytes([2, 7, 1, 8, 2])


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


TINY = Source(name="tiny", digests={TRAIN_LABELS: digest(LABELS)}, addresses=())


@pytest.fixture(autouse=True)
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A world of its own: no data but what a test puts there, and no proxy in between."""
    monkeypatch.delenv("AXON_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")
    return tmp_path


def put(folder: Path, data: bytes, *, packed: bool = True) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (f"{TRAIN_LABELS}.gz" if packed else TRAIN_LABELS)
    path.write_bytes(gzip.compress(data) if packed else data)
    return path


def mirrored(*folders: Path) -> Source:
    return replace(TINY, addresses=tuple(f"{folder.as_uri()}/" for folder in folders))


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_in_the_cache_is_read_packed_or_not(packed: bool) -> None:
    put(cache_folder(TINY), LABELS, packed=packed)
    assert read(TINY, TRAIN_LABELS).tolist() == [3, 1, 4, 1, 5]


def test_folders_are_searched_in_their_order(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AXON_DATA", str(world / "mine"))
    source = replace(TINY, folder=str(world / "system"))
    folders = [world / "mine" / "tiny", world / "mine", world / "cache" / "axon" / "tiny"]
    paths = [put(folder, LABELS) for folder in (*folders, world / "system")]
    for path in paths:
        assert find(source, TRAIN_LABELS) == path
        path.unlink()
    assert find(source, TRAIN_LABELS) is None


@pytest.mark.parametrize("chosen", ["", "not/absolute"])
def test_without_a_good_cache_setting_the_home_folder_has_it(
    chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", chosen)
    monkeypatch.setenv("HOME", "/home/ada")
    assert cache_folder(TINY) == Path("/home/ada/.cache/axon/tiny")


def test_a_found_file_with_other_contents_is_named_with_both_digests(world: Path) -> None:
    wrong = put(cache_folder(TINY), OTHERS)
    with pytest.raises(ConfigurationError) as caught:
        read(mirrored(put(world / "mirror", LABELS).parent), TRAIN_LABELS)
    for part in (str(wrong), digest(LABELS), digest(OTHERS), "$AXON_DATA/tiny"):
        assert part in str(caught.value)
    assert gzip.decompress(wrong.read_bytes()) == OTHERS


def test_a_download_is_kept_and_not_repeated(world: Path) -> None:
    original = put(world / "mirror", LABELS)
    source = mirrored(original.parent)
    assert read(source, TRAIN_LABELS).tolist() == [3, 1, 4, 1, 5]
    original.unlink()
    assert read(source, TRAIN_LABELS).tolist() == [3, 1, 4, 1, 5]
    assert [path.name for path in cache_folder(source).iterdir()] == [f"{TRAIN_LABELS}.gz"]


def test_a_bad_address_is_passed_over_for_the_next(world: Path) -> None:
    corrupt, cut = put(world / "corrupt", OTHERS), put(world / "cut", LABELS)
    cut.write_bytes(cut.read_bytes()[:-9])
    good = put(world / "good", LABELS)
    source = mirrored(corrupt.parent, cut.parent, world / "absent", good.parent)
    assert read(source, TRAIN_LABELS).tolist() == [3, 1, 4, 1, 5]


def test_when_all_addresses_fail_one_error_says_why_and_what_to_do(world: Path) -> None:
    corrupt, cut = put(world / "corrupt", OTHERS), put(world / "cut", LABELS)
    cut.write_bytes(cut.read_bytes()[:-9])
    with socket.socket() as taken:
        # Bound and not listening: whoever connects is refused.
        taken.bind(("127.0.0.1", 0))
        refused = f"http://127.0.0.1:{taken.getsockname()[1]}/"
        source = mirrored(corrupt.parent, cut.parent)
        source = replace(source, addresses=(*source.addresses, refused), package="dataset-tiny")
        with pytest.raises(ConfigurationError) as caught:
            read(source, TRAIN_LABELS)
    text = str(caught.value)
    for address in source.addresses:
        assert address in text
    for part in (digest(LABELS), digest(OTHERS), "damaged", "refused"):
        assert part in text
    for way in ("AXON_DATA", "dataset-tiny", str(cache_folder(source)), "network"):
        assert way in text
    assert list(cache_folder(source).iterdir()) == []


def test_a_download_stops_at_its_limit(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = put(world / "mirror", LABELS)
    monkeypatch.setattr(locate, "MAX_DOWNLOAD_BYTES", original.stat().st_size - 1)
    with pytest.raises(ConfigurationError, match="larger than"):
        read(mirrored(original.parent), TRAIN_LABELS)


class _Mirror(http.server.BaseHTTPRequestHandler):
    """Serves the labels at /whole/, half of them at /half/, and nothing elsewhere."""

    def do_GET(self) -> None:
        body = gzip.compress(LABELS)
        sent = {"whole": body, "half": body[: len(body) // 2]}.get(self.path.split("/")[1])
        self.send_response(404 if sent is None else 200)
        self.send_header("Content-Length", str(len(body if sent else b"")))
        self.end_headers()
        self.wfile.write(sent or b"")

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[str]:
    with http.server.HTTPServer(("127.0.0.1", 0), _Mirror) as listening:
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{listening.server_port}"
        listening.shutdown()
        thread.join()


def test_over_http_a_missing_and_a_cut_file_are_passed_over(server: str) -> None:
    addresses = (f"{server}/absent/", f"{server}/half/")
    with pytest.raises(ConfigurationError, match=r"HTTP Error 404.*damaged"):
        read(replace(TINY, addresses=addresses), TRAIN_LABELS)
    source = replace(TINY, addresses=(*addresses, f"{server}/whole/"))
    assert read(source, TRAIN_LABELS).tolist() == [3, 1, 4, 1, 5]


@pytest.mark.parametrize("source", SOURCES.values(), ids=lambda source: source.name)
def test_the_real_sources_are_complete_and_fetched_over_https(source: Source) -> None:
    assert source.digests.keys() == locate.DIMENSIONS.keys()
    assert all(len(value) == 64 for value in source.digests.values())
    assert source.addresses
    assert all(a.startswith("https://") and a.endswith("/") for a in source.addresses)
