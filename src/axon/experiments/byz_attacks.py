"""What lying nodes do to three systems, and to every rule (GARFIELD, Fig. 3.5).

First as in the paper: one worker and one server lie, by noise, by what is turned round and
amplified, or by silence. Then every rule against every attack, with one trusted server.
"""

from __future__ import annotations

from dataclasses import replace

from axon.aggregation import RULES, Mean
from axon.attacks import ATTACKS, attack_of
from axon.data.datasets import Dataset
from axon.experiments.byz_attacks_claims import (
    BASELINES,
    BORNE,
    DROP,
    LOUD,
    MEAN,
    NONE,
    OURS,
    Found,
    claims_of,
)
from axon.experiments.byzantine_world import (
    ATTACKED,
    BATCH,
    LEARNING_RATE,
    MOMENTUM,
    NET,
    SYSTEMS,
    System,
    Trial,
    curve,
    data,
    last,
    measure,
    repeats_of,
)
from axon.experiments.result import Result, Row, line
from axon.experiments.runs import seeds
from axon.experiments.settings import Settings
from axon.intervals import mean_interval
from axon.report.figures import Figure, Panel, Series
from axon.report.tables import Cell
from axon.topology import single_server, vanilla

NAME = "byz-attacks"
STEPS, REPEATS = 100, 5
QUICK_STEPS, QUICK_REPEATS = 20, 2
RULE_STEPS, RULE_REPEATS = 50, 2
QUICK_RULE_STEPS, QUICK_RULE_REPEATS = 10, 1
COMMON = 2
"""Workers that lie to every rule: as many as the one that needs most others, Bulyan, allows."""
# Silence hurts nobody's rule: whoever waits for all waits for ever, whatever the rule.
ON_RULES = tuple(name for name in ATTACKS if name != DROP)
QUICK_RULES, QUICK_ON_RULES = ("median", "krum", "bulyan"), (*LOUD, "little-is-enough")

SERVERS = (
    f"{ATTACKED.workers} workers, of which 1 lies, as in the paper, and {ATTACKED.servers} "
    "servers, of which 1 lies, where the paper has 3: one liar among servers that do not wait for "
    "all takes 3f + 1 = 4. The lying server of crash-tolerant is the one that workers follow; the "
    "only server of vanilla is trusted."
)


def run(settings: Settings) -> Result:
    """Let nodes lie to systems and to rules, and hold what is said of them to it."""
    dataset, note = data(settings)
    repeats = settings.repeated(REPEATS, QUICK_REPEATS)
    steps = QUICK_STEPS if settings.quick else STEPS
    found = Found(
        systems=measure(_systems(dataset, steps, seeds(settings, repeats)), settings),
        rules=measure(_rules(dataset, settings), settings),
        workers=ATTACKED.workers,
        classes=dataset.classes,
    )
    notes = (note, SERVERS, _trained(steps), _table(settings), *_weaknesses(found))
    return Result(
        name=NAME,
        title="Three systems and every rule, with nodes that lie",
        claims=claims_of(found),
        rows=(*_system_rows(found), *_rule_rows(found)),
        figure=_figure(found),
        repeats=repeats,
        dataset=dataset.name,
        notes=tuple(filter(None, notes)),
    )


def _systems(dataset: Dataset, steps: int, chosen: list[int]) -> dict[tuple[str, str], list[Trial]]:
    trials = {}
    for name in (*BASELINES, OURS):
        system = SYSTEMS[name](ATTACKED)
        for attack in (NONE, *LOUD, DROP):
            trial = Trial(
                system=system,
                dataset=dataset,
                steps=steps,
                attack=None if attack == NONE else attack_of(attack),
                lying_workers=ATTACKED.faulty_workers,
                lying_servers=ATTACKED.faulty_servers if len(system.topology.servers) > 1 else 0,
            )
            trials[name, attack] = repeats_of(trial, chosen)
    return trials


def _rules(dataset: Dataset, settings: Settings) -> dict[tuple[str, int, str], list[Trial]]:
    names = QUICK_RULES if settings.quick else tuple(RULES)
    attacks = QUICK_ON_RULES if settings.quick else ON_RULES
    steps = QUICK_RULE_STEPS if settings.quick else RULE_STEPS
    trials = {}
    for name in (MEAN, *names):
        for lying in (COMMON,) if name == MEAN else sorted({COMMON, most_lying(name)}):
            trial = Trial(
                system=alone(name, lying),
                dataset=dataset,
                steps=steps,
                every=steps,
                lying_workers=lying,
            )
            for attack in (NONE, *attacks):
                worn = None if attack == NONE else attack_of(attack)
                trials[name, lying, attack] = repeats_of(
                    replace(trial, attack=worn), seeds(settings, _rule_repeats(settings))
                )
    return trials


def most_lying(rule: str) -> int:
    """The most of the workers that may lie to a rule which hears all of them."""
    workers = ATTACKED.workers
    return max(f for f in range(workers) if RULES[rule](f).least <= workers)


def alone(rule: str, lying: int) -> System:
    """One trusted server that waits for all workers and aggregates by that rule."""
    workers = ATTACKED.workers
    if rule == MEAN:
        return System(name=rule, topology=vanilla(workers), rule=Mean(), model_rule=Mean())
    return System(
        name=rule,
        topology=single_server(workers, faulty=lying, synchronous=True),
        rule=RULES[rule](lying),
        model_rule=Mean(),
        told=rule,
    )


def _rule_repeats(settings: Settings) -> int:
    """Few: a rule that gives way does so by many points."""
    return min(settings.repeated(RULE_REPEATS, QUICK_RULE_REPEATS), RULE_REPEATS)


def _system_rows(found: Found) -> list[Row]:
    rows: list[Row] = []
    for name in (*BASELINES, OURS):
        system = SYSTEMS[name](ATTACKED)
        servers = " and 1 server" if len(system.topology.servers) > 1 else ""
        cells: dict[str, Cell] = {
            "system": name,
            "rule": system.told,
            "lying": f"1 worker{servers}",
        }
        for attack in (NONE, *LOUD, DROP):
            cells[f"{attack} [%]"] = mean_interval(last(found.systems[name, attack]))
        rows.append(cells)
    return rows


def _rule_rows(found: Found) -> list[Row]:
    rows: list[Row] = []
    for rule, lying in dict.fromkeys((rule, lying) for rule, lying, _ in found.rules):
        attacks = [attack for name, f, attack in found.rules if (name, f) == (rule, lying)]
        cells: dict[str, Cell] = {
            "system": "one server",
            "rule": rule,
            "lying": f"{lying} workers",
        }
        for attack in attacks:
            cells[f"{attack} [%]"] = min(last(found.rules[rule, lying, attack]))
        borne = len(attacks) - 1 - len(found.not_borne(rule, lying))
        rows.append(cells | {"borne": f"{borne} of {len(attacks) - 1}"})
    return rows


def _figure(found: Found) -> Figure:
    """As the paper's: a panel for each attack."""
    panels = []
    for attack in LOUD:
        lines = [_line(found, name, attack, name) for name in (*BASELINES, OURS)]
        free = replace(_line(found, OURS, NONE, f"{OURS}, nobody lies"), style="dashed")
        panels.append(Panel(attack, "steps", "accuracy [%]", (*lines, free)))
    return Figure("Accuracy with a lying worker and a lying server", tuple(panels))


def _line(found: Found, system: str, attack: str, label: str) -> Series:
    courses = found.systems[system, attack]
    return line(label, curve(courses), courses[0].steps)


def _trained(steps: int) -> str:
    return (
        f"{NET} in place of CifarNet, {steps} steps in place of 20 epochs, with SGD at "
        f"{LEARNING_RATE:g}, a momentum of {MOMENTUM:g} and batches of {BATCH}. Accuracies are "
        "those of the honest server that is worst off. MSMW aggregates models by their median."
    )


def _table(settings: Settings) -> str:
    steps = QUICK_RULE_STEPS if settings.quick else RULE_STEPS
    repeats = _rule_repeats(settings)
    runs = f"the lowest of {repeats} runs" if repeats > 1 else "one run each"
    return (
        f"Rules: one trusted server that waits for all {ATTACKED.workers} workers, {steps} steps, "
        f"{runs}. A rule knows how many lie: {COMMON}, which every rule allows, and the most it "
        "allows itself. Attacks are as strong as they are by default. Borne is what costs at most "
        f"{BORNE:g} points in each run against the same rule with nobody lying. Workers have "
        "samples of all classes alike; other divisions were not tried."
    )


def _weaknesses(found: Found) -> list[str]:
    """Which rules gave way to what."""
    told = []
    for rule, lying in dict.fromkeys((rule, lying) for rule, lying, _ in found.rules):
        failing = found.not_borne(rule, lying)
        if failing:
            told.append(f"{rule} ({lying}): {', '.join(failing)}")
    return [f"Not borne, by rule and liars: {'; '.join(told)}."] if told else []
