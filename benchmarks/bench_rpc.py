"""How fast is a call? Axon beside gRPC, Pyro5, RPyC, axon-ECRG and bare sockets, on one machine.

    python benchmarks/bench_rpc.py [--quick] [--json FILE] [--check] [--only QUESTION ...]

Servers and clients are processes of their own on 127.0.0.1. The peers are visited in turn, in
several short rounds, and the tables show medians over the rounds: on a busy machine a slow moment
then falls on everyone alike, and only ratios within one run mean anything. A framework that is not
installed is left out with the reason; axon-ECRG, whose import name is also `axon`, is looked for in
the interpreter that AXON_ECRG_PYTHON names.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median

from rpc_peers import startup
from rpc_peers.bars import judge
from rpc_peers.measures import Budget, Measured
from rpc_peers.processes import FREE, Cores, Field, PeerError
from rpc_peers.roster import BULK, ECHO, GATHER, IN_FLIGHT, PEERS, taking_part
from rpc_peers.tables import TABLES, render

START = "start"
# A lone caller and its server take turns, and where the system puts them matters more than what
# they do: raw sockets take some 20 us when both share a core and 60 when each has its own. Left
# free, as people run them, a visit may find either; the pins make it one of them for everybody.
PINS = {"free": FREE, "apart": Cores(0, 1), "together": Cores(0, 0)}
DEFAULT_PIN = "free"
QUESTIONS = (ECHO, IN_FLIGHT, BULK, GATHER, START)


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How often and how long each question visits a peer."""

    small_rounds: int
    bulk_rounds: int
    gather_rounds: int
    start_rounds: int
    small: Budget
    bulk: Budget

    def visits(self, question: str) -> list[Budget]:
        """One budget for each round; in a gather its number chooses the work times."""
        if question == GATHER:
            return [Budget(seconds=1, count=1, seed=seed) for seed in range(self.gather_rounds)]
        if question == BULK:
            return [self.bulk] * self.bulk_rounds
        return [self.small] * self.small_rounds


QUICK = Effort(
    small_rounds=2,
    bulk_rounds=1,
    gather_rounds=3,
    start_rounds=1,
    small=Budget(seconds=0.1, count=20_000),
    bulk=Budget(seconds=0.3, count=3),
)
FULL = Effort(
    small_rounds=7,
    bulk_rounds=5,
    gather_rounds=15,
    start_rounds=7,
    small=Budget(seconds=0.4, count=100_000),
    bulk=Budget(seconds=0.5, count=5),
)


@dataclass(slots=True)
class Report:
    """Everything a run found out; what `--json` writes."""

    machine: dict[str, str]
    absent: dict[str, str] = field(default_factory=dict)
    results: dict[str, dict[str, Measured]] = field(default_factory=dict)
    rounds: dict[str, dict[str, list[Measured]]] = field(default_factory=dict)
    failures: dict[str, dict[str, str]] = field(default_factory=dict)

    def show(self, question: str) -> None:
        """Print one table."""
        print(render(TABLES[question], self.results[question], self.failures[question]))
        print(flush=True)


def describe_machine() -> dict[str, str]:
    """Where the numbers come from."""
    told = {
        "python": platform.python_version(),
        "system": platform.platform(),
        "cores": str(os.cpu_count()),
    }
    for package in ("grpcio", "Pyro5", "rpyc", "uvloop", "numpy"):
        try:
            told[package] = version(package)
        except PackageNotFoundError:
            told[package] = "absent"
    return told


def compare(question: str, effort: Effort, report: Report, scratch: Path, cores: Cores) -> None:
    """Visit every peer of the question in turn, round after round."""
    peers = taking_part(question, report.absent)
    rounds: dict[str, list[Measured]] = {peer.name: [] for peer in peers}
    with Field(question, peers, scratch, cores) as field_of_peers:
        for number, budget in enumerate(effort.visits(question)):
            names = list(field_of_peers.clients)
            # Each round starts with another peer, so that none always follows the same one.
            turn = number % max(1, len(names))
            for name in names[turn:] + names[:turn]:
                try:
                    measured = field_of_peers.clients[name].ask(question, budget)
                except PeerError as error:
                    field_of_peers.drop(name, str(error))
                else:
                    rounds[name].append(measured)
        report.failures[question] = field_of_peers.failures
    report.rounds[question] = rounds
    report.results[question] = {
        name: {metric: median(one[metric] for one in visits) for metric in visits[0]}
        for name, visits in rounds.items()
        if visits and name not in report.failures[question]
    }
    report.show(question)


def compare_starts(effort: Effort, report: Report, scratch: Path) -> None:
    """Imports, first answers and idle memory."""
    rounds = effort.start_rounds
    report.failures["import"] = {}
    report.results["import"] = startup.time_imports(rounds, report.absent, scratch)
    report.show("import")
    workers, failures = startup.time_workers(rounds, report.absent, scratch)
    report.results["worker"], report.failures["worker"] = workers, failures
    report.show("worker")


def find_absent(scratch: Path) -> dict[str, str]:
    """The frameworks that cannot take part, each with its reason."""
    frameworks = {peer.framework.name: peer.framework for peer in PEERS}
    reasons = {name: one.why_absent(scratch) for name, one in frameworks.items()}
    return {name: reason for name, reason in reasons.items() if reason is not None}


def conclude(report: Report, asked: Sequence[str], json_file: Path | None) -> bool:
    """Print the bars, write the summary; whether every bar was measured and cleared."""
    bars, missing = judge(report.results)
    print("Bars")
    for bar in bars:
        print(f"  {bar}")
    if set(asked) == set(QUESTIONS):
        for name, reason in missing.items():
            print(f"  ----  {name}: not measured, {reason}")
    if json_file is not None:
        judged = [{**asdict(bar), "passed": bar.passed} for bar in bars]
        summary = {**asdict(report), "bars": judged, "bars_not_measured": missing}
        json_file.write_text(json.dumps(summary, indent=1) + "\n")
    return all(bar.passed for bar in bars) and (not missing or set(asked) != set(QUESTIONS))


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="about 30 s instead of about 4 min")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write a summary here")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a bar is missed")
    pin_help = "cores of client and server in the one-caller echo (Linux; default: free)"
    parser.add_argument("--pin", choices=PINS, default=DEFAULT_PIN, help=pin_help)
    parser.add_argument("--only", nargs="+", choices=QUESTIONS, default=QUESTIONS)
    return parser.parse_args()


def main() -> int:
    """Run the questions and print their tables."""
    arguments = parse_arguments()
    effort = QUICK if arguments.quick else FULL
    report = Report(describe_machine())
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="bench-rpc-") as folder:
        scratch = Path(folder)
        report.absent = find_absent(scratch)
        print(", ".join(f"{name} {value}" for name, value in report.machine.items()))
        for name, reason in report.absent.items():
            print(f"left out: {name} ({reason})")
        print(flush=True)
        for question in (ECHO, IN_FLIGHT, BULK, GATHER):
            if question in arguments.only:
                cores = PINS[arguments.pin] if question == ECHO else FREE
                compare(question, effort, report, scratch, cores)
        if START in arguments.only:
            compare_starts(effort, report, scratch)
    cleared = conclude(report, arguments.only, arguments.json)
    print(f"\n{time.monotonic() - start:.0f} s")
    return 0 if cleared or not arguments.check else 1


if __name__ == "__main__":
    sys.exit(main())
