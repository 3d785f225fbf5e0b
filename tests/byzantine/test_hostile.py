"""Nodes that lie: what they answer, to whom, and what they go by."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from axon.attacks import Attack, Drop, InnerProduct, LabelFlip, Mimic, Random, Reversed, Stale
from axon.byzantine.board import GRADIENT, MODEL, UPDATED, Absent, Board, Readable
from axon.byzantine.hostile import Both, ByzantineServer, ByzantineWorker, Malice
from axon.byzantine.quorum import Terms
from axon.errors import ConfigurationError, QuorumNotReached
from axon.testbed import virtual
from axon.topology import vanilla
from tests.byzantine.worlds import DIGITS, answering, cluster, vector


def malice(attack: Attack, honest: Mapping[str, Readable] | None = None) -> Malice:
    return Malice(
        name="liar",
        attack=attack,
        honest=honest or {},
        known=len(honest or {}),
        attackers=1,
        terms=Terms(size=2, patience_s=5.0),
        seed=4,
    )


def board_of(*vectors: tuple[float, float]) -> Board:
    board = Board()
    for step, values in enumerate(vectors):
        board.post(GRADIENT, step, vector(*values))
        board.post(MODEL, step, vector(*values))
    return board


def told(answer: object) -> list[float]:
    assert isinstance(answer, np.ndarray)
    return [float(each) for each in answer]


def test_a_worker_lies_to_everybody_the_same() -> None:
    async def main() -> None:
        liar = ByzantineWorker(board_of((1, 2)), malice(Reversed(-100.0)))
        assert told(await liar.read(GRADIENT, 0)) == [-100, -200]
        noisy = ByzantineWorker(board_of((1, 2)), malice(Random(5.0)))
        first, again = [told(await noisy.read(GRADIENT, 0)) for _ in range(2)]
        assert first == again
        assert first != [1, 2]

    virtual.run(main())


def test_a_server_lies_to_each_reader_anew() -> None:
    async def main() -> None:
        liar = ByzantineServer(board_of((1, 2)), malice(Random(5.0)))
        first, again = [told(await liar.read(MODEL, 0)) for _ in range(2)]
        assert first != again

    virtual.run(main())


def test_what_is_dropped_is_never_answered() -> None:
    async def main() -> None:
        for liar in (
            ByzantineWorker(board_of((1, 2)), malice(Drop())),
            ByzantineServer(board_of((1, 2)), malice(Drop())),
        ):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(liar.read(GRADIENT, 0), 1000.0)

    virtual.run(main())


def test_a_lie_is_told_as_soon_as_the_truth_would_be() -> None:
    async def main() -> None:
        for liar in (
            ByzantineWorker(board_of((1, 2)), malice(Reversed())),
            ByzantineServer(board_of((1, 2)), malice(Reversed())),
        ):
            with pytest.raises(StopIteration) as ended:
                liar.read(MODEL, 0).send(None)  # Without a single turn of the loop.
            assert told(ended.value.value) == [-100, -200]

    virtual.run(main())


@pytest.mark.parametrize("kind", [ByzantineWorker, ByzantineServer])
def test_a_mistake_in_an_attack_is_told(kind: type[ByzantineWorker | ByzantineServer]) -> None:
    async def main() -> None:
        heard: list[Exception] = []
        mistaken = replace(malice(Mimic(5), {"a": answering(vector(1, 1))}), broken=heard.append)
        with pytest.raises(ConfigurationError, match="copies honest vector 5"):
            await kind(board_of((1, 2)), mistaken).read(MODEL, 0)
        assert [type(error) for error in heard] == [ConfigurationError]

    virtual.run(main())


def test_an_omniscient_liar_reads_what_the_honest_send() -> None:
    honest = {"a": answering(vector(1, 4)), "b": answering(vector(3, 0))}

    async def main() -> None:
        liar = ByzantineWorker(board_of((7, 7)), malice(InnerProduct(0.5), honest))
        assert told(await liar.read(GRADIENT, 0)) == [-1, -1]
        blind = ByzantineWorker(
            board_of((7, 7)), malice(InnerProduct(0.5), {"a": answering("no vector")})
        )
        with pytest.raises(QuorumNotReached):
            await blind.read(GRADIENT, 0)

    virtual.run(main())


@pytest.mark.parametrize("kind", [ByzantineWorker, ByzantineServer])
def test_a_stale_vector_is_one_of_so_many_steps_ago(
    kind: type[ByzantineWorker | ByzantineServer],
) -> None:
    async def main() -> None:
        liar = kind(board_of(*((step, step) for step in range(6))), malice(Stale(2)))
        answers = [told(await liar.read(GRADIENT, step))[0] for step in range(6)]
        assert answers == [0, 0, 0, 1, 2, 3]

    virtual.run(main())


def test_what_is_absent_beneath_is_absent() -> None:
    async def main() -> None:
        liar = ByzantineWorker(board_of((1, 2)), malice(Reversed()))
        assert await liar.read(GRADIENT, 1000) == Absent("early", 1000, 0)

    virtual.run(main())


def test_a_peer_answers_as_server_and_as_worker() -> None:
    async def main() -> None:
        both = Both(answering(vector(1, 1)), answering(vector(2, 2)))
        assert told(await both.read(GRADIENT, 0)) == [2, 2]
        assert told(await both.read(UPDATED, 0)) == [1, 1]

    virtual.run(main())


def test_an_attack_on_labels_is_in_the_data() -> None:
    liar = cluster(vanilla(2), lambda vectors, _: vectors[0], hostile={"worker-1": LabelFlip()})
    honest = cluster(vanilla(2), lambda vectors, _: vectors[0])
    flipped = liar.samples_of("worker-1").labels
    assert np.array_equal(flipped, 9 - honest.samples_of("worker-1").labels)
    assert np.array_equal(liar.samples_of("worker-0").labels, honest.samples_of("worker-0").labels)
    assert len(flipped) == len(DIGITS.train) // 2
