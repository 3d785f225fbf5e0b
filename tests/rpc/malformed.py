"""What no worker should take, by what is wrong with it: requests, envelopes and JSON."""

from __future__ import annotations

import struct

from tests.rpc.raw import request

MALFORMED = {
    "garbage": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200), 400),
    "http/2 preface": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "version 2": (b"GET / HTTP/2.0\r\n\r\n", 505),
    "version 9": (b"GET / HTTP/9.9\r\n\r\n", 400),
    "version 0.9": (b"GET / HTTP/0.9\r\n\r\n", 505),
    "no version": (b"GET /\r\n\r\n", 505),
    "negative length": (request(headers={b"content-length": b"-1"}), 400),
    "empty length": (request(headers={b"content-length": b""}), 400),
    "huge length": (request(headers={b"content-length": b"%d" % 2**62}), 413),
    "length beyond 64 bits": (request(headers={b"content-length": b"9" * 400}), 400),
    "two lengths": (request(headers={b"Content-Length": b"1"}), 400),
    "length and chunks": (request(headers={b"transfer-encoding": b"chunked"}), 400),
    "chunks and length": (
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n0\r\n\r\n",
        400,
    ),
    "unknown coding": (b"POST / HTTP/1.1\r\ntransfer-encoding: gzip\r\n\r\n", 400),
    "chunk size overflow": (
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n" + b"f" * 17 + b"\r\n",
        400,
    ),
    "chunk size of nothing": (b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n", 400),
    "folded header": (b"GET / HTTP/1.1\r\na: b\r\n c\r\n\r\n", 400),
    "bare line feeds": (b"GET / HTTP/1.1\na: b\n\n", 400),
    "null in target": (b"GET /\0 HTTP/1.1\r\n\r\n", 400),
    "null in header": (b"GET / HTTP/1.1\r\na: \0\r\n\r\n", 400),
    "upgrade": (request(headers={b"connection": b"upgrade", b"upgrade": b"websocket"}), 501),
    "connect": (b"CONNECT a:1 HTTP/1.1\r\n\r\n", 501),
    "head": (b"HEAD / HTTP/1.1\r\n\r\n", 405),
    "long target": (b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n", 431),
    "long header": (b"GET / HTTP/1.1\r\na: " + b"b" * (1 << 20) + b"\r\n\r\n", 431),
    "long header name": (b"GET / HTTP/1.1\r\n" + b"b" * (1 << 20), 431),
    "many headers": (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 10_000 + b"\r\n", 431),
    "no end of line": (b"A" * 5 + b"GET" * 100_000, 400),
    "endless target": (b"GET /" + b"a" * 1_000_000, 431),
    "endless empty lines": (b"\r\n" * 100_000, 431),
    "endless trailer": (
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\na: " + b"b" * 1_000_000,
        431,
    ),
    "endless chunk extension": (
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1;" + b"b" * 1_000_000,
        431,
    ),
    "many trailers": (
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n" + b"a: b\r\n" * 10_000,
        431,
    ),
    "web page": (request(headers={b"origin": b"http://evil"}), 401),
}


def _envelope(head: bytes, *, magic: bytes = b"AXN", version: int = 1, buffers: int = 0) -> bytes:
    return struct.pack("<3sBIII", magic, version, len(head), buffers, 0) + head


ENVELOPES = {
    "empty": b"",
    "wrong magic": _envelope(b"\x92\x90\x80", magic=b"XYZ"),
    "wrong version": _envelope(b"\x92\x90\x80", version=9),
    "truncated": _envelope(b"\x92\x90\x80")[:-1],
    "half a prefix": b"AXN\x01",
    "garbage after it": _envelope(b"\x92\x90\x80") + b"garbage",
    "garbage in the head": _envelope(b"\x92\x90\x80rest"),
    "head length of 4 GB": struct.pack("<3sBIII", b"AXN", 1, 0xFFFFFFFF, 0, 0),
    "four billion buffers": struct.pack("<3sBIII", b"AXN", 1, 16, 0xFFFFFFFF, 0) + bytes(16),
    "huge buffer": _envelope(b"\x92\x90\x80", buffers=1)[:16] + b"\xff" * 8 + b"\x92\x90\x80",
    "array of four billion": _envelope(b"\xdd\xff\xff\xff\xff"),
    "map of four billion": _envelope(b"\xdf\xff\xff\xff\xff"),
    "string of 4 GB": _envelope(b"\xdb\xff\xff\xff\xff"),
    "extension of 4 GB": _envelope(b"\xc9\xff\xff\xff\xff\x01"),
    "lists 100,000 deep": _envelope(b"\x91" * 100_000 + b"\x90"),
    "maps 100,000 deep": _envelope(b"\x81\xa1a" * 100_000 + b"\x80"),
    "not a call": _envelope(b"\x01"),
}
TEXTS = {
    "lists 100,000 deep": b"[" * 100_000 + b"]" * 100_000,
    "objects 100,000 deep": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "an int of 5 MB": b"[" + b"9" * 5_000_000 + b"]",
    "a number out of range": b"[1e999999]",
    "not JSON": b"{]",
    "truncated": b'["abc',
    "not UTF-8": b'["\xff\xfe"]',
    "a lone surrogate": b'["\\ud800"]',
    "a scalar": b"7",
    "too much structure": b"[" + b"[]," * 6_000_000 + b"[]]",
}
