"""Outcomes as responses and back: values, and errors as type, message, traceback and notes."""

from __future__ import annotations

import builtins
import traceback
from functools import lru_cache
from typing import Any

from axon import errors
from axon.errors import AxonError, CallError, ProtocolError, RemoteError
from axon.rpc import wire
from axon.rpc.messages import Pieces, Response

JSON = b"application/json"
_MOST_TEXT = 16 << 10
"""Of a message or a traceback; an error must not be the largest thing on the wire."""

_MOST_NOTES = 32

# One table: the code on the wire, the HTTP status for everyone else, the class for us.
_CODES: dict[str, tuple[int, type[AxonError]]] = {
    "remote": (500, RemoteError),
    "deadline": (504, errors.DeadlineExceeded),
    "cancelled": (409, errors.CallCancelled),
    "lost": (410, errors.CallLost),
    "not-found": (404, errors.NotFound),
    "bad-arguments": (422, errors.BadArguments),
    "too-large": (413, errors.TooLarge),
    "unauthorised": (401, errors.Unauthorised),
    "overloaded": (503, errors.Overloaded),
    "stopping": (503, errors.WorkerStopping),
    "version": (400, errors.VersionMismatch),
    "protocol": (400, ProtocolError),
    "cannot-travel": (500, errors.CannotTravel),
}
_CODE_OF = {cls: code for code, (_, cls) in _CODES.items()}
_BY_STATUS = {400: "protocol", 401: "unauthorised", 403: "unauthorised", 404: "not-found",
              408: "deadline", 413: "too-large", 431: "too-large", 503: "overloaded"}  # fmt: skip


def value_body(value: object, *, as_json: bool, pickling: bool = False) -> Pieces:
    """A value in the caller's own format."""
    return (wire.to_json(value),) if as_json else wire.encode(value, pickling=pickling)


def value_response(value: object, *, as_json: bool, pickling: bool = False) -> Response:
    """A function's result."""
    if as_json:
        return Response(200, {b"content-type": JSON}, (wire.to_json(value),))
    body = wire.encode(value, pickling=pickling)
    return Response(200, {b"content-type": wire.CONTENT_TYPE}, body)


def error_response(error: AxonError, *, as_json: bool) -> Response:
    """What kept a call from bringing back a value, other than the function itself."""
    described = {"code": code_of(error), "message": _clip(error.message)}
    if error.hint:
        described["hint"] = error.hint
    reason = getattr(error, "reason", None)
    if isinstance(reason, str):
        described["reason"] = reason
    return _described_response(described, as_json=as_json)


def remote_response(error: BaseException, *, as_json: bool, traced: bool = True) -> Response:
    """What a function raised; ours or not, to the caller it is a remote error."""
    name, module = type(error).__qualname__, type(error).__module__
    message = _message(error)
    if isinstance(error, RemoteError):
        # It came from a worker further on: what was raised there is what its caller is told.
        name, message = error.type_name, error.message
        module = "builtins" if _remote_class(name) is type(error) else module
    described = {
        "code": "remote",
        "type": name,
        "module": module,
        "message": _clip(message),
        "traceback": _clip(_traceback(error), keep_end=True) if traced else "",
        "notes": [_clip(note) for note in _notes(error)],
    }
    return _described_response(described, as_json=as_json)


def as_remote(error: BaseException) -> RemoteError:
    """One that must not be raised here, such as `SystemExit`, in a form that may."""
    return RemoteError(
        _message(error),
        type_name=type(error).__qualname__,
        remote_traceback=_traceback(error),
        notes=_notes(error),
    )


def _described_response(described: dict[str, Any], *, as_json: bool) -> Response:
    code = described["code"]
    kind = JSON if as_json else wire.CONTENT_TYPE
    body = value_body({"error": described} if as_json else described, as_json=as_json)
    headers = {b"content-type": kind, b"axon-error": code.encode()}
    return Response(_CODES[code][0], headers, body)


def code_of(error: AxonError) -> str:
    """The wire's word for one of our own errors."""
    for cls in type(error).__mro__:
        if cls in _CODE_OF:
            return _CODE_OF[cls]
    return "protocol"


def _message(error: BaseException) -> str:
    return _text(error, type(error).__qualname__)


def _text(value: object, name: str) -> str:
    try:
        return str(value)
    except Exception as broken:
        return f"<{name} whose text fails with {type(broken).__name__}>"


def _notes(error: BaseException) -> list[str]:
    """Its notes, less the one that repeats the traceback; anyone may set them to anything."""
    notes = getattr(error, "__notes__", ())
    if not isinstance(notes, (list, tuple)):
        return []
    texts = [_text(note, "note") for note in notes[:_MOST_NOTES]]
    repeated = error.remote_traceback if isinstance(error, RemoteError) else ""
    return [text for text in texts if not repeated or repeated not in text]


def _traceback(error: BaseException) -> str:
    kept = getattr(error, "remote_traceback", None)
    if isinstance(kept, str) and kept:
        return kept
    return "".join(traceback.format_exception(type(error), error, error.__traceback__))


def _clip(text: str, *, keep_end: bool = False) -> str:
    text = text.encode("utf-8", "replace").decode()
    if len(text) <= _MOST_TEXT:
        return text
    return "…" + text[-_MOST_TEXT:] if keep_end else text[:_MOST_TEXT] + "…"


# Back again, on the client


def raise_for(response: Response) -> None:
    """Raise what a response that is not a success describes."""
    if response.status < 400:
        return
    body = response.body[0] if response.body else b""
    code = response.headers.get(b"axon-error", b"").decode("latin-1")
    if response.headers.get(b"content-type") == wire.CONTENT_TYPE:
        raise restore_error(wire.decode(body))
    if code and response.headers.get(b"content-type") == JSON:
        # What we asked for without arguments is answered as to anyone; the profile, for one.
        raise restore_error(_described_in(wire.from_json(body)))
    text = bytes(body[:500]).decode("utf-8", "replace")
    if response.headers.get(b"content-type", b"").startswith(b"text/html"):
        # Made for a browser, by somebody else: another server, or a proxy before ours.
        text = f"a web page came with HTTP status {response.status}, as no Axon worker sends"
    code = code or _BY_STATUS.get(response.status, "protocol")
    raise restore_error({"code": code, "message": text or f"HTTP status {response.status}"})


def _described_in(answer: Any) -> Any:
    return answer.get("error") if isinstance(answer, dict) else None


def restore_error(described: Any) -> CallError | AxonError:
    """The error that `error_response` or `remote_response` described."""
    if not isinstance(described, dict):
        return ProtocolError("the peer described its error in a way we do not know")
    code = str(described.get("code"))
    message = str(described.get("message", ""))
    if code not in _CODES:
        return ProtocolError(f"unknown error {code!r}: {message}")
    if code == "remote":
        return _restore_remote(described, message)
    cls = _CODES[code][1]
    error = cls(message, hint=described.get("hint"))
    if "reason" in described:
        # An exception takes any attribute; its type does not say which.
        error.reason = str(described["reason"])  # type: ignore[attr-defined]
    return error


def _restore_remote(described: dict[str, Any], message: str) -> RemoteError:
    name = str(described.get("type", "Exception"))
    cls = _remote_class(name) if described.get("module") == "builtins" else RemoteError
    notes = described.get("notes")
    return cls(
        message,
        type_name=name,
        remote_traceback=str(described.get("traceback", "")),
        notes=[str(note) for note in notes] if isinstance(notes, list) else (),
    )


_NEVER = (StopIteration, StopAsyncIteration, BaseExceptionGroup)
"""Raised inside a coroutine the first two mean something else; a group cannot be made empty."""


@lru_cache(maxsize=256)
def _remote_class(name: str) -> type[RemoteError]:
    """`RemoteError` that is also the built-in exception of that name, where that can be."""
    builtin = getattr(builtins, name, None) if name.isidentifier() else None
    if not (isinstance(builtin, type) and issubclass(builtin, Exception)):
        return RemoteError
    if issubclass(builtin, _NEVER) or builtin is Exception:
        return RemoteError
    if issubclass(builtin, UnicodeError):
        builtin = UnicodeError  # Its kinds are made of the text and the place, not of a message.
    return type(f"Remote{name}", (RemoteError, builtin), {"__module__": RemoteError.__module__})
