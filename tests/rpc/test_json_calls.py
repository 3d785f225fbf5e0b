"""Calls by people and programs without Axon: JSON over plain HTTP, as curl sends it."""

from __future__ import annotations

import asyncio
import base64
import datetime
import enum
import http.client
import json
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

from axon.worker import Serving, Worker, progress


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: float = 0.0


@dataclass
class Path:
    name: str
    points: list[Point]
    colour: Colour = Colour.RED
    tags: dict[str, int] = field(default_factory=dict)


class Scaler:
    """An object with annotations of its own that are not those of its call."""

    factor: str = "unused"

    def __call__(self, factor: int, *, at: datetime.date | None = None) -> list[str]:
        return [type(factor).__name__, type(at).__name__]


def make_worker() -> Worker:
    worker = Worker("plain")

    @worker.rpc(executor="inline")
    def echo(value: Any = "nothing") -> Any:
        return value

    @worker.rpc()
    def add(left: int, right: int = 10, *, times: int = 1) -> int:
        return (left + right) * times

    @worker.rpc()
    async def stretch(path: Path, by: float) -> Path:
        points = [Point(point.x, point.y * by) for point in path.points]
        return Path(path.name, points, path.colour, path.tags)

    @worker.rpc(executor="inline")
    def weekday(when: datetime.datetime, colour: Colour) -> list[Any]:
        return [when.isoweekday(), colour.name, when.tzinfo is not None]

    @worker.rpc(executor="inline")
    def spread(*values: int, **named: str) -> list[Any]:
        return [list(values), named]

    @worker.rpc(executor="inline")
    def norm(vector: np.ndarray) -> float:
        return float(np.linalg.norm(vector))

    @worker.rpc(executor="inline")
    def raw(data: bytes) -> int:
        return len(data)

    @worker.rpc(executor="inline")
    def make(kind: str) -> Any:
        return MADE[kind]

    @worker.rpc(executor="inline")
    def fail() -> None:
        raise KeyError("lost")

    @worker.rpc()
    async def slow(seconds: float) -> None:
        await asyncio.sleep(seconds)

    @worker.rpc()
    def count(most: int) -> Iterator[Any]:
        for number in range(most):
            yield {"number": number, "ü": [None]}

    @worker.rpc()
    async def break_off() -> AsyncIterator[int]:
        yield 1
        raise ValueError("half way")

    @worker.rpc()
    async def steps() -> str:
        progress(1)
        progress({"two": 2})
        return "all"

    @worker.rpc(executor="inline", name="größe")
    def size(text: str) -> int:
        return len(text)

    worker.service(Scaler(), "scaler", executor="inline")
    return worker


MADE: dict[str, Any] = {
    "array": np.arange(4, dtype=np.float32).reshape(2, 2) / 2,
    "scalar": np.int64(7),
    "nan": [float("nan"), float("inf"), 1.5],
    "nan array": np.array([np.nan, 1.0]),
    "bytes": b"\x00\xff",
    "point": Point(1, 2.5),
    "enum": {Colour.BLUE: Colour.RED},
    "date": datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.UTC),
    "set": {3},
    "big": 2**80,
    "text": "Grüße 🎈 \u2028",
    "object": object(),
}


@pytest.fixture(scope="module")
def served() -> Iterator[Serving]:
    running = make_worker().start(port=0)
    yield running
    running.shutdown()


Answer = tuple[int, dict[str, str], bytes]


def send(
    served: Serving,
    target: str,
    body: bytes | None = b"",
    *,
    method: str = "POST",
    headers: dict[str, str] | None = None,
) -> Answer:
    """By the standard library alone."""
    url = f"http://127.0.0.1:{served.address.port}{target}"
    request = urllib.request.Request(url, data=body, method=method, headers=headers or {})
    if "Content-type" not in request.headers:
        request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, dict(answer.headers), answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, dict(error.headers), error.read()


def post(served: Serving, name: str, value: Any = None, **options: Any) -> Any:
    """The value of a call that succeeds."""
    body = b"" if value is None else json.dumps(value).encode()
    status, headers, text = send(served, f"/rpc/{quote(name)}", body, **options)
    assert status == 200, text
    assert headers["content-type"] == "application/json"
    return json.loads(text)


def refuse(served: Serving, target: str, body: bytes, **options: Any) -> tuple[int, dict[str, Any]]:
    """The status and the description of one that does not."""
    status, headers, text = send(served, target, body, **options)
    described = json.loads(text)["error"]
    assert headers["content-type"] == "application/json"
    assert headers["axon-error"] == described["code"]
    return status, described


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ([1], 11),
        ([1, 2], 3),
        ({"left": 1}, 11),
        ({"right": 1, "left": 5, "times": 2}, 12),
        ({"args": [1], "kwargs": {"right": 1, "times": 3}}, 6),
        ({"args": [], "kwargs": {"left": 1}}, 11),
        (["4", 2.0], 6),
    ],
)
def test_arguments_by_place_by_name_and_both(served: Serving, arguments: Any, wanted: int) -> None:
    assert post(served, "add", arguments) == wanted


def test_no_arguments(served: Serving) -> None:
    assert post(served, "echo") == "nothing"
    assert post(served, "echo", []) == "nothing"
    assert post(served, "echo", {}) == "nothing"
    assert post(served, "spread") == [[], {}]
    assert post(served, "spread", {"args": [1, 2], "kwargs": {"a": "b"}}) == [[1, 2], {"a": "b"}]


def test_whatever_the_content_type_is_called(served: Serving) -> None:
    for kind in ("application/json", "application/json; charset=utf-8"):
        assert post(served, "add", [1], headers={"Content-type": kind}) == 11
    # What curl -d sends unless told otherwise is not JSON, and says so.
    form = {"Content-type": "application/x-www-form-urlencoded"}
    status, headers, text = send(served, "/rpc/add", b"[1]", headers=form)
    assert (status, headers["axon-error"]) == (400, "protocol"), text


def test_annotated_classes_are_built(served: Serving) -> None:
    path = {"name": "p", "points": [{"x": 1, "y": 2}, {"x": 3}], "colour": "blue"}
    wanted = {
        "name": "p",
        "points": [{"x": 1, "y": 4.0}, {"x": 3, "y": 0.0}],
        "colour": "blue",
        "tags": {},
    }
    assert post(served, "stretch", [path, 2]) == wanted
    assert post(served, "stretch", {"by": 2, "path": path}) == wanted


def test_dates_enums_arrays_and_bytes_are_converted(served: Serving) -> None:
    assert post(served, "weekday", ["2024-02-29T12:00:00Z", "red"]) == [4, "RED", True]
    assert post(served, "weekday", ["2024-02-29T12:00:00", "blue"]) == [4, "BLUE", False]
    assert post(served, "norm", [[3, 4]]) == 5.0
    assert post(served, "raw", [base64.b64encode(b"12345").decode()]) == 5


def test_an_objects_call_has_its_own_annotations(served: Serving) -> None:
    status, _, text = send(served, "/scaler", b'{"factor": "3", "at": "2024-02-29"}')
    assert status == 200, text
    assert json.loads(text) == ["int", "date"]


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("array", [[0, 0.5], [1, 1.5]]),
        ("scalar", 7),
        ("nan", [None, None, 1.5]),
        ("nan array", [None, 1.0]),
        ("bytes", "AP8="),
        ("point", {"x": 1, "y": 2.5}),
        ("enum", {"blue": "red"}),
        ("date", "2024-02-29T12:00:00+00:00"),
        ("set", [3]),
        ("big", 2**80),
        ("text", "Grüße 🎈 \u2028"),
    ],
)
def test_results_in_the_nearest_form(served: Serving, kind: str, wanted: Any) -> None:
    assert post(served, "make", [kind]) == wanted


def test_text_of_any_language(served: Serving) -> None:
    for text in ("ü", "日本語", "🎈", "\x00", 'quote " and \\', "\u2028"):
        assert post(served, "echo", [text]) == text
        status, _, body = send(served, "/rpc/echo", json.dumps([text], ensure_ascii=False).encode())
        assert (status, json.loads(body)) == (200, text)
    assert post(served, "größe", ["äöü"]) == 3


def lines(body: bytes) -> list[Any]:
    assert body.endswith(b"\n")
    return [json.loads(line) for line in body.splitlines()]


def test_a_generator_gives_a_line_an_item(served: Serving) -> None:
    status, headers, body = send(served, "/rpc/count", b"[3]")
    assert status == 200
    assert headers["content-type"] == "application/x-ndjson"
    assert lines(body) == [{"number": number, "ü": [None]} for number in range(3)]
    assert send(served, "/rpc/count", b"[0]")[2] == b""
    items = lines(send(served, "/rpc/break_off")[2])
    assert items[0] == 1
    assert items[1]["error"]["type"] == "ValueError"
    assert items[1]["error"]["message"] == "half way"


def test_progress_gives_a_line_a_report(served: Serving) -> None:
    _, headers, body = send(served, "/rpc/steps", headers={"axon-accept": "progress"})
    assert headers["content-type"] == "application/x-ndjson"
    assert lines(body) == [1, {"two": 2}, "all"]


@pytest.mark.parametrize(
    ("target", "body", "status", "code", "says"),
    [
        ("/rpc/fail", b"", 500, "remote", "'lost'"),
        ("/rpc/nothing", b"[]", 404, "not-found", "rpc/nothing"),
        ("/", b"[]", 404, "not-found", "no function"),
        ("/rpc/add", b"[1, 2, 3]", 422, "bad-arguments", "too many positional"),
        ("/rpc/add", b"{}", 422, "bad-arguments", "left"),
        ("/rpc/add", b'{"left": 1, "up": 2}', 422, "bad-arguments", "up"),
        ("/rpc/add", b'["one"]', 422, "bad-arguments", "int"),
        ("/rpc/add", b"[null]", 422, "bad-arguments", "int"),
        ("/rpc/add", b"[[1]]", 422, "bad-arguments", "int"),
        ("/rpc/add", b"17", 422, "bad-arguments", "array or object"),
        ("/rpc/add", b'"text"', 422, "bad-arguments", "array or object"),
        ("/rpc/add", b"[1", 400, "protocol", "not JSON"),
        ("/rpc/add", b"\xff\xfe", 400, "protocol", "not JSON"),
        ("/rpc/echo", b"[NaN]", 400, "protocol", "not JSON"),
        ("/rpc/stretch", b'[{"name": "p"}, 1]', 422, "bad-arguments", "points"),
        ("/rpc/stretch", b'[{"name": "p", "points": [{"x": "z"}]}, 1]', 422, "bad-arguments", "x"),
        ("/rpc/weekday", b'["29 Feb", "red"]', 422, "bad-arguments", "datetime"),
        ("/rpc/weekday", b'["2024-02-29T12:00:00", "pink"]', 422, "bad-arguments", "pink"),
        ("/rpc/norm", b'[["a", {}]]', 422, "bad-arguments", "array"),
        ("/rpc/raw", b'["not base64!"]', 422, "bad-arguments", "base64"),
        ("/rpc/make", b'["object"]', 500, "cannot-travel", "rpc/make"),
    ],
)
def test_errors_have_a_status_and_a_description(
    served: Serving, target: str, body: bytes, status: int, code: str, says: str
) -> None:
    got, described = refuse(served, target, body)
    assert (got, described["code"]) == (status, code)
    assert says in described["message"]


def test_a_remote_error_in_full(served: Serving) -> None:
    status, described = refuse(served, "/rpc/fail", b"")
    assert status == 500
    assert described["type"] == "KeyError"
    assert "in fail" in described["traceback"]


def test_a_deadline_by_its_header(served: Serving) -> None:
    status, described = refuse(served, "/rpc/slow", b"[5]", headers={"axon-deadline": "0.05"})
    assert (status, described["code"]) == (504, "deadline")
    status, described = refuse(served, "/rpc/slow", b"[5]", headers={"axon-deadline": "soon"})
    assert (status, described["code"]) == (400, "protocol")


def test_other_spellings_of_a_path_and_queries(served: Serving) -> None:
    for target in ("/rpc/add?x=1", "/rpc/add/", "/rpc/%61dd", "/rpc/add?", "//rpc/add"):
        status, _, text = send(served, target, b"[1]")
        assert (status, text) == (200, b"11"), target
    assert send(served, "/rpc/../rpc/add", b"[1]")[0] == 404


def test_methods_that_mean_nothing_here(served: Serving) -> None:
    """On one connection, so that an answer too long or too short upsets the next."""
    link = http.client.HTTPConnection("127.0.0.1", served.address.port, timeout=10)
    try:
        for method in ("HEAD", "PUT", "OPTIONS", "PATCH", "DELETE", "GET"):
            link.request(method, "/rpc/add", body=None if method == "HEAD" else b"[1]")
            answer = link.getresponse()
            body = answer.read()
            assert answer.status in (404, 405), method
            assert (body == b"") == (method == "HEAD")
            link.request("POST", "/rpc/add", b"[1]", {"Content-Type": "application/json"})
            assert link.getresponse().read() == b"11", f"after {method}"
        link.request("HEAD", "/_axon/health")
        answer = link.getresponse()
        assert answer.read() == b""
        link.request("GET", "/_axon/health")
        assert json.loads(link.getresponse().read())["status"] == "ok"
    finally:
        link.close()


def test_the_profile_can_be_read_by_people(served: Serving) -> None:
    status, _, text = send(served, "/_axon/profile", None, method="GET")
    profile = json.loads(text)
    assert status == 200
    assert profile["name"] == "plain"
    assert profile["functions"]["rpc/count"]["kind"] == "generator"
    assert "rpc/größe" in profile["functions"]
