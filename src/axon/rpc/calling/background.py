"""One event loop on a thread of its own, for callers that have none or must not block theirs."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from axon.rpc.loops import new_event_loop

T = TypeVar("T")


class Background:
    """A loop running in a daemon thread."""

    def __init__(self) -> None:
        self.loop = new_event_loop()
        self._thread = threading.Thread(target=self._run, name="axon-client", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        self.loop.run_until_complete(_cancel_rest())
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    def submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Run it there; the handle waits, cancels and asks from any thread."""
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("a blocking call on the client's own loop would wait for itself")
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def leave(self, work: Coroutine[Any, Any, T]) -> None:
        """Run it there without waiting, from whichever thread this is."""
        if self.loop.is_closed():
            work.close()
        else:
            asyncio.run_coroutine_threadsafe(work, self.loop)

    def stop(self) -> None:
        """End the loop and its connections."""
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(timeout=2.0)


async def _cancel_rest() -> None:
    """End calls that nobody will wait for any more; their workers are told so."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


_lock = threading.Lock()
_current: tuple[int, Background] | None = None


def background() -> Background:
    """The process's one background loop, started when first needed; a forked child gets its own."""
    global _current  # noqa: PLW0603 - one for the process, so it is the module's
    with _lock:
        if _current is None or _current[0] != os.getpid():
            _current = (os.getpid(), Background())
            atexit.register(_current[1].stop)
        return _current[1]
