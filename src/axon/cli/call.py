"""`axon call`: one function of one worker, from the shell."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import typer

from axon.cli.options import KeyOption, TlsOption
from axon.errors import CannotTravel, ConfigurationError

_KEYWORD = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_TAKEN = ("address", "deadline_s", "key", "tls")
"""Keywords that tell the client how to call; a function's own of that name goes by its position."""


def call(
    target: Annotated[str, typer.Argument(metavar="HOST[:PORT]/PATH", help="What to call.")],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ARG",
            help="JSON where it parses, text where it does not; name=value for a keyword.",
        ),
    ] = None,
    deadline: Annotated[
        float | None,
        typer.Option(min=0.0, metavar="S", help="Seconds to wait, instead of the usual 30."),
    ] = None,
    key: KeyOption = None,
    tls: TlsOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Call a function of a worker and print what it returns.

    Example: axon call pi.local:8000/rpc/add 2 -5 scale=1.5
    """
    positional, keywords = parse_arguments(arguments or ())
    # Late, because the client brings all of the library and `axon --help` should be quick.
    from axon import client

    if deadline is not None:
        keywords["deadline_s"] = deadline
    result = client.call(target, *positional, key=key, tls=tls, **keywords)
    # A generator's items are printed as they come, one a line.
    for value in result if isinstance(result, Iterator) else (result,):
        typer.echo(render_result(value, as_json=as_json))


def parse_arguments(texts: Iterable[str]) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments; raises `ConfigurationError` for what cannot be meant."""
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    for text in texts:
        keyword = _KEYWORD.fullmatch(text)
        if keyword is None:
            positional.append(_parse_positional(text))
            continue
        name = keyword[1]
        if name in _TAKEN or name in keywords:
            reason = "belongs to the client" if name in _TAKEN else "is given twice"
            raise ConfigurationError(f"the keyword {name!r} {reason}")
        keywords[name] = parse_value(keyword[2])
    return positional, keywords


def _parse_positional(text: str) -> object:
    """A value; but text with a dash before it is more likely a mistyped option than meant."""
    value = parse_value(text)
    if isinstance(value, str) and text.startswith("-"):
        raise ConfigurationError(f"no such option: {text}", hint=f"as text, write '\"{text}\"'")
    return value


def parse_value(text: str) -> object:
    """What the text means in JSON, or the text itself; `ConfigurationError` if it has no bottom."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise ConfigurationError(
            f"the argument {text[:20]}… of {len(text):,} characters is nested too deeply"
        ) from error
    except ValueError:
        return text


def _refuse_constant(text: str) -> object:
    # Python reads NaN and Infinity as numbers; JSON does not know them, so here they are words.
    raise ValueError(text)


def render_result(result: object, *, as_json: bool) -> str:
    """The result on one line or more; raises `CannotTravel` for what has no form in JSON."""
    if not as_json:
        return repr(result)
    try:
        return json.dumps(result, default=_as_list, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise CannotTravel(
            f"the result has no form in JSON: {error}", hint="leave --json out to see it"
        ) from error


def _as_list(value: object) -> object:
    """Arrays and their scalars become lists and numbers without importing any library of them."""
    convert = getattr(value, "tolist", None)
    if callable(convert):
        return convert()
    raise TypeError(f"{type(value).__name__} is not a JSON type")
