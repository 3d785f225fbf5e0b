"""A request is taken once: which counters of which sessions a worker has seen.

A signing process has a session id of its own and counts its requests. Connections overtake one
another, and a client's count runs on for other workers too, so counters may be skipped and come
late; what is remembered of each session is its newest counter and which of those before it came.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from axon.rpc.security.refusal import Refused

COUNTER_WINDOW = 4096
"""How far behind the newest of its session a request may arrive: further back counts as seen."""
MAX_SESSIONS = 10_000
_SEEN_MASK = (1 << COUNTER_WINDOW) - 1


@dataclass(slots=True)
class Session:
    """Which counters of one session were taken: the newest, and a bit for each before it."""

    newest: int
    floor_ms: int
    """What was sent up to then is not taken."""
    seen: int = 0
    run: int = 0
    """How many were taken in order since `seen` was brought up to date."""
    latest_ms: int = -1
    touched_ms: int = 0

    def take(self, counter: int) -> bool:
        """Note the counter; false if it was taken before or is too far back to tell."""
        age = self.newest - counter
        if age == -1:
            # In order, as nearly all come: to shift all the bits for each would cost the most.
            self.run += 1
            self.newest = counter
            return True
        self._note_run()
        if age < 0:
            # A far jump is not shifted by: the number in the header would choose how much memory.
            shifted = self.seen << -age if -age < COUNTER_WINDOW else 0
            self.seen = (shifted | 1) & _SEEN_MASK
            self.newest = counter
            return True
        if age >= COUNTER_WINDOW or self.seen >> age & 1:
            return False
        self.seen |= 1 << age
        return True

    def _note_run(self) -> None:
        run = min(self.run, COUNTER_WINDOW)
        self.seen = (self.seen << run | (1 << run) - 1) & _SEEN_MASK
        self.run = 0


class Sessions:
    """The sessions of one key, the longest unheard first, bounded in number and in age.

    Forgetting a session must not open it to replay. So the newest sending time among the forgotten
    is kept, and a session that is not known has to start after it. Not safe between threads: a
    verifier lives on one event loop.
    """

    def __init__(self, idle_ms: int) -> None:
        self._idle_ms = idle_ms
        self._sessions: OrderedDict[bytes, Session] = OrderedDict()
        self._floor_ms = -1

    def __len__(self) -> int:
        return len(self._sessions)

    def take(self, name: bytes, counter: int, sent_ms: int, now_ms: int) -> None:
        """Note a request whose signature is right; `Refused` if it was, or may have been, taken."""
        known = self._sessions.get(name)
        session = Session(counter - 1, self._floor_ms) if known is None else known
        if sent_ms <= session.floor_ms:
            raise Refused(
                f"sent {session.floor_ms - sent_ms} ms before the time this worker remembers",
                reason="replay",
                hint="if a clock was set back, restart the worker",
            )
        if not session.take(counter):
            raise Refused(
                f"request {counter} of its session was taken before, "
                f"or came {COUNTER_WINDOW} or more behind the newest",
                reason="replay",
            )
        session.touched_ms = now_ms
        if sent_ms > session.latest_ms:  # noqa: PLR1730 - max() takes longer than all the rest
            session.latest_ms = sent_ms
        if known is None:
            self._sessions[name] = session
            self._forget(now_ms)
        elif len(self._sessions) > 1:
            self._sessions.move_to_end(name)

    def _forget(self, now_ms: int) -> None:
        """Make room whenever one came; the newest is never among those that go."""
        while True:
            name, oldest = next(iter(self._sessions.items()))
            idle_ms = now_ms - oldest.touched_ms
            if idle_ms <= self._idle_ms and len(self._sessions) <= MAX_SESSIONS:
                return
            del self._sessions[name]
            self._floor_ms = max(self._floor_ms, oldest.latest_ms)
