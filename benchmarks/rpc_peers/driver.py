"""A peer's process: `python -m rpc_peers.<peer> serve|client VARIANT PORT...`.

A client process reads one JSON question a line and writes one JSON answer a line, so the benchmark
can visit the peers in turn while each keeps its connections, its loop and its interpreter.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TextIO, TypeAlias

from rpc_peers.measures import (
    AsyncClient,
    AsyncMeasures,
    BlockingClient,
    BlockingMeasures,
    Budget,
    Measured,
)

Serve: TypeAlias = Callable[[str, Sequence[int]], None]
MakeAsync: TypeAlias = Callable[[], AsyncClient]
MakeBlocking: TypeAlias = Callable[[], BlockingClient]


def run_on_best_loop(main: Coroutine[Any, Any, None]) -> None:
    """Run under uvloop where this interpreter has it, so no framework is held back by its loop."""
    try:
        import uvloop
    except ImportError:
        asyncio.run(main)
    else:
        uvloop.run(main)


def main(
    serve: Serve,
    *,
    waiting: Mapping[str, MakeAsync] | None = None,
    blocking: Mapping[str, MakeBlocking] | None = None,
) -> None:
    """Play the role the command line names."""
    role, variant, *rest = sys.argv[1:]
    ports = [int(port) for port in rest]
    if role == "serve":
        serve(variant, ports)
        return
    # Answers keep the pipe for themselves; what a framework prints goes to standard error.
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    if waiting and variant in waiting:
        run_on_best_loop(_answer_waiting(waiting[variant](), ports, replies))
    elif blocking and variant in blocking:
        _answer_blocking(blocking[variant](), ports, replies)
    else:
        known = [*(waiting or ()), *(blocking or ())]
        raise SystemExit(f"unknown client {variant!r}, known: {', '.join(known)}")


def _reply(replies: TextIO, measured: Measured) -> None:
    print(json.dumps(measured), file=replies, flush=True)


def _parse(line: str) -> tuple[str, Budget]:
    question = json.loads(line)
    return question.pop("ask"), Budget(**question)


async def _answer_waiting(client: AsyncClient, ports: Sequence[int], replies: TextIO) -> None:
    loop = asyncio.get_running_loop()
    measures: AsyncMeasures | None = None
    _reply(
        replies, {}
    )  # imports are done; the worker may not listen yet, so connecting waits for a question
    # Read in a thread: the loop must stay awake between visits to notice what happens to its links.
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        if measures is None:
            await client.open(ports)
            measures = AsyncMeasures(client)
        name, budget = _parse(line)
        _reply(replies, await getattr(measures, name)(budget))


def _answer_blocking(client: BlockingClient, ports: Sequence[int], replies: TextIO) -> None:
    measures: BlockingMeasures | None = None
    _reply(replies, {})
    while line := sys.stdin.readline():
        if measures is None:
            client.open(ports)
            measures = BlockingMeasures(client)
        name, budget = _parse(line)
        _reply(replies, getattr(measures, name)(budget))
