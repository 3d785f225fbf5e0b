"""Link shaping against hand-computed times."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axon.errors import ConfigurationError
from axon.rpc.link import Link, Shaper
from axon.testbed.virtual import Deadlock, VirtualLoop, run

MB = 1_000_000


def make_shaper(link: Link, seed: int = 0) -> Shaper:
    return Shaper(link, Random(seed))


async def arrivals(shaper: Shaper, sizes: Sequence[int]) -> list[tuple[int, float]]:
    """Send all at once; the messages in the order they arrive, with their times."""
    landed: list[tuple[int, float]] = []

    async def send(number: int, size: int) -> None:
        await shaper.carry(size)
        landed.append((number, asyncio.get_running_loop().time()))

    await asyncio.gather(*(send(number, size) for number, size in enumerate(sizes)))
    return landed


def times_of(link: Link, sizes: Sequence[int], seed: int = 0) -> list[float]:
    return [when for _, when in run(arrivals(make_shaper(link, seed), sizes))]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"latency_s": -0.1}, "latency_s"),
        ({"latency_s": math.inf}, "latency_s"),
        ({"jitter_s": math.nan}, "jitter_s"),
        ({"up_bytes_per_s": 0.0}, "up_bytes_per_s"),
        ({"down_bytes_per_s": -5.0}, "down_bytes_per_s"),
        ({"down_bytes_per_s": math.nan}, "down_bytes_per_s"),
        ({"loss": 1.1}, "loss"),
        ({"loss": math.nan}, "loss"),
    ],
)
def test_a_link_that_cannot_be_meant_is_refused(options: dict[str, float], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        Link(**options)


def test_what_fits_in_a_packet_does_not_wait_for_what_is_longer() -> None:
    link = Link(latency_s=0.5, up_bytes_per_s=MB)
    shaper = Shaper(link, Random(0), packet_bytes=1000)
    landed = run(arrivals(shaper, [3 * MB, 1000, 1001, 10]))
    assert [number for number, _ in landed] == [3, 1, 0, 2]
    assert [when_s for _, when_s in landed] == pytest.approx([0.50001, 0.501, 3.5, 3.501001])


def test_the_default_link_costs_nothing() -> None:
    assert times_of(Link(), [0, MB, 1000 * MB]) == [0.0, 0.0, 0.0]


def test_latency_is_paid_by_each_message_and_bandwidth_in_turn() -> None:
    link = Link(latency_s=0.25, up_bytes_per_s=MB)
    assert times_of(link, [MB, MB, MB // 2]) == [1.25, 2.25, 2.75]


def test_each_direction_has_its_own_bandwidth() -> None:
    link = Link(up_bytes_per_s=MB, down_bytes_per_s=4 * MB)
    up = Shaper(link, Random(0), direction="up")
    down = Shaper(link, Random(0), direction="down")
    assert [when for _, when in run(arrivals(up, [2 * MB]))] == [2.0]
    assert [when for _, when in run(arrivals(down, [2 * MB]))] == [0.5]


@pytest.mark.parametrize(
    ("first", "second", "total_s"), [(1 * MB, 4 * MB, 1.0), (4 * MB, 1 * MB, 1.0), (MB, MB, 1.0)]
)
def test_two_links_in_a_row_cost_the_slower_one(first: int, second: int, total_s: float) -> None:
    async def main() -> float:
        one = make_shaper(Link(up_bytes_per_s=first))
        two = make_shaper(Link(up_bytes_per_s=second))
        await one.carry(MB)
        await two.carry(MB, spread_s=one.transmission_s(MB))
        return asyncio.get_running_loop().time()

    assert run(main()) == total_s


def test_two_senders_share_the_receivers_link() -> None:
    async def send(sender: Shaper, receiver: Shaper) -> float:
        await sender.carry(MB)
        await receiver.carry(MB, spread_s=sender.transmission_s(MB))
        return asyncio.get_running_loop().time()

    async def main() -> list[float]:
        link = Link(up_bytes_per_s=MB)
        receiver = make_shaper(link)
        return await asyncio.gather(*(send(make_shaper(link), receiver) for _ in range(2)))

    assert run(main()) == [1.0, 2.0]


def test_jitter_stays_within_its_bound_and_varies() -> None:
    async def main() -> list[float]:
        shaper = make_shaper(Link(latency_s=1.0, jitter_s=0.5))
        return [shaper.flight_s() for _ in range(200)]

    flights = run(main())
    assert all(1.0 <= flight <= 1.5 for flight in flights)
    assert max(flights) - min(flights) > 0.4


class Scripted(Random):
    """Chance that says what it is told."""

    def __init__(self, draws: Sequence[float]) -> None:
        super().__init__(0)
        self._draws = iter(draws)

    def random(self) -> float:
        return next(self._draws)


def test_a_lost_message_is_sent_again_after_a_wait_that_doubles() -> None:
    shaper = Shaper(Link(latency_s=0.1, loss=0.5), Scripted([0.4, 0.49, 0.0, 0.5, 0.9]))
    assert shaper.flight_s() == pytest.approx(0.1 + 0.2 + 0.4 + 0.8)
    assert shaper.flight_s() == pytest.approx(0.1)


def test_the_wait_for_a_resend_stops_doubling_at_a_minute() -> None:
    shaper = Shaper(Link(loss=0.5), Scripted([0.0] * 12 + [1.0]))
    doubled = sum(0.2 * 2**k for k in range(9))  # 0.2 ... 51.2
    assert shaper.flight_s() == pytest.approx(doubled + 3 * 60.0)


def test_the_share_of_messages_resent_is_the_loss() -> None:
    shaper = make_shaper(Link(loss=0.3))
    resent = sum(shaper.flight_s() > 0.0 for _ in range(4000))
    assert resent / 4000 == pytest.approx(0.3, abs=0.03)


def test_a_link_that_loses_everything_never_delivers() -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1e6):
                await make_shaper(Link(loss=1.0)).carry(1)
        return asyncio.get_running_loop().time()

    assert run(main()) == 1e6
    with pytest.raises(Deadlock):
        run(make_shaper(Link(loss=1.0)).carry(1))


def test_a_message_lost_for_ever_holds_up_no_other() -> None:
    async def main() -> float:
        shaper = make_shaper(Link(loss=1.0))
        lost = asyncio.create_task(shaper.carry(1))
        await asyncio.sleep(1.0)
        shaper.link = Link(latency_s=0.5)
        await shaper.carry(1)
        assert not lost.done()
        return asyncio.get_running_loop().time()

    assert run(main()) == 1.5


@pytest.mark.parametrize("cancelled", [0, 1])
def test_a_cancelled_message_gives_the_link_back(cancelled: int) -> None:
    """Three of 1 s each; one is withdrawn at 0.25 s, under way or in the queue."""

    async def main() -> list[float]:
        shaper = make_shaper(Link(up_bytes_per_s=MB))
        sends = [asyncio.create_task(shaper.carry(MB)) for _ in range(3)]
        await asyncio.sleep(0.25)
        sends[cancelled].cancel()
        times = []
        for send in sends[:cancelled] + sends[cancelled + 1 :]:
            await send
            times.append(asyncio.get_running_loop().time())
        return times

    assert run(main()) == ([1.25, 2.25] if cancelled == 0 else [1.0, 2.0])


def test_a_message_cancelled_in_flight_holds_up_no_other() -> None:
    async def main() -> float:
        shaper = make_shaper(Link(latency_s=50.0))
        slow = asyncio.create_task(shaper.carry(1))
        await asyncio.sleep(1.0)
        slow.cancel()
        await asyncio.sleep(0)
        shaper.link = Link(latency_s=2.0)
        await shaper.carry(1)
        return asyncio.get_running_loop().time()

    assert run(main()) == 3.0


def test_a_faster_link_does_not_let_messages_overtake() -> None:
    async def main() -> list[float]:
        shaper = make_shaper(Link(latency_s=5.0))
        slow = asyncio.create_task(arrivals(shaper, [1]))
        await asyncio.sleep(1.0)
        shaper.link = Link()
        return [when for _, when in await arrivals(shaper, [1]) + await slow]

    assert run(main()) == [5.0, 5.0]


links = st.builds(
    Link,
    latency_s=st.sampled_from([0.0, 0.001]),
    up_bytes_per_s=st.sampled_from([1e3, 1e6, math.inf]),
    jitter_s=st.sampled_from([0.0, 0.5]),
    loss=st.sampled_from([0.0, 0.4]),
)
sizes = st.lists(st.integers(0, 5000), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(links, sizes, st.integers(0, 99))
def test_messages_arrive_in_order_and_no_sooner_than_the_link_allows(
    link: Link, sent: list[int], seed: int
) -> None:
    landed = run(arrivals(make_shaper(link, seed), sent))
    assert [number for number, _ in landed] == list(range(len(sent)))
    passed = 0
    for (_, when), size in zip(landed, sent, strict=True):
        passed += size
        assert when >= passed / link.up_bytes_per_s + link.latency_s - 1e-9
    assert landed == run(arrivals(make_shaper(link, seed), sent))


def test_order_holds_on_an_ordinary_loop_too() -> None:
    link = Link(jitter_s=0.02, up_bytes_per_s=100 * MB)
    landed = asyncio.run(arrivals(make_shaper(link), [1000] * 60))
    assert [number for number, _ in landed] == list(range(60))


class LateLoop(VirtualLoop):
    """A loop that wakes half a millisecond late each time, as a real one does."""

    def _advance(self) -> None:
        super()._advance()
        self._now += 0.0005


def test_wakings_that_come_late_do_not_add_up() -> None:
    with asyncio.Runner(loop_factory=LateLoop) as runner:
        landed = runner.run(arrivals(make_shaper(Link(up_bytes_per_s=MB)), [1000] * 100))
    assert landed[-1][1] == pytest.approx(0.1005)
