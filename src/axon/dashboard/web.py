"""The page and its data over HTTP: who may ask, for what, and how often.

    GET  /                    the page, and /assets/... what it is made of
    GET  /api/runs            all runs in a few numbers
    GET  /api/run             what is new of one: ?run=0&since=17
    GET  /api/timeline        some cycles of some devices: ?run=0&first=40&count=10&devices=0,1,2
    GET  /api/events          a stream: /api/runs again whenever something has changed
    POST /api/cancel          end a task, where there is somebody to ask: {"task": "a"}

Only requests for an address or for one of our own names are answered: a page of somebody else's,
whose name was made to mean this machine, gets nothing. What changes something needs, besides, a
token that only our own page knows.
"""

from __future__ import annotations

import asyncio
import ipaddress
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from functools import cache
from importlib import resources
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from axon.dashboard.feed import Feed
from axon.dashboard.views import fixed_view, run_view, runs_view, timeline_view
from axon.errors import AxonError
from axon.rpc.messages import Buffer, Request, Response

MOST_STREAMS = 16
LOOK_S = 0.25
"""How often a stream looks for changes: in virtual time thousands may come in that time."""
PING_S = 10.0
MOST_BODY_BYTES = 64 << 10

TYPES = {
    "html": b"text/html; charset=utf-8",
    "css": b"text/css; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "svg": b"image/svg+xml",
}
SECURITY = {
    b"content-security-policy": b"default-src 'self'; base-uri 'none'; form-action 'none'; "
    b"frame-ancestors 'none'; object-src 'none'",
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"cache-control": b"no-store",
}

Cancel = Callable[[str], str]
"""Ends a task by its name, and tells what was answered; `AxonError` where it cannot be."""


class DashboardApp:
    """Answers the requests of pages; an `App` for the project's own HTTP server."""

    def __init__(
        self, feed: Feed, hosts: Collection[str] = (), cancel: Cancel | None = None
    ) -> None:
        self._feed = feed
        self._hosts = {"localhost", *(host.lower() for host in hosts)}
        self._cancel = cancel
        self._token = secrets.token_urlsafe(16)
        self._start = secrets.token_hex(8)
        """Tells this server from another that was at the same address before."""
        self._streams = 0
        self.ending = False
        """Streams end by themselves once this is set."""

    def admit(self, request: Request) -> Response | None:
        """Refuse by the head alone what comes from elsewhere, or is too large."""
        host = _host_of(request.headers.get(b"host", b""))
        # Who names an address has asked for no name that somebody else could have made ours.
        if host not in self._hosts and not is_address(host):
            return _text(403, "this page is served under other names only")
        if request.method == b"GET":
            return None
        if request.method != b"POST":
            return _text(405, "only GET and POST are answered")
        if int(request.headers.get(b"content-length") or b"0") > MOST_BODY_BYTES:
            return _text(413, f"at most {MOST_BODY_BYTES} bytes are taken")
        origin = request.headers.get(b"origin", b"null")
        if urlsplit(origin.decode("latin-1")).netloc.encode("latin-1") != request.headers[b"host"]:
            return _text(403, "only this server's own page may ask for that")
        return None

    def handle(self, request: Request) -> Response | Awaitable[Response]:
        """Answer."""
        path, _, query = request.target.decode("latin-1").partition("?")
        if request.method == b"POST":
            return self._post(path, request)
        if path == "/":
            return _asset("index.html")
        if path.startswith("/assets/"):
            return _asset(path.removeprefix("/assets/"))
        if path == "/api/events":
            return self._stream(request)
        return self._data(path, parse_qs(query, max_num_fields=20))

    def _data(self, path: str, query: dict[str, list[str]]) -> Response:
        try:
            if path == "/api/runs":
                told: Any = self._runs() | fixed_view()
            elif path == "/api/run":
                told = run_view(self._feed, _whole(query, "run"), _whole(query, "since", 0))
            elif path == "/api/timeline":
                devices = [int(text) for text in query.get("devices", [""])[0].split(",") if text]
                wanted = [device for device in devices if 0 <= device < 2**32]
                first, count = _whole(query, "first", 0), _whole(query, "count", 10)
                told = timeline_view(self._feed, _whole(query, "run"), first, count, wanted)
            else:
                told = None
        except ValueError:
            return _text(400, "a number is missing, or is none")
        return _text(404, "there is nothing of that name") if told is None else _json(told)

    def _runs(self) -> dict[str, Any]:
        view = runs_view(self._feed)
        # A page without a token can see that it may not ask for changes.
        token = self._token if self._cancel is not None else None
        return {**view, "server": self._start, "token": token}

    def _stream(self, request: Request) -> Response:
        if self._streams >= MOST_STREAMS:
            return _text(503, f"{MOST_STREAMS} pages are open already")
        headers = {b"content-type": b"text/event-stream", **SECURITY}
        start, _, since = request.headers.get(b"last-event-id", b"").partition(b"-")
        # A page that comes back from another server has seen nothing of this one.
        seen = int(since) if start == self._start.encode() and since.isdigit() else -1
        return Response(200, headers, stream=self._changes(seen))

    async def _changes(self, since: int) -> AsyncIterator[Buffer]:
        """All runs in a few numbers, now and whenever something has changed."""
        waited_s = 0.0
        # Not before its first piece is asked for: a page may have left already.
        self._streams += 1
        try:
            yield b"retry: 1000\n\n"
            while self._streams <= MOST_STREAMS and not self.ending:
                if self._feed.sequence != since:
                    view = self._runs()
                    since, waited_s = view["sequence"], 0.0
                    place = f"{self._start}-{since}".encode()
                    yield b"id: %b\ndata: %b\n\n" % (place, msgspec.json.encode(view))
                elif waited_s >= PING_S:
                    waited_s = 0.0
                    yield b": still here\n\n"
                await asyncio.sleep(LOOK_S)
                waited_s += LOOK_S
        finally:
            self._streams -= 1

    async def _post(self, path: str, request: Request) -> Response:
        if path != "/api/cancel":
            return _text(404, "there is nothing of that name")
        if self._cancel is None:
            return _text(403, "this page only looks: it was started without a key")
        given = request.headers.get(b"x-axon-token", b"").decode("latin-1")
        if not secrets.compare_digest(given.encode(), self._token.encode()):
            return _text(403, "only this server's own page may ask for that")
        try:
            asked = msgspec.json.decode(b"".join(request.body), type=dict[str, str])
            answer = await asyncio.to_thread(self._cancel, asked["task"])
        except (msgspec.DecodeError, KeyError):
            return _text(400, 'send {"task": "its name"}')
        except AxonError as error:
            return _text(409, str(error))
        return _json({"answer": answer})


def is_address(host: str) -> bool:
    """Whether it is an IP address, and no name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _host_of(header: bytes) -> str:
    """The host that a request names, without its port."""
    try:
        return (urlsplit(f"//{header.decode('ascii')}").hostname or "").lower()
    except ValueError:
        return ""


def _whole(query: dict[str, list[str]], name: str, default: int | None = None) -> int:
    if name not in query and default is not None:
        return default
    return min(int(query.get(name, [""])[0]), 2**53)


@cache
def asset(name: str) -> bytes:
    """One of the files that the page is made of; `FileNotFoundError` for any other."""
    folder = resources.files("axon.dashboard") / "assets"
    known = {entry.name: entry for entry in folder.iterdir() if entry.is_file()}
    # Looked up among those that there are, so that no name leads out of the folder.
    if name not in known:
        raise FileNotFoundError(name)
    return known[name].read_bytes()


def _asset(name: str) -> Response:
    kind = TYPES.get(name.rpartition(".")[2])
    try:
        found = asset(name) if kind is not None else None
    except FileNotFoundError:
        found = None
    if found is None or kind is None:
        return _text(404, "there is nothing of that name")
    return Response(200, {b"content-type": kind, **SECURITY}, (found,))


def _json(value: Any) -> Response:
    headers = {b"content-type": b"application/json", **SECURITY}
    return Response(200, headers, (msgspec.json.encode(value),))


def _text(status: int, text: str) -> Response:
    headers = {b"content-type": b"text/plain; charset=utf-8", **SECURITY}
    return Response(status, headers, (text.encode(),))
