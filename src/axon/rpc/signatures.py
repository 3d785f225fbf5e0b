"""Signatures as data: what a worker tells of its functions, and what a client makes of it."""

from __future__ import annotations

import inspect
from typing import Any

_KINDS = {
    inspect.Parameter.POSITIONAL_ONLY: "positional",
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "any",
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.KEYWORD_ONLY: "keyword",
    inspect.Parameter.VAR_KEYWORD: "**",
}
_KINDS_BACK = {name: kind for kind, name in _KINDS.items()}


class Shown:
    """A default or an annotation of a remote function: known here by its text alone."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def describe(signature: inspect.Signature) -> dict[str, Any]:
    """A signature as plain data: names, kinds, and the text of defaults and annotations."""
    parameters = []
    for item in signature.parameters.values():
        entry = {"name": item.name, "kind": _KINDS[item.kind]}
        if item.default is not item.empty:
            entry["default"] = repr(item.default)[:200]
        if item.annotation is not item.empty:
            entry["annotation"] = _text(item.annotation)
        parameters.append(entry)
    returns = signature.return_annotation
    shown = None if returns is signature.empty else _text(returns)
    return {"parameters": parameters, "returns": shown}


def _text(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def restore(description: dict[str, Any]) -> inspect.Signature:
    """The signature that `describe` described, good for binding, help and completion."""
    empty = inspect.Parameter.empty
    parameters = [
        inspect.Parameter(
            entry["name"],
            _KINDS_BACK[entry["kind"]],
            default=Shown(entry["default"]) if "default" in entry else empty,
            annotation=Shown(entry["annotation"]) if "annotation" in entry else empty,
        )
        for entry in description["parameters"]
    ]
    returns = description.get("returns")
    return inspect.Signature(
        parameters, return_annotation=inspect.Signature.empty if returns is None else Shown(returns)
    )
