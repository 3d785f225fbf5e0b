"""From a request to the arguments of a call, in our own format or in JSON."""

from __future__ import annotations

import inspect
from typing import Any

from axon.errors import BadArguments, ProtocolError, TooLarge
from axon.rpc import wire, zstd
from axon.rpc.limits import Limits
from axon.rpc.messages import Buffer, Request
from axon.rpc.replies import JSON
from axon.rpc.serving.service import Function

Arguments = tuple[list[Any], dict[str, Any]]


def is_json(request: Request) -> bool:
    """Whether the caller speaks JSON, as it does unless it says otherwise."""
    return request.headers.get(b"content-type", JSON).startswith(JSON)


def arguments(function: Function, request: Request, *, limits: Limits, pickling: bool) -> Arguments:
    """What the caller wants the function called with."""
    body: Buffer = request.body[0] if request.body else b""
    if request.headers.get(b"content-encoding") == zstd.ENCODING:
        body = zstd.decompress(body, max_bytes=limits.max_body_bytes)
    if is_json(request):
        if len(body) > limits.max_head_bytes:
            # All of JSON is structure, and unfolds in memory just as an envelope's head does.
            raise TooLarge(
                f"JSON of {len(body)} bytes is over the limit of {limits.max_head_bytes}",
                hint="send arrays as application/axon; they do not count towards it",
            )
        return _json_arguments(function, body)
    if request.headers.get(b"content-type") != wire.CONTENT_TYPE:
        raise ProtocolError(
            "unknown content type", hint="send application/json or application/axon"
        )
    return decode_call(body, function, limits=limits, pickling=pickling)


def decode_call(body: Buffer, function: Function, *, limits: Limits, pickling: bool) -> Arguments:
    """The arguments in an envelope, in classes that the function can see."""
    value = wire.decode(
        body,
        types=function.types,
        pickling=pickling,
        max_head_bytes=limits.max_head_bytes,
        max_depth=limits.max_depth,
    )
    match value:
        case [list() as args, dict() as kwargs]:
            if not kwargs or all(type(name) is str for name in kwargs):
                return args, kwargs
    raise ProtocolError("a call's body is [arguments, keyword arguments]")


def _json_arguments(function: Function, body: Buffer) -> Arguments:
    """`[…]` is positional, `{…}` is by name, `{"args": […], "kwargs": {…}}` is both."""
    match wire.from_json(body) if body else []:
        case {"args": list() as args, "kwargs": dict() as kwargs, **rest} if not rest:
            pass
        case list() as args:
            kwargs = {}
        case dict() as kwargs:
            args = []
        case _:
            raise BadArguments("arguments are a JSON array or object")
    if not function.hints or function.signature is None:
        return args, kwargs
    try:
        bound = function.signature.bind(*args, **kwargs)
    except TypeError as error:
        raise BadArguments(f"{function.path}: {error}") from error
    for name, value in bound.arguments.items():
        kind = function.signature.parameters[name].kind
        plain = kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        if plain and name in function.hints:
            bound.arguments[name] = wire.convert(value, function.hints[name])
    return list(bound.args), bound.kwargs


def stated_deadline(request: Request) -> float | None:
    """The seconds the caller gives the call, from now."""
    stated = request.headers.get(b"axon-deadline")
    if stated is None:
        return None
    try:
        seconds = float(stated)
    except ValueError as error:
        raise ProtocolError("axon-deadline is a number of seconds") from error
    if not 0 <= seconds < 1e9:
        raise ProtocolError("axon-deadline is a number of seconds from 0 to 1e9")
    return seconds
