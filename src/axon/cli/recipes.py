"""What `axon train` and `axon run` are told: a recipe's settings as options, and what is kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from axon.cli.notices import tell_of_beginning
from axon.cli.options import (
    NO_KEY_HINT,
    ActivityOption,
    BatchSizeOption,
    CyclesOption,
    DatasetOption,
    DevicesOption,
    DiscoverOption,
    EvaluateEveryOption,
    HostsOption,
    InsecureOption,
    KeyOption,
    LearningRateOption,
    ListenOption,
    OptimiserOption,
    OutOption,
    PassesOption,
    RecordsOption,
    SeedOption,
    ShardSamplesOption,
    TlsOption,
    WorldOption,
    given,
)
from axon.errors import ConfigurationError

# All that a run needs is imported in the functions that need it, so that `axon --help` is quick.
if TYPE_CHECKING:
    from axon.recipes.keeping import Keeping
    from axon.recipes.settings import Recipe
    from axon.rounds.checkpoint import Store
    from axon.rounds.remote import Hosting


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The fields of a `Recipe` that a person sets by hand, under the same names and defaults.

    They are written down again because a recipe's own module brings numpy, and the help should
    be quick; a test holds the two together.
    """

    task: Annotated[
        str, typer.Option(metavar="NAME", help="The net to train, or FILE.py:NAME of your own.")
    ] = "twonn"
    dataset: DatasetOption = "digits"
    world: WorldOption = "simulated"
    devices: DevicesOption = "thesis"
    hosts: HostsOption = None
    discover: DiscoverOption = False
    allocator: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="How work is shared: open, dab, equal, equal:60 in all, csa, synchronous, eta.",
        ),
    ] = "open"
    total_shards: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="What csa, synchronous and eta deal out in a cycle; all if left out."
        ),
    ] = None
    benchmark_shards: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Shards that devices benchmark themselves on before their first cycle; "
            "if left out, 8 where the allocator goes by it and else none.",
        ),
    ] = None
    dynamic: Annotated[
        bool,
        typer.Option("--dynamic", help="Let devices keep a margin that they learn from misses."),
    ] = False
    private: Annotated[
        list[str] | None,
        typer.Option(metavar="D,...", help="Devices that do not tell their speed. Repeatable."),
    ] = None
    selector: Annotated[
        str, typer.Option(metavar="NAME", help="Who takes part: everyone, some:0.5.")
    ] = "everyone"
    aggregator: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="How many updates become one: mean, median, krum:1; see --list."
        ),
    ] = "weighted-mean"
    step: Annotated[
        str, typer.Option(metavar="NAME", help="How the model takes it up: replace, momentum:0.9.")
    ] = "replace"
    codec: Annotated[str, typer.Option(metavar="NAME", help="How updates are packed.")] = "plain"
    own_data: Annotated[
        bool, typer.Option("--own-data", help="Let devices train on data of their own.")
    ] = False
    partition: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="How data are dealt out to keep: iid, dirichlet:0.3; not if empty."
        ),
    ] = ""
    activity: ActivityOption = "idle"
    attack: Annotated[
        str,
        typer.Option(metavar="NAME", help="What devices that lie send: reversed, random:0.1."),
    ] = ""
    liars: Annotated[
        int, typer.Option(metavar="N", help="How many devices lie, the last ones by name.")
    ] = 0
    cpu: Annotated[
        str, typer.Option(metavar="duty|quota", help="How processors are slowed, emulated.")
    ] = "duty"
    links: Annotated[
        str,
        typer.Option(metavar="shaped|namespaces|none", help="How links are slowed, emulated."),
    ] = "shaped"
    deadline_s: Annotated[
        float, typer.Option("--deadline", metavar="S", help="Seconds that a cycle may take.")
    ] = 1.0
    grace_s: Annotated[
        float,
        typer.Option(
            "--grace", metavar="S", help="Seconds after the deadline that answers are still taken."
        ),
    ] = 0.0
    cycles: CyclesOption = 10
    passes: PassesOption = 1
    shard_samples: ShardSamplesOption = None
    batch_size: BatchSizeOption = 32
    optimiser: OptimiserOption = None
    learning_rate: LearningRateOption = None
    momentum: Annotated[float, typer.Option(metavar="X", help="Of the learners' SGD.")] = 0.0
    quorum: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Good answers that end a cycle and are needed; if left out, all and 1.",
        ),
    ] = None
    evaluate_every: EvaluateEveryOption = 1
    seed: SeedOption = 0
    name: Annotated[str, typer.Option(metavar="NAME", help="What the run is kept under.")] = "run"

    def given(self, context: typer.Context) -> dict[str, Any]:
        """Those that stand on the command line, as a recipe's table has them."""
        table = {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if given(context, field.name)
        }
        for name in table.keys() & {"hosts", "private"}:
            words = ",".join(table[name]).split(",")
            table[name] = [word.strip() for word in words if word.strip()]
        return _in_its_world(table)


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """Where a run is kept, how it shows itself, and how real devices reach it."""

    out: OutOption = None
    store: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Keep the checkpoint there: a file, or postgresql://user@host/db."
        ),
    ] = None
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where the run kept there was left.")
    ] = False
    failover: Annotated[
        bool,
        typer.Option("--failover", help="Let `axon standby` take over if this process dies."),
    ] = False
    heartbeat_s: Annotated[
        float,
        typer.Option(
            "--heartbeat",
            metavar="S",
            help="Seconds between two signs of life; two without one, and a standby takes over.",
        ),
    ] = 1.0
    as_json: RecordsOption = False
    dashboard: Annotated[
        int | None,
        typer.Option(
            min=-1,
            max=65535,
            metavar="[PORT]",
            help="Show it as a web page too; --dashboard=PORT for a port of your own.",
        ),
    ] = None
    key: KeyOption = None
    tls: TlsOption = None
    listen: ListenOption = None
    insecure: InsecureOption = False

    def keeping(self) -> Keeping:
        """Where the run is kept, and whether others stand by."""
        from axon.recipes.keeping import Keeping
        from axon.rounds.standby import Candidacy

        candidacy = None
        if self.failover:
            candidacy = Candidacy(heartbeat_s=self.heartbeat_s, eager=True)
        return Keeping(out=self.out, store=self.store, resume=self.resume, candidacy=candidacy)

    def hosting(self, recipe: Recipe) -> Hosting:
        """Where the orchestrator offers its data to real devices."""
        from axon.rounds.remote import Hosting
        from axon.rpc.address import Address

        tls = None if self.tls is None else str(self.tls)
        hosting = Hosting(key=self.key, tls=tls, insecure=self.insecure)
        if recipe.world != "deployed":
            return hosting
        if self.listen is not None:
            where = Address.parse(self.listen, port=0)
        else:
            hosts = [Address.parse(host, tls=tls is not None) for host in recipe.hosts]
            near = not recipe.discover and all(host.is_loopback for host in hosts)
            where = Address("127.0.0.1" if near else "0.0.0.0", 0)  # noqa: S104  (with a key)
        if not (where.is_loopback or self.key or self.insecure):
            raise ConfigurationError(
                "devices on other machines fetch their data from this one, which needs a key",
                hint=NO_KEY_HINT,
            )
        return replace(hosting, host=where.host, port=where.port)


def recipe_from_table(table: Mapping[str, Any]) -> Recipe:
    """The recipe of a table in which hosts may stand for the deployed world."""
    from axon.recipes.settings import recipe_from

    return recipe_from(_in_its_world(table))


def _in_its_world(table: Mapping[str, Any]) -> dict[str, Any]:
    """Who names devices means to train on them, unless another world is asked for."""
    if "world" not in table and (table.get("hosts") or table.get("discover")):
        return {**table, "world": "deployed"}
    return dict(table)


def taken_up(table: Mapping[str, Any], keeping: Keeping) -> Recipe:
    """The recipe to run: the table's, or on resuming the one that is kept there.

    A kept run goes on as it began. Raises `ConfigurationError` for settings of the table that say
    otherwise; the number of cycles alone may change.
    """
    from axon.recipes.keeping import begun_as

    if not keeping.resume:
        return recipe_from_table(table)
    with _kept(keeping) as store:
        name = _name(table, keeping, store)
        wanted = recipe_from_table({**table, "name": name})
        saved = begun_as(store, name, keeping.out)
    if saved is None:
        tell_of_beginning(wanted.name, keeping)
        return wanted
    chosen = sorted(set(table) - {"cycles"})
    changed = [name for name in chosen if getattr(wanted, name) != getattr(saved, name)]
    if changed:
        raise ConfigurationError(
            f"run {saved.name} was begun with other settings: "
            + ", ".join(_difference(name, wanted, saved) for name in changed),
            hint="leave them out to go on as it began, or begin a run of another name",
        )
    return replace(saved, cycles=wanted.cycles) if "cycles" in table else saved


def _difference(name: str, wanted: Recipe, saved: Recipe) -> str:
    there = getattr(saved, name)
    was = "was left out there" if there is None else f"was {there!r} there"
    return f"{name} is {getattr(wanted, name)!r} here and {was}"


@contextmanager
def _kept(keeping: Keeping) -> Iterator[Store | None]:
    """The store that is there already; none is made to look into."""
    from axon.recipes.keeping import CHECKPOINT
    from axon.rounds.checkpoint import open_store

    where = keeping.store
    if where is None and keeping.out is not None and (keeping.out / CHECKPOINT).is_file():
        where = str(keeping.out / CHECKPOINT)
    if where is None:
        yield None
        return
    with closing(open_store(where)) as store:
        yield store


def _name(table: Mapping[str, Any], keeping: Keeping, store: Store | None) -> str:
    """Which run is meant: the one that is named, or the one that the folder or the store keeps."""
    from axon.recipes.keeping import CONFIGURATION, kept_name
    from axon.recipes.settings import read_recipe

    if "name" in table:
        return str(table["name"])
    file = None if keeping.out is None else keeping.out / CONFIGURATION
    if file is not None and file.is_file():
        # A damaged one is no loss while the store knows the run.
        with suppress(ConfigurationError):
            return read_recipe(file).name
    return (None if store is None else kept_name(store)) or Settings().name
