"""Answers as bytes, and those that are given when the app has none."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from http import HTTPStatus

from axon.rpc.messages import Response

log = logging.getLogger("axon.http")

_STATUS = {
    status.value: b"HTTP/1.1 %d %b\r\n" % (status.value, status.phrase.encode())
    for status in HTTPStatus
}


def plain(status: int, text: str) -> Response:
    """A refusal that any HTTP client can read, made before the app has its say."""
    return Response(status, {b"content-type": b"text/plain"}, (text.encode(),))


async def response_of(answer: Response | Awaitable[Response]) -> Response:
    """What the app answers, sooner or later."""
    if isinstance(answer, Response):
        return answer
    try:
        return await answer
    except Exception:
        return failed()


def failed() -> Response:
    """For an error of the app's own, which it should have made an answer of."""
    log.exception("a request failed in the app")
    return plain(500, "internal error")


def head_of(response: Response, size: int | None, *, keep_alive: bool) -> bytes:
    """Its status line and headers, with the size of its body or, for a stream, none."""
    parts = [_STATUS.get(response.status) or b"HTTP/1.1 %d -\r\n" % response.status]
    headers = response.headers
    if size is None:
        headers[b"transfer-encoding"] = b"chunked"
    else:
        headers[b"content-length"] = b"%d" % size
    for name, value in headers.items():
        parts += (name, b": ", value, b"\r\n")
    parts.append(b"\r\n" if keep_alive else b"connection: close\r\n\r\n")
    return b"".join(parts)
