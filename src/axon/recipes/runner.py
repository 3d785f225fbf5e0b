"""A recipe, done: in its world, kept where it is told to be kept."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from axon.data.datasets import Dataset, load
from axon.errors import QuorumNotReached
from axon.learning.optimisers import functional
from axon.learning.tasks import default_spec, load_tasks
from axon.recipes.keeping import Keeping, Kept, kept_run
from axon.recipes.schemes import scheme_of
from axon.recipes.settings import Recipe
from axon.recipes.worlds import AnyWorld, is_own_task, world_of
from axon.rounds.events import Event
from axon.rounds.fleet import Fleet
from axon.rounds.orchestrator import Orchestrator
from axon.rounds.remote import Hosting
from axon.rounds.settings import Run
from axon.rounds.standby import Standby
from axon.testbed.simulation import Simulated
from axon.values import RoundRecord, TaskSpec, Vector


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to."""

    records: list[RoundRecord]
    """Of all its cycles, those before a resumption too."""
    spec: TaskSpec
    parameters: Vector


def run_recipe(
    recipe: Recipe,
    keeping: Keeping | None = None,
    *,
    hosting: Hosting | None = None,
    listen: Callable[[Event], None] | None = None,
) -> Outcome:
    """Do a recipe from its beginning, or from where it was left."""
    keeping = keeping or Keeping()
    with kept_run(recipe, keeping) as kept:
        recipe = kept.recipe
        dataset = load(recipe.dataset, seed=recipe.seed)
        run, scheme = run_of(recipe, dataset), scheme_of(recipe)
        world = world_of(recipe, hosting)
        # Not before all of it could be made: a mistake must not take the folder for ever.
        kept.begin(keeping)

        async def main(fleet: Fleet) -> Vector:
            parts, hear = (run, dataset, fleet, scheme), kept.listening(listen)
            if keeping.candidacy is None or kept.store is None:
                orchestrator = Orchestrator(*parts, store=kept.store, listen=hear)
                await orchestrator.run()
                return orchestrator.parameters
            standby = Standby(
                *parts,
                store=kept.store,
                candidacy=keeping.candidacy,
                listen=hear,
                prepare=kept.take_over,
            )
            kept.catch_up(await standby.run())
            return standby.parameters

        try:
            parameters = _in_world(world, main, kept)
        except QuorumNotReached as error:
            kept.write_failure(error)
            raise
        kept.write_model(run.spec, parameters)
        return Outcome(kept.records, run.spec, parameters)


def spec_of(recipe: Recipe, dataset: Dataset) -> TaskSpec:
    """The task, sized to the data set."""
    net = load_tasks(recipe.task) if is_own_task(recipe.task) else recipe.task
    chosen = {
        "batch_size": recipe.batch_size,
        "momentum": recipe.momentum,
        "optimiser": recipe.optimiser,
        "learning_rate": recipe.learning_rate,
    }
    changes = {key: value for key, value in chosen.items() if value is not None}
    spec = default_spec(net, dataset.shape, dataset.classes, **changes)
    functional(spec)  # An optimiser that does not exist is one mistake, not one of every learner.
    return spec


def run_of(recipe: Recipe, dataset: Dataset) -> Run:
    """The run, without its world and scheme."""
    return Run(
        spec=spec_of(recipe, dataset),
        cycles=recipe.cycles,
        deadline_s=recipe.deadline_s,
        grace_s=recipe.grace_s,
        shard_samples=recipe.samples_in_shard,
        name=recipe.name,
        seed=recipe.seed,
        quorum=recipe.quorum,
        own_data=recipe.own_data or bool(recipe.partition),
        evaluate_every=recipe.evaluate_every,
    )


def _in_world(world: AnyWorld, main: Callable[[Fleet], Awaitable[Vector]], kept: Kept) -> Vector:
    if isinstance(world, Simulated):
        # Virtual time goes on where it stopped, so that a resumed run reckons the same floats.
        return world.run(main, start_s=kept.clock_s)
    return world.run(main)
