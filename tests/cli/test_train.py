"""`axon train`: what it makes of its options, what it prints, keeps and takes up."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from axon.cli.recipes import Settings, Surroundings, taken_up
from axon.errors import ConfigurationError, QuorumNotReached
from axon.recipes import runner
from axon.recipes.keeping import Keeping
from axon.recipes.settings import Recipe, read_recipe
from axon.report.records import read
from tests.cli.scenes import SMALL, Shell

FILES = {"records.jsonl", "run.toml", "checkpoint.sqlite", "model.npz"}


def test_options_are_a_recipes_fields_with_the_same_defaults() -> None:
    recipe = dataclasses.asdict(Recipe())
    own_devices = recipe.pop("device")  # A table of tables, which only a file can hold.
    assert own_devices == {}
    options = {field.name: field.default for field in dataclasses.fields(Settings)}
    assert options == recipe | {"hosts": None, "private": None}


def test_a_cycle_is_a_line_and_the_end_a_table(shell: Shell) -> None:
    ended = shell("train", *SMALL)
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert [line.split("  ")[0] for line in lines[:2]] == ["cycle 1/2", "cycle 2/2"]
    assert "4 batches" in lines[0]
    assert lines[2].split() == [
        "DEVICE", "USED", "BATCHES", "LATE", "DECLINED", "REFUSED", "FAILED"
    ]  # fmt: skip
    assert lines[3].split() == ["jetson-nano", "2", "4", "0", "0", "0", "0"]
    assert lines[4].split() == ["pi-1", "2", "4", "0", "0", "0", "0"]
    assert lines[5].startswith("accuracy 0.")
    assert lines[5].endswith("s in the simulated world; not kept")


def test_json_is_the_records_and_nothing_else(shell: Shell, tmp_path: Path) -> None:
    ended = shell("train", *SMALL, "--json", "--out", tmp_path / "a")
    assert ended.out == (tmp_path / "a" / "records.jsonl").read_text()
    assert [json.loads(line)["cycle"] for line in ended.out.splitlines()] == [1, 2]


def test_the_same_seed_gives_the_same_bytes_and_another_does_not(
    shell: Shell, tmp_path: Path
) -> None:
    def records(name: str, seed: int) -> bytes:
        shell("train", "--world", "simulated", *SMALL, "--seed", seed, "--out", tmp_path / name)
        return (tmp_path / name / "records.jsonl").read_bytes()

    first = records("a", 7)
    assert first.count(b"\n") == 2
    assert records("b", 7) == first
    assert records("c", 8) != first


def test_resuming_what_is_complete_changes_nothing(shell: Shell, tmp_path: Path) -> None:
    out = tmp_path / "a"
    assert shell("train", *SMALL, "--out", out).code == 0
    before = {name: (out / name).read_bytes() for name in FILES}
    ended = shell("train", "--out", out, "--resume")
    assert ended.code == 0
    assert f"after 2 cycles, {read(out / 'records.jsonl')[-1].ended_s:.2f} s" in ended.out
    assert {name: (out / name).read_bytes() for name in FILES} == before


def test_resuming_with_more_cycles_is_as_if_there_had_been_no_pause(
    shell: Shell, tmp_path: Path
) -> None:
    shell("train", *SMALL, "--name", "long", "--cycles", 4, "--out", tmp_path / "whole")
    shell("train", *SMALL, "--name", "long", "--out", tmp_path / "parts")
    # The folder knows the name and the settings of its run.
    ended = shell("train", "--cycles", 4, "--out", tmp_path / "parts", "--resume")
    assert [line.split("  ")[0] for line in ended.out.splitlines()[:2]] == [
        "cycle 3/4",
        "cycle 4/4",
    ]
    whole, parts = ((tmp_path / name / "records.jsonl").read_bytes() for name in ("whole", "parts"))
    assert whole == parts


def test_resuming_where_nothing_was_saved_starts_from_the_beginning(
    shell: Shell, tmp_path: Path
) -> None:
    ended = shell("train", *SMALL, "--out", tmp_path / "new", "--resume")
    assert (ended.code, ended.out.splitlines()[0][:9]) == (0, "cycle 1/2")
    place = tmp_path / "new"
    notice = f"axon: nothing is kept in {place} under the name 'run'; beginning anew\n"
    assert ended.err == notice
    assert shell("train", *SMALL, "--out", place, "--resume").err == ""


def test_resuming_otherwise_than_begun_names_what_differs(shell: Shell, tmp_path: Path) -> None:
    shell("train", *SMALL, "--out", tmp_path)
    ended = shell(
        "train", "--out", tmp_path, "--resume", "--seed", 3, "--devices", "pair", "--deadline", 9
    )
    assert (ended.code, ended.out) == (2, "")
    assert "deadline_s is 9.0 here and was 1.0 there, seed is 3 here and was 0 there" in ended.err
    assert "devices" not in ended.err


def test_a_run_that_is_there_is_not_begun_again(shell: Shell, tmp_path: Path) -> None:
    shell("train", *SMALL, "--out", tmp_path)
    ended = shell("train", *SMALL, "--out", tmp_path)
    assert ended.code == 7
    assert "--resume" in ended.err


def test_a_store_keeps_a_run_too(shell: Shell, tmp_path: Path) -> None:
    where = f"sqlite:///{tmp_path}/runs.db"
    assert where in shell("train", *SMALL, "--store", where, "--name", "one").out
    ended = shell("train", "--store", where, "--name", "one", "--resume", "--cycles", 3)
    assert ended.out.startswith("cycle 3/3")


@pytest.mark.parametrize(
    "scheme",
    [
        "dab --benchmark-shards 4 --dynamic --activity heated:0.5 --deadline 5",
        "csa --total-shards 6 --private pi-1 --grace 0.1",
    ],
    ids=["dab", "csa"],
)
def test_schemes_that_ask_are_taken_up_as_if_there_had_been_no_pause(
    scheme: str, shell: Shell, tmp_path: Path
) -> None:
    words = ["--devices", "pair", "--allocator", *scheme.split()]
    shell("train", *words, "--cycles", 3, "--out", tmp_path / "whole")
    shell("train", *words, "--cycles", 1, "--out", tmp_path / "parts")
    ended = shell("train", "--cycles", 3, "--out", tmp_path / "parts", "--resume")
    assert (ended.code, ended.err) == (0, "")
    whole, parts = ((tmp_path / name / "records.jsonl").read_bytes() for name in ("whole", "parts"))
    assert whole == parts
    again = shell("run", tmp_path / "whole" / "run.toml", "--json").out
    assert again.encode() == whole
    told = json.loads(again.splitlines()[0])["devices"]
    statuses = {device["device"]: device["status"] for device in told}
    refused = "declined" if "--private" in words else "used"
    assert statuses == {"jetson-nano": "used", "pi-1": refused}


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--task", "nonn"], "no net is called 'nonn'"),
        (["--dataset", "letters"], "no data set 'letters'"),
        (["--devices", "toaster"], "'toaster'"),
        (["--devices", "pi-1*99999999999999999999"], "at most 100,000"),
        (["--task", "..:x"], "'..:x' names no module"),
        (["--hosts", "[::1"], "'[::1' is no address: Invalid IPv6 URL"),
        (["--hosts", "127.0.0.1", "--listen", "256.1.1.1"], "'256.1.1.1' is no host"),
        (["--deadline", "-1"], "deadline_s must be"),
        (["--cycles", "0"], "cycles must be"),
        (["--world", "mars"], "mars"),
        (["--cpu", "half"], "half"),
        (["--allocator", "unfair"], "no allocator is called 'unfair'"),
        (["--allocator", "csa:quick"], "csa has no method 'quick'"),
        (["--allocator", "csa", "--benchmark-shards", "0"], "csa goes by"),
        (["--allocator", "csa", "--partition", "iid"], "csa deals out data"),
        (["--allocator", "dab", "--total-shards", "9"], "dab deals out no total of 9 shards"),
        (["--private", "toaster"], "private names 'toaster', which is no device"),
        (["--hosts", "127.0.0.1", "--private", "a"], "axon worker --private"),
        (["--attack", "reversed"], "attack 'reversed' and 0 liars (give both"),
        (["--attack", "reversed", "--liars", "5"], "5 of 4 devices cannot lie"),
        (["--attack", "nobody", "--liars", "1"], "no attack is called 'nobody'"),
        (["--attack", "mimic", "--liars", "1"], "`axon reproduce byz-attacks`"),
        (["--hosts", "127.0.0.1", "--attack", "drop"], "axon worker --attack"),
        (["--liars", "-1"], "liars must be"),
        (["--grace", "-1"], "grace_s must be"),
        (["--optimiser", "guess"], "no optimiser is called 'guess'"),
        (["--codec", "morse"], "no codec 'morse'"),
        (["--hosts", ",", "--world", "deployed"], "at least one device"),
        (["--resume"], "nothing to resume"),
        (["--hosts", "pi.local"], "pass --key"),
        (["--discover"], "pass --key"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_meant_is_one_line(words: list[str], part: str, shell: Shell) -> None:
    ended = shell("train", *words)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("axon: ")
    assert ended.err.count("\n") == 1
    assert part in ended.err


def test_who_lies_is_said_and_kept(shell: Shell, tmp_path: Path) -> None:
    words = ["--attack", "sign-flip", "--liars", "1"]
    ended = shell("train", *SMALL, *words, "--out", tmp_path / "a")
    assert (ended.code, ended.err) == (0, "axon: these devices lie (sign-flip): pi-1\n")
    honest = shell("train", *SMALL, "--json")
    assert ended.out.splitlines()[3:5] == shell("train", *SMALL).out.splitlines()[3:5]
    lying = (tmp_path / "a" / "records.jsonl").read_text()
    assert lying != honest.out
    assert shell("run", tmp_path / "a" / "run.toml", "--json").out == lying


def test_a_mistake_does_not_take_the_folder(shell: Shell, tmp_path: Path) -> None:
    assert shell("train", *SMALL, "--task", "nonn", "--out", tmp_path).code == 2
    assert shell("train", *SMALL, "--out", tmp_path).code == 0


def test_the_list_shows_what_the_tables_know(shell: Shell) -> None:
    ended = shell("train", "--list")
    assert ended.code == 0
    known = "twonn digits jetson-nano thesis weighted-mean half adam reversed little-is-enough"
    for name in known.split():
        assert name in ended.out.replace(",", " ").split()


def test_without_torch_it_says_what_to_install(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    for command in (["train"], ["run", "x.toml"], ["worker"], ["bench"]):
        ended = shell(*command)
        assert ended.code == 2
        assert ended.err == "axon: learning needs torch (pip install 'axon-edge[learn]')\n"


@pytest.fixture
def instead(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], list[Recipe]]:
    """Let a run end with an error; gives the recipes it was asked for."""
    asked: list[Recipe] = []

    def arrange(error: BaseException) -> list[Recipe]:
        def run_recipe(recipe: Recipe, *arguments: Any, **keywords: Any) -> None:
            asked.append(recipe)
            raise error

        monkeypatch.setattr(runner, "run_recipe", run_recipe)
        return asked

    return arrange


def test_an_interrupt_says_how_to_go_on(
    shell: Shell, instead: Callable[[BaseException], list[Recipe]]
) -> None:
    instead(KeyboardInterrupt())
    ended = shell("train", "--out", "my runs", "--seed", 4)
    assert ended.code == 130
    assert ended.err == ("axon: interrupted; go on with: axon train --resume --out 'my runs'\n")
    assert shell("train", "--seed", 4).err == ""
    assert shell("train", "--store", "runs.db").err.endswith(" --store runs.db --name run\n")


def test_too_few_answers_are_one_line_with_names_and_reasons(
    shell: Shell, instead: Callable[[BaseException], list[Recipe]]
) -> None:
    instead(QuorumNotReached(wanted=2, got=0, hint="pi-1: cannot be reached; pi-2: no \x1b[2Jtime"))
    ended = shell("train")
    assert (ended.code, ended.err.count("\n")) == (6, 1)
    assert "pi-1: cannot be reached; pi-2: no [2Jtime" in ended.err


def test_hosts_mean_the_deployed_world(
    shell: Shell, instead: Callable[[BaseException], list[Recipe]]
) -> None:
    asked = instead(KeyboardInterrupt())
    shell("train", "--host", "127.0.0.1:1", "--hosts", "localhost:2, 127.0.0.1:3")
    shell("train", "--hosts", "127.0.0.1:1", "--world", "simulated")
    assert (asked[0].world, asked[1].world) == ("deployed", "simulated")
    assert asked[0].hosts == ("127.0.0.1:1", "localhost:2", "127.0.0.1:3")


def test_devices_that_keep_to_themselves_are_named_one_by_one_or_in_a_list(
    shell: Shell, instead: Callable[[BaseException], list[Recipe]]
) -> None:
    asked = instead(KeyboardInterrupt())
    shell("train", "--private", "pi-1, pi-2", "--private", "pi-3", "--dynamic", "--grace", 0.5)
    assert asked[0].private == ("pi-1", "pi-2", "pi-3")
    assert (asked[0].dynamic, asked[0].grace_s) == (True, 0.5)


@pytest.mark.parametrize(
    ("words", "unread"),
    [
        (
            ["--listen", "127.0.0.1", "--key", "k"],
            "the simulated world does not read --listen, --key",
        ),
        (["--tls", "t", "--insecure"], "the simulated world does not read --tls, --insecure"),
        (["--own-data", "--cpu", "duty"], "the simulated world does not read --cpu, --own-data"),
        (["--own-data", "--partition", "iid"], ""),
        (
            ["--world", "emulated", "--links", "none", "--hosts", "pi"],
            "the emulated world does not read --hosts",
        ),
        (["--hosts", "127.0.0.1", "--key", "k", "--own-data"], ""),
        (
            ["--hosts", "127.0.0.1", "--devices", "pair", "--links", "none"],
            "the deployed world does not read --devices, --links",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_options_that_the_world_does_not_read_are_named(
    words: list[str],
    unread: str,
    shell: Shell,
    instead: Callable[[BaseException], list[Recipe]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    instead(KeyboardInterrupt())
    monkeypatch.setenv("AXON_KEY", "k")  # Set for all runs, it is no mistake in one of them.
    assert shell("train", *words).err == (f"axon: {unread}\n" if unread else "")


@pytest.mark.parametrize(
    ("around", "hosts", "expected"),
    [
        ({}, ("127.0.0.1:8000", "localhost"), ("127.0.0.1", 0)),
        ({"key": Path("k")}, ("127.0.0.1:8000",), ("127.0.0.1", 0)),
        ({"key": Path("k")}, ("127.0.0.1:8000", "pi.local"), ("0.0.0.0", 0)),
        ({"insecure": True}, ("pi.local",), ("0.0.0.0", 0)),
        ({"listen": "10.0.0.7:99", "key": Path("k")}, ("127.0.0.1",), ("10.0.0.7", 99)),
        ({"listen": "127.0.0.1"}, ("pi.local",), ("127.0.0.1", 0)),
    ],
)
def test_devices_fetch_from_where_they_can_reach(
    around: dict[str, Any], hosts: tuple[str, ...], expected: tuple[str, int]
) -> None:
    hosting = Surroundings(**around).hosting(Recipe(world="deployed", hosts=hosts))
    assert (hosting.host, hosting.port) == expected


def test_an_open_port_needs_a_key() -> None:
    with pytest.raises(ConfigurationError, match="axon keys new"):
        Surroundings(listen="0.0.0.0").hosting(Recipe(world="deployed", hosts=("127.0.0.1",)))


def test_a_kept_run_goes_on_for_as_many_cycles_as_it_began_with(tmp_path: Path) -> None:
    keeping = Keeping(out=tmp_path, resume=True)
    begun = Recipe(devices="pair", allocator="equal:2", cycles=1, name="mine")
    runner.run_recipe(begun, keeping)
    assert read_recipe(tmp_path / "run.toml") == begun
    assert taken_up({}, keeping) == begun
    assert taken_up({"cycles": 3}, keeping) == dataclasses.replace(begun, cycles=3)
    assert taken_up({"devices": "pair"}, keeping) == begun
