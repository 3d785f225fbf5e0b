"""A worker computes once a step for everybody, whatever it is asked; sources of its models."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import numpy as np
import pytest

from axon.aggregation import Median
from axon.byzantine.board import GRADIENT, MODEL, Absent, Board
from axon.byzantine.computing import Charged, Threaded
from axon.byzantine.gradients import batch, gradient
from axon.byzantine.quorum import Terms
from axon.byzantine.sources import FromOne, FromPrimary, FromQuorum, Own, Source
from axon.byzantine.worker import Worker
from axon.errors import ConfigurationError, ConnectFailed, Overloaded, QuorumNotReached
from axon.learning.nets import initial
from axon.seeds import derive
from axon.testbed import virtual
from axon.values import Vector
from tests.byzantine.worlds import DIGITS, SPEC, answering, vector

START = initial(SPEC, 0)
OWN = DIGITS.train.take(slice(0, 100))


@dataclass
class Models:
    """A source that has the models of some steps and counts what it is asked."""

    reached: int = 1000
    asked: list[int] = field(default_factory=list)

    async def model(self, step: int) -> Vector:
        self.asked.append(step)
        if step > self.reached:
            await asyncio.sleep(60.0)
            raise QuorumNotReached(wanted=1, got=0)
        return START


def worker(source: Source, *, window: int = 4, gradient_s: float = 0.0) -> Worker:
    charged = Charged(lambda _: gradient_s)
    return Worker("pi", SPEC, OWN, source, charged, seed=7, window=window)


def test_everybody_gets_the_same_gradient_of_one_computation() -> None:
    async def main() -> None:
        models = Models()
        pi = worker(models, gradient_s=2.0)
        readers = [asyncio.ensure_future(pi.read(GRADIENT, 5)) for _ in range(4)]
        await asyncio.sleep(1.0)
        readers[0].cancel()  # Who leaves does not stop it for the others.
        first, *others = await asyncio.gather(*readers[1:])
        assert models.asked == [5]
        assert pi.computing_s == {5: 2.0}
        rows = batch(7, "pi", 5, len(OWN), SPEC.batch_size)
        wanted = gradient(SPEC, START, OWN, rows, derive(7, "gradient", 5, "pi"))
        for each in (first, *others):
            assert isinstance(each, np.ndarray)
            assert np.array_equal(each, wanted)
        assert await pi.read(GRADIENT, 5) is first

    virtual.run(main())


def test_only_the_last_steps_are_kept() -> None:
    async def main() -> None:
        pi = worker(Models())
        for step in range(6):
            await pi.read(GRADIENT, step)
        assert await pi.read(GRADIENT, 1) == Absent("gone", 1, 5)
        assert isinstance(await pi.read(GRADIENT, 2), np.ndarray)
        assert await pi.read(MODEL, 5) == Absent("gone", 5, 5), "a worker has no models"
        models = Models()
        late = worker(models)
        await late.read(GRADIENT, 100)
        assert await late.read(GRADIENT, 96) == Absent("gone", 96, 100)
        assert models.asked == [100], "what is long past is not computed by one that came late"

    virtual.run(main())


def test_questions_for_steps_to_come_keep_nobody_from_the_one_that_is() -> None:
    async def main() -> None:
        pi = worker(Models(reached=3))
        flood = [asyncio.ensure_future(pi.read(GRADIENT, step)) for step in range(10, 40)]
        await asyncio.sleep(1.0)
        assert isinstance(await pi.read(GRADIENT, 3), np.ndarray)
        assert asyncio.get_running_loop().time() == 1.0
        answers = await asyncio.gather(*flood)
        assert {each.why for each in answers if isinstance(each, Absent)} == {"busy", "early"}
        assert isinstance(await pi.read(GRADIENT, 2), np.ndarray), "and it goes on as before"

    virtual.run(main())


def test_steps_asked_for_backwards_do_not_evade_the_bound() -> None:
    async def main() -> None:
        models = Models(reached=0)
        pi = worker(models)
        # All in one turn of the loop, before any that is put off has ended.
        flood = [asyncio.ensure_future(pi.read(GRADIENT, step)) for step in range(300, 0, -1)]
        await asyncio.sleep(0.01)
        assert sorted(models.asked) == [1, 2, 3, 4]
        answers = await asyncio.gather(*flood)
        assert (
            sum(answer == Absent("busy", 300 - at, -1) for at, answer in enumerate(answers)) == 296
        )
        await pi.close()

    virtual.run(main())


def test_a_model_that_is_not_to_be_had_is_asked_for_again() -> None:
    async def main() -> None:
        models = Models(reached=0)
        pi = worker(models)
        assert await pi.read(GRADIENT, 1) == Absent("early", 1, -1)
        models.reached = 1
        assert isinstance(await pi.read(GRADIENT, 1), np.ndarray)
        await pi.close()

    virtual.run(main())


def test_a_step_whose_model_is_gone_is_gone() -> None:
    async def main() -> None:
        servers = {name: answering(Absent("gone", 3, 40)) for name in "abc"}
        pi = worker(FromQuorum(servers, 2, Median(0), TERMS))
        assert await pi.read(GRADIENT, 3) == Absent("gone", 3, -1)

    virtual.run(main())


def test_questions_for_steps_long_past_do_not_crowd_out_a_worker_that_is_behind() -> None:
    async def main() -> None:
        gone = answering(Absent("gone", 0, 1000), after_s=1.0)
        servers = {"a": gone, "b": gone, "c": answering(START), "d": answering(START)}
        terms = Terms(size=len(START), patience_s=60.0)
        pi = worker(FromQuorum(servers, 3, Median(1), terms))
        flood = [asyncio.ensure_future(pi.read(GRADIENT, step)) for step in (6, 7, 8, 9)]
        await asyncio.sleep(0.5)
        assert await pi.read(GRADIENT, 1000) == Absent("busy", 1000, -1)
        await asyncio.gather(*flood)
        # They are known to be gone now, and take nobody's place any more.
        for step in range(10):
            assert await asyncio.wait_for(pi.read(GRADIENT, step), 0.1) == Absent("gone", step, -1)
        servers.update(a=answering(START), b=answering(START))
        assert isinstance(await pi.read(GRADIENT, 1000), np.ndarray)

    virtual.run(main())


def test_closing_stops_what_waits() -> None:
    async def main() -> None:
        pi = worker(Models(reached=0))
        reader = asyncio.ensure_future(pi.read(GRADIENT, 1))
        await asyncio.sleep(1.0)
        await pi.close()
        assert await reader == Absent("busy", 1, -1)

    virtual.run(main())


def test_a_worker_without_samples() -> None:
    with pytest.raises(ConfigurationError, match="pi has no samples"):
        Worker("pi", SPEC, OWN.take(slice(0, 0)), Models(), Charged())


def test_in_a_thread_the_loop_goes_on() -> None:
    async def main() -> tuple[int, int]:
        computing = Threaded()
        ticks = 0

        def work() -> int:
            # Ends only because the loop counts on meanwhile.
            while ticks < 3:
                pass
            return ticks

        async def tick() -> None:
            nonlocal ticks
            while ticks < 3:
                await asyncio.sleep(0)
                ticks += 1

        done, _ = await asyncio.gather(computing("gradient", work), tick())
        computing.close()
        return done, ticks

    assert asyncio.run(main()) == (3, 3)


# Where models come from


TERMS = Terms(size=2, patience_s=3.0)


def test_a_quorum_outvotes_a_server_that_lies() -> None:
    servers = {
        "a": answering(vector(1, 2)),
        "b": answering(vector(1000, -1000)),
        "c": answering(vector(2, 1)),
        "d": answering(ConnectFailed("crashed")),
    }
    source = FromQuorum(servers, 3, Median(1), TERMS)
    assert virtual.run(source.model(0)).tolist() == [2, 1]
    assert virtual.run(FromOne("b", servers["b"], TERMS).model(0)).tolist() == [1000, -1000]


def test_a_primary_that_fails_is_left_for_good() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        servers = {
            "a": answering(vector(1, 1), after_s=100.0),
            "b": answering(ConnectFailed("crashed")),
            "c": answering(vector(3, 3)),
        }
        source = FromPrimary(servers, TERMS)
        assert source.primary == "a"
        assert (await source.model(0)).tolist() == [3, 3]
        assert (source.primary, loop.time()) == ("c", 6.0)
        assert (await source.model(1)).tolist() == [3, 3]
        assert loop.time() == 6.0
        servers["c"] = answering(ConnectFailed("crashed as well"))
        with pytest.raises(QuorumNotReached, match="crashed as well"):
            await FromPrimary(servers, TERMS).model(2)

    virtual.run(main())


@pytest.mark.parametrize("step", [55, 10**6, 7], ids=["soon", "never", "gone"])
def test_a_primary_that_lives_and_has_no_such_model_is_not_left(step: int) -> None:
    async def main() -> None:
        boards = {name: Board() for name in "ab"}
        for board in boards.values():
            board.post(MODEL, 50, vector(50, 50))
        source = FromPrimary(boards, TERMS)
        with pytest.raises(QuorumNotReached):
            await source.model(step)
        assert source.primary == "a"
        assert (await source.model(50)).tolist() == [50, 50]

    virtual.run(main())


def test_what_a_primary_that_lives_has_not_comes_from_another_for_once() -> None:
    async def main() -> None:
        early = Absent("early", 7, 3)
        source = FromPrimary({"a": answering(early), "b": answering(vector(2, 2))}, TERMS)
        assert (await source.model(7)).tolist() == [2, 2]
        assert source.primary == "a"
        busy = {"a": answering(Overloaded("too many")), "b": answering(vector(2, 2))}
        source = FromPrimary(busy, TERMS)
        assert (await source.model(7)).tolist() == [2, 2]
        assert source.primary == "a"

    virtual.run(main())


def test_a_peer_computes_at_its_own_model() -> None:
    async def main() -> None:
        board = Board(wait_s=1.0)
        board.post(MODEL, 0, vector(4, 4))
        assert (await Own(board).model(0)).tolist() == [4, 4]
        with pytest.raises(QuorumNotReached, match="step 1 is early"):
            await Own(board).model(1)

    virtual.run(main())
