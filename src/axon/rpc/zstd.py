"""Optional compression of bodies, chosen per call; needs the `zstd` extra on both sides."""

from __future__ import annotations

from typing import Any

from axon.errors import ConfigurationError, ProtocolError, TooLarge
from axon.rpc.messages import Buffer, Pieces, body_size

ENCODING = b"zstd"
LEAST_BYTES = 1024
"""A smaller body is sent as it is: compressing it saves nothing."""
_INFLATED_FREE_BYTES = 16 << 20
_INFLATED_TIMES = 200
_LEVEL = 3
_STEP_BYTES = 1 << 20


def _library() -> Any:
    try:
        import zstandard
    except ImportError as error:
        raise ConfigurationError(
            "zstd was asked for and is not installed", hint="pip install 'axon-edge[zstd]'"
        ) from error
    return zstandard


def compress(body: Pieces) -> Pieces:
    """The body in fewer bytes."""
    engine = _library().ZstdCompressor(level=_LEVEL).compressobj(size=body_size(body))
    parts = [engine.compress(piece) for piece in body]
    parts.append(engine.flush())
    return (b"".join(parts),)


def decompress(body: Buffer, *, max_bytes: int) -> bytearray:
    """The body as it was; one that would grow over the limit stops growing there.

    The limit is `max_bytes`, or what data never grows to and bombs do, if that is less.
    """
    max_bytes = min(max_bytes, max(_INFLATED_FREE_BYTES, _INFLATED_TIMES * len(body)))
    library = _library()
    out = bytearray()
    try:
        reader = library.ZstdDecompressor().stream_reader(body, read_across_frames=False)
        while part := reader.read(_STEP_BYTES):
            out += part
            if len(out) > max_bytes:
                raise TooLarge(f"a compressed body grows over the limit of {max_bytes} bytes")
    except library.ZstdError as error:
        raise ProtocolError(f"not a zstd body: {error}") from error
    return out
