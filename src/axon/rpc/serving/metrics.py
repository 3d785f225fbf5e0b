"""What a worker counts about itself, in Prometheus's text form."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from axon.rpc.messages import Response


class Tally:
    """How often one function was called, with what outcome, and for how long in all."""

    __slots__ = ("outcomes", "seconds")

    def __init__(self) -> None:
        self.outcomes: dict[str, int] = {}
        self.seconds = 0.0

    def add(self, outcome: str, seconds: float) -> None:
        """A call ended."""
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        self.seconds += seconds

    def count(self, response: Response | None, seconds: float) -> None:
        """A call ended with this answer, or was abandoned without one."""
        if response is None:
            self.add("abandoned", seconds)
        elif response.status == 200:
            # `add`, written out: this is on the way of every call.
            self.outcomes["done"] = self.outcomes.get("done", 0) + 1
            self.seconds += seconds
        else:
            self.add(response.headers[b"axon-error"].decode(), seconds)


class Metrics:
    """Counters for one worker; gauges are asked for when somebody looks."""

    def __init__(self) -> None:
        self._refused: dict[str, int] = {}
        self._gauges: dict[str, tuple[str, Callable[[], float]]] = {}

    def refused(self, code: str) -> None:
        """A request never became a call."""
        self._refused[code] = self._refused.get(code, 0) + 1

    def gauge(self, name: str, text: str, read: Callable[[], float]) -> None:
        """Register a number that is read at each scrape."""
        self._gauges[name] = (text, read)

    def render(self, tallies: Iterable[tuple[str, Tally]]) -> str:
        """The page a Prometheus server scrapes, given each function's path and tally."""
        counted = list(tallies)
        lines = _family("axon_calls_total", "counter", "Calls that ended, by function and outcome.")
        for path, tally in counted:
            for outcome, count in sorted(tally.outcomes.items()):
                lines.append(f'axon_calls_total{{function="{path}",outcome="{outcome}"}} {count}')
        lines += _family("axon_call_seconds_total", "counter", "Time spent in calls.")
        for path, tally in counted:
            lines.append(f'axon_call_seconds_total{{function="{path}"}} {tally.seconds:.6f}')
        lines += _family("axon_refused_total", "counter", "Requests that never became calls.")
        for code, count in sorted(self._refused.items()):
            lines.append(f'axon_refused_total{{reason="{code}"}} {count}')
        for name, (text, read) in sorted(self._gauges.items()):
            lines += [*_family(name, "gauge", text), f"{name} {read():g}"]
        return "\n".join(lines) + "\n"


def _family(name: str, kind: str, text: str) -> list[str]:
    return [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
