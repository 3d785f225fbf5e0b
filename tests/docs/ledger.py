"""Commands that `test_commands` does not type, and why: the one place for exceptions.

Whatever is not named here is typed as it stands on its page. Pages lose an exception by changing
its command: an entry that stands on no page fails `test_ledger`.
"""

from __future__ import annotations

from typing import NamedTuple

GUIDES = {
    "docs/byzantine.md": "tests/test_guides.py::test_the_guide_to_nodes_that_lie",
    "docs/dab.md": "tests/test_guides.py::test_the_guide_to_a_scheme",
    "docs/dashboard.md": "tests/docs/test_dashboard.py::test_the_guide_to_the_dashboard",
    "docs/devices.md": "tests/docs/test_devices.py::test_a_device_is_checked_from_elsewhere",
    "docs/failover.md": "tests/system/test_failover.py::test_the_guide",
    "docs/learning.md": "tests/test_guides.py::test_the_guide_to_training",
    "docs/med.md": "tests/test_guides.py::test_the_guide_to_many_tasks",
    "docs/staleness.md": "tests/test_guides.py::test_the_guide_to_staleness",
    "docs/subset-benchmarking.md": "tests/test_guides.py::test_the_guide_to_a_scheme",
    "docs/tutorial.md": "tests/docs/test_tutorial.py::test_the_tutorial",
}
"""Pages whose blocks of `axon` commands are typed by a test of their own, in their order."""

_DEPLOYED = "tests/docs/test_tutorial.py::test_the_tutorial"
_WORKER = "tests/cli/test_worker.py::test_a_real_worker_is_trained_on_and_stops_when_told"
_TWO_MACHINES = "tests/test_docs.py::test_two_machines"
_TASKS = "tests/test_guides.py::test_the_guide_to_many_tasks"
_DAB_EXAMPLE = "tests/test_examples.py::test_the_schemes_of_dab_are_compared"
_MED_EXAMPLE = "tests/test_examples.py::test_three_tasks_share_six_devices_and_a_budget"
_README = "tests/test_docs.py::test_the_taste_in_the_readme"
_FAILOVER = GUIDES["docs/failover.md"]
_ALL = "tests/cli/test_reproduce.py::test_all_of_them_make_one_page"
_PASSING = "tests/docs/test_passing.py::test_an_emulated_run_with_a_standby"
_LIAR = "tests/docs/test_passing.py::test_a_worker_that_lies_answers"

TYPED = {
    # With hosts that exist, at a free port.
    "axon train --hosts pi-1.local,pi-2.local --key my-keys/axon.key": _DEPLOYED,
    "axon keys new my-keys": _DEPLOYED,
    "axon worker --host 0.0.0.0 --key my-keys/axon.key": _DEPLOYED,
    "axon bench --link pi.local": _DEPLOYED,
    "axon worker --data mine.npz": _WORKER,
    "axon train --hosts pi-1.local --own-data": _WORKER,
    "axon worker --dynamic": _WORKER,
    "axon keys new my-keys --host pi.local --host 192.168.1.20": _TWO_MACHINES,
    "export AXON_KEY=my-keys/axon.key AXON_TLS=my-keys": _TWO_MACHINES,
    "axon call pi.local/rpc/simple_hello John": _TWO_MACHINES,
    "axon devices": _TWO_MACHINES,
    "axon devices --host https://pi.local": _TWO_MACHINES,
    "axon devices --watch": "tests/cli/test_devices.py::test_watching_prints_once_for_each_change",
    "curl -H 'content-type: application/json' -d '[\"John\"]' localhost:8000/rpc/simple_hello": (
        _README
    ),
    "curl -H 'content-type: application/json' -d '[\"John\"]' "
    "http://127.0.0.1:8000/rpc/simple_hello": _README,
    "axon train --dashboard": GUIDES["docs/dashboard.md"],
    "axon dashboard runs/a runs/b": GUIDES["docs/dashboard.md"],
    # With a store, and a run in it.
    "axon train --resume": GUIDES["docs/learning.md"],
    "axon train --failover --resume": _PASSING,
    "axon train --world emulated --store runs.sqlite --failover": _PASSING,
    "axon standby runs.sqlite": _PASSING,
    # With as many devices as the rule needs.
    "axon train --devices nanos-10 --aggregator multi-krum:2 --attack reversed --liars 2": GUIDES[
        "docs/byzantine.md"
    ],
    "axon worker --attack reversed": _LIAR,
    "axon worker --private": _LIAR,
    "axon worker --memory 100": _LIAR,
    # With experiments that take no time.
    "axon reproduce --all": _ALL,
    "axon reproduce --all --quick": _ALL,
    # Both stay until they are ended; their own test ends them.
    "axon orchestrate --budget 300 --store jobs.sqlite": _TASKS,
    "axon submit --name hasty --shards 30 --deadline-s 0.1": _TASKS,
    # With fewer cycles or repeats.
    "python examples/dab/main.py": _DAB_EXAMPLE,
    "python examples/dab/main.py --cycles 20 --deadline 15": _DAB_EXAMPLE,
    "python examples/dab/main.py [--cycles N] [--deadline S]": _DAB_EXAMPLE,
    "python examples/deadline/main.py [--cycles N]": "tests/test_docs.py::"
    "test_the_deadline_example",
    "python examples/med/main.py": _MED_EXAMPLE,
    "python examples/med/main.py --budget 90": _MED_EXAMPLE,
    "python examples/med/main.py [--cycles N] [--budget X]": _MED_EXAMPLE,
    "python examples/own/main.py": "tests/test_docs.py::test_the_own_example",
}
"""Commands that another test types, with other hosts, ports or numbers: program, subcommand and
options stand in that test, or in a block of the page that it types."""


class Called(NamedTuple):
    """A test that does what a command does without typing it, and why."""

    test: str
    reason: str


_MAKE = "its recipe in the Makefile installs first; the test runs what it then runs"
_EXPERIMENT = (
    "the test calls the experiment, shorter; tests/cli/test_reproduce.py types the command"
)

_LYING = {
    "gar-microbench": "gar_microbench.py::test_a_quick_look_is_whole",
    "byz-convergence": "byz_convergence.py::test_its_json_and_notes_are_whole",
    "byz-attacks": "byz_attacks.py::test_its_json_figure_and_notes_are_whole",
    "byz-cost": "byz_cost.py::test_a_quick_look_is_whole",
    "byz-scaling": "byz_scaling.py::test_a_short_run_is_whole",
}

CALLED = {
    "make hello": Called("tests/test_docs.py::test_the_hello_example", _MAKE),
    "make demo": Called("tests/test_docs.py::test_the_deadline_example", _MAKE),
    "make docs": Called(
        "tests/docs/test_site.py::test_every_page_is_there_and_in_the_navigation",
        _MAKE,
    ),
    "axon reproduce dab-deadline --quick": Called(
        "tests/experiments/test_dab_deadline.py::test_dab_keeps_the_deadline_and_csa_does_not",
        _EXPERIMENT,
    ),
    "axon reproduce dab-cycles --quick": Called(
        "tests/experiments/test_dab_cycles.py::"
        "test_its_rows_are_every_cycle_of_both_fleets_and_losses",
        _EXPERIMENT,
    ),
    "axon reproduce sb-runtime --quick": Called(
        "tests/experiments/test_sb_runtime.py::test_the_quick_look_has_every_claim_in_both_worlds",
        _EXPERIMENT,
    ),
    "axon reproduce sb-download": Called(
        "tests/experiments/test_sb_download.py::test_its_json_has_every_claim",
        _EXPERIMENT,
    ),
    "axon reproduce staleness": Called(
        "tests/experiments/test_staleness.py::test_its_json_has_every_claim",
        _EXPERIMENT,
    ),
    "axon reproduce async-accuracy": Called(
        "tests/experiments/test_async_accuracy.py::test_its_json_has_every_claim",
        _EXPERIMENT,
    ),
    "axon reproduce med-learners": Called(
        "tests/experiments/test_med_runs.py::test_a_short_run_is_whole",
        _EXPERIMENT,
    ),
    "axon reproduce med-tasks": Called(
        "tests/experiments/test_med_runs.py::test_a_short_run_is_whole",
        _EXPERIMENT,
    ),
    **{
        f"axon reproduce {name}{quick}": Called(f"tests/experiments/test_{test}", _EXPERIMENT)
        for name, test in _LYING.items()
        for quick in ("", " --quick")
    },
}
"""Commands that are shown by calling what is behind them, not typed."""

ELSEWHERE = TYPED | {command: each.test for command, each in CALLED.items()}

SHORTER = {
    "python examples/byzantine/main.py [--steps N] [--attack NAME]": (
        "python examples/byzantine/main.py --steps 5"
    ),
}
"""Commands that take a minute, and what `test_commands` types instead."""

_INSTALLS = "it installs, which every run of CI does with make, from a checkout"
_IS_CI = "it is what CI runs, or a part of it"
_MEASURES = "it measures for minutes, beside packages that tests do not install"
_ROOT = "it needs root, and changes the machine"
_DEVICE = "it exists on that device only"
_SECOND = "it needs a second machine"
_PATTERN = "it stands for many: a part of it is for the reader to fill in"
_BYTES = "bytes that are signed, no command"

NOWHERE = {
    "make test": _IS_CI,
    "make check": _IS_CI,
    "make bench": _MEASURES,
    ". .venv/bin/activate": "it changes the shell that types it",
    ". axon-venv/bin/activate": "it changes the shell that types it",
    "python3 -m venv axon-venv": _INSTALLS,
    "pip install axon-edge": _INSTALLS,
    "pip install 'axon-edge[learn]'": _INSTALLS,
    "pip install 'axon-edge[learn,notebook]'": _INSTALLS,
    "pip install 'axon-edge[postgres]'": _INSTALLS,
    "pip install 'axon-edge[figures]'": _INSTALLS,
    "python benchmarks/bench_rpc.py": _MEASURES,
    "python benchmarks/bench_round.py": _MEASURES,
    "python benchmarks/bench_simulation.py": _MEASURES,
    "python benchmarks/bench_med.py --quick": _MEASURES,
    "python benchmarks/bench_aggregation.py": _MEASURES,
    "python benchmarks/bench_kernels.py": "it needs a GPU",
    "axon train --discover": "it takes whoever announces himself on the network",
    "axon reproduce dab-deadline --repeats 1": "it trains on MNIST for an hour",
    "axon worker --accelerator cuda": "it needs a GPU",
    "axon worker --host 0.0.0.0 --key …": _PATTERN,
    "axon worker --task FILE": _PATTERN,
    "axon request body\\n": _BYTES,
    "axon response body\\n": _BYTES,
    "axon request": _BYTES,
    "axon response": _BYTES,
    "axon stream\\n": _BYTES,
    "scp my-keys/axon.key pi.local:": _SECOND,
    "ssh pi.local sudo install -D --owner=axon --mode=400 axon.key /etc/axon/axon.key": _SECOND,
    "ssh pi.local rm axon.key": _SECOND,
    "sudo apt install python3-venv avahi-daemon": _ROOT,
    "sudo apt install python3-venv": _ROOT,
    "sudo useradd --system axon": _ROOT,
    "sudo usermod --append --groups video,render axon": _ROOT,
    "sudo python3 -m venv /opt/axon": _ROOT,
    "sudo /opt/axon/bin/pip install 'axon-edge[learn]'": _ROOT,
    "/opt/axon/bin/python -c 'import torch; print(torch.cuda.is_available())'": _DEVICE,
    "vcgencmd get_throttled": _DEVICE,
    "vcgencmd measure_temp": _DEVICE,
    "sudo nvpmodel -q": _DEVICE,
    "sudo nvpmodel -m 0": _DEVICE,
    "sudo jetson_clocks": _DEVICE,
    "sudo cp axon-worker.service /etc/systemd/system/": _ROOT,
    "sudo systemctl daemon-reload": _ROOT,
    "sudo systemctl enable --now axon-worker": _ROOT,
    "systemctl status axon-worker": _ROOT,
    "journalctl --unit axon-worker --follow": _ROOT,
    "sudo ufw allow from 192.168.1.0/24 to any port 8000 proto tcp": _ROOT,
    "sudo ufw allow 5353/udp": _ROOT,
}
"""Commands that no test types, and the reason."""

MUST_SAY_SO = (_ROOT, _DEVICE, _SECOND)
"""Reasons for which a block has to tell the reader, in its title, that nobody has run it here."""

CODE_ELSEWHERE = {
    ("README.md", "axon.worker.init()"): _README,
    ("README.md", 'get_stub("127.0.0.1")'): _README,
    ("README.md", "import axon.testbed"): "tests/test_docs.py::"
    "test_the_taste_of_training_in_the_readme_is_the_guides",
    ("docs/learning.md", "model.npz"): GUIDES["docs/learning.md"],
    ("docs/learning.md", "records.jsonl"): GUIDES["docs/learning.md"],
    ("docs/learning.md", "import axon.testbed"): "tests/test_docs.py::"
    "test_the_taste_of_training_in_the_readme_is_the_guides",
    ("docs/byzantine.md", ""): GUIDES["docs/byzantine.md"],
    ("docs/dab.md", ""): GUIDES["docs/dab.md"],
    ("docs/failover.md", ""): _FAILOVER,
    ("docs/med.md", ""): GUIDES["docs/med.md"],
    ("docs/staleness.md", ""): GUIDES["docs/staleness.md"],
    ("docs/subset-benchmarking.md", ""): GUIDES["docs/subset-benchmarking.md"],
    ("docs/tutorial.md", ""): _DEPLOYED,
    ("docs/two-machines.md", "axon.worker.init"): _TWO_MACHINES,
    ("docs/two-machines.md", "get_stub"): "tests/docs/test_two_machines.py::"
    "test_calls_over_a_bad_link_and_to_many_devices",
    ("docs/two-machines.md", "duplex=True"): "tests/docs/test_two_machines.py::"
    "test_calls_over_a_bad_link_and_to_many_devices",
    ("docs/write-your-own.md", "--8<--"): "tests/test_docs.py::test_the_own_example",
}
"""Python blocks that another test runs: the page, and a text in them (all of the page's if empty).

Those that are not here are run by `test_commands`, in the order of their page.
"""
