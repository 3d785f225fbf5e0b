"""Answers that come in parts: the items of a generator, the progress of a long call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

from axon.errors import AxonError, CannotTravel
from axon.rpc import frames, wire
from axon.rpc.loops import on_loop
from axon.rpc.messages import Buffer, Pieces, Request, Response
from axon.rpc.replies import error_response, remote_response, value_body
from axon.rpc.security.auth import Admission
from axon.rpc.serving.arguments import is_json
from axon.rpc.serving.execution import ActiveCall, Engine
from axon.rpc.serving.progress import PROGRESS_KEPT, progress_body

Packer = Callable[[frames.Kind, Pieces], list[Buffer]]


def streamed(stream: AsyncIterator[Buffer], request: Request) -> Response:
    """The head of an answer whose body is still to be made."""
    kind = b"application/x-ndjson" if is_json(request) else frames.CONTENT_TYPE
    response = Response(200, {b"content-type": kind}, stream=stream)
    if isinstance(request.context, Admission):
        request.context.sign(response)
    return response


async def item_stream(engine: Engine, call: ActiveCall, request: Request) -> AsyncIterator[Buffer]:
    """A generator's items, then its end or its error."""
    pack = _packer(call, request)
    try:
        async with aclosing(engine.items(call)) as items:
            async for item in items:
                body = value_body(item, as_json=call.form.as_json, pickling=call.form.pickling)
                for piece in pack(frames.Kind.ITEM, body):
                    yield piece
    except Exception as error:
        for piece in pack(frames.Kind.ERROR, _error_body(call, error)):
            yield piece
    else:
        if not call.form.as_json:
            for piece in pack(frames.Kind.RESULT, wire.encode(None)):
                yield piece


async def progress_stream(
    engine: Engine, call: ActiveCall, request: Request
) -> AsyncIterator[Buffer]:
    """What a call reports while it runs, then its outcome."""
    pack = _packer(call, request)
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[tuple[Any] | None] = asyncio.Queue()

    def note(value: Any) -> None:
        if queue.qsize() >= PROGRESS_KEPT:
            queue.get_nowait()
        queue.put_nowait((value,))

    call.running.report = lambda value: on_loop(loop, note, value)
    task = loop.create_task(engine.run(call))
    task.add_done_callback(lambda _: queue.put_nowait(None))
    try:
        while (entry := await queue.get()) is not None:
            for piece in pack(frames.Kind.PROGRESS, progress_body(entry[0], call.form)):
                yield piece
        response = await task
        kind = frames.Kind.RESULT if response.status == 200 else frames.Kind.ERROR
        for piece in pack(kind, response.body):
            yield piece
    finally:
        task.cancel()


def _packer(call: ActiveCall, request: Request) -> Packer:
    """Frames for our own clients, lines of JSON for everyone else."""
    if call.form.as_json:
        return lambda _, body: [*body, b"\n"]
    seal = request.context.sealer() if isinstance(request.context, Admission) else None
    return lambda kind, body: frames.pack(kind, body, seal)


def _error_body(call: ActiveCall, error: Exception) -> Pieces:
    if isinstance(error, AxonError) and (call.ended is error or isinstance(error, CannotTravel)):
        return error_response(error, as_json=call.form.as_json).body
    return remote_response(error, as_json=call.form.as_json, traced=call.form.traced).body
