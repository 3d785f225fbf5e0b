"""Who may ask the page's server, for what, and how often."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import msgspec
import pytest

from axon.dashboard.feed import Feed
from axon.dashboard.serving import Place, serving
from axon.dashboard.web import MOST_STREAMS, DashboardApp, asset
from axon.errors import AxonError, ConfigurationError
from axon.rpc.messages import Buffer, Request, Response
from tests.dashboard.scenes import got, small_feed

HERE = {b"host": b"127.0.0.1:8200"}


def answered(app: DashboardApp, target: str, **changes: Any) -> Response:
    request = Request(**({"method": b"GET", "target": target.encode(), "headers": HERE} | changes))
    refusal = app.admit(request)
    if refusal is not None:
        return refusal
    answer = app.handle(request)
    return asyncio.run(_awaited(answer)) if isinstance(answer, Awaitable) else answer


async def _awaited(answer: Awaitable[Response]) -> Response:
    return await answer


def told(response: Response) -> Any:
    return msgspec.json.decode(b"".join(response.body))


@pytest.fixture
def app() -> DashboardApp:
    return DashboardApp(small_feed())


@pytest.mark.parametrize(
    ("host", "status"),
    [
        (b"127.0.0.1:8200", 200),
        (b"localhost", 200),
        (b"[::1]:8200", 200),
        (b"LOCALHOST:1", 200),
        (b"192.168.1.7:8200", 200),
        (b"evil.example", 403),
        (b"127.0.0.1.evil.example:8200", 403),
        (b"localhost@evil.example", 403),
        (b"[", 403),
        (b"", 403),
        (b"\xff", 403),
    ],
)
def test_only_our_own_names_are_answered(app: DashboardApp, host: bytes, status: int) -> None:
    assert answered(app, "/", headers={b"host": host}).status == status


def test_a_named_host_is_answered_where_it_was_asked_for() -> None:
    app = DashboardApp(Feed(), hosts=["Pi.local"])
    assert answered(app, "/", headers={b"host": b"pi.local:8200"}).status == 200


@pytest.mark.parametrize("target", ["/", "/assets/main.js", "/api/runs", "/nowhere"])
def test_every_answer_says_what_the_page_may_do(app: DashboardApp, target: str) -> None:
    policy = answered(app, target).headers[b"content-security-policy"]
    assert policy.startswith(b"default-src 'self';")
    assert b"unsafe" not in policy
    assert b"script-src" not in policy


@pytest.mark.parametrize(
    "target",
    ["/assets/../web.py", "/assets/%2e%2e/web.py", "/assets//etc/passwd", "/assets/", "/x",
     "/api/run?run=7", "/api/timeline?run=-1"],
)  # fmt: skip
def test_nothing_else_is_there(app: DashboardApp, target: str) -> None:
    assert answered(app, target).status == 404


@pytest.mark.parametrize(
    "target", ["/api/run", "/api/run?run=x", "/api/timeline?run=0&devices=a", "/api/run?run=٣x"]
)
def test_what_is_no_number_is_refused(app: DashboardApp, target: str) -> None:
    assert answered(app, target).status == 400


def test_a_page_has_no_script_of_its_own() -> None:
    text = asset("index.html").decode()
    assert text.count("<script") == 1
    assert " style=" not in text
    assert "onclick" not in text
    modules = [asset(name).decode() for name in ("dom.js", "main.js", "table.js", "chart.js")]
    assert not any("innerHTML" in module or "eval(" in module for module in modules)


def test_facts_as_json(app: DashboardApp) -> None:
    runs = told(answered(app, "/api/runs"))
    assert runs["runs"][0]["label"] == "first"
    assert runs["token"] is None
    run = told(answered(app, "/api/run?run=0&since=0"))
    assert run["devices"][0]["name"] == "pi-1"
    timeline = told(answered(app, "/api/timeline?run=0&first=0&count=2&devices=0,1,-5"))
    assert len(timeline["cycles"]) == 2


def post(app: DashboardApp, token: str, body: bytes, origin: str = "http://127.0.0.1:8200") -> int:
    headers = HERE | {b"x-axon-token": token.encode(), b"origin": origin.encode()}
    return answered(app, "/api/cancel", method=b"POST", headers=headers, body=(body,)).status


def test_a_task_is_cancelled_by_our_own_page_alone() -> None:
    asked: list[str] = []

    def cancel(name: str) -> str:
        if name != "a":
            raise AxonError(f"there is no task {name!r}")
        asked.append(name)
        return "cancelled"

    app = DashboardApp(Feed(), cancel=cancel)
    token = told(answered(app, "/api/runs"))["token"]
    body = b'{"task": "a"}'
    assert post(app, token, body, origin="http://evil.example") == 403
    assert post(app, "guess", body) == 403
    assert post(app, token, b"nonsense") == 400
    assert post(app, token, b'{"task": "b"}') == 409
    assert asked == []
    assert post(app, token, body) == 200
    assert asked == ["a"]


def test_without_a_key_a_page_only_looks(app: DashboardApp) -> None:
    assert post(app, "", b'{"task": "a"}') == 403
    assert answered(app, "/api/cancel", method=b"DELETE").status == 405


async def _first(stream: AsyncIterator[Buffer] | None) -> bytes:
    assert stream is not None
    await anext(stream)
    return bytes(await anext(stream))


def test_a_stream_tells_what_changes_and_there_are_few_of_them(app: DashboardApp) -> None:
    async def main() -> None:
        streams = []
        for _ in range(MOST_STREAMS):
            answer = app.handle(Request(b"GET", b"/api/events", dict(HERE)))
            assert isinstance(answer, Response)
            streams.append(answer.stream)
            data = await _first(answer.stream)
            assert b'"label":"first"' in data
            assert data.startswith(b"id: ")
        refused = app.handle(Request(b"GET", b"/api/events", dict(HERE)))
        assert isinstance(refused, Response)
        assert refused.status == 503
        for stream in streams:
            await stream.aclose()  # type: ignore[union-attr]  # it is a generator
        again = app.handle(Request(b"GET", b"/api/events", dict(HERE)))
        assert isinstance(again, Response)
        assert again.status == 200

    asyncio.run(main())


def test_a_page_of_another_server_begins_anew() -> None:
    first, second = (DashboardApp(small_feed()) for _ in range(2))
    assert (
        told(answered(first, "/api/runs"))["server"]
        != told(answered(second, "/api/runs"))["server"]
    )

    async def main() -> None:
        stream = first.handle(Request(b"GET", b"/api/events", dict(HERE)))
        assert isinstance(stream, Response)
        seen = (await _first(stream.stream)).partition(b"\n")[0].removeprefix(b"id: ")
        # Both have told as much, and still the second tells all of its own.
        headers = HERE | {b"last-event-id": seen}
        again = second.handle(Request(b"GET", b"/api/events", headers))
        assert isinstance(again, Response)
        assert b'"label":"first"' in await _first(again.stream)

    asyncio.run(main())


def test_over_a_real_socket() -> None:
    with serving(small_feed(), Place(port=0)) as address:
        assert got(f"{address}/api/runs")["runs"][0]["cycles"] == 3
        with pytest.raises(urllib.error.HTTPError, match="403"):
            got(f"{address}/api/runs", host="evil.example")
        with urllib.request.urlopen(f"{address}/api/events", timeout=10) as stream:
            assert stream.readline() == b"retry: 1000\n"
        port = int(address.rpartition(":")[2])
        with (
            pytest.raises(ConfigurationError, match="cannot serve"),
            serving(Feed(), Place(port=port)),
        ):
            pass


def test_other_machines_see_it_only_if_they_may() -> None:
    with pytest.raises(ConfigurationError, match="--insecure"):
        Place(host="0.0.0.0")
    assert not Place(host="0.0.0.0", insecure=True).is_near
