"""An emulated device: what it serves, to whoever asks."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from axon import client
from axon.attacks import Reversed
from axon.learning.lying import Lying
from axon.learning.service import SERVICE, LearnerService
from axon.rpc.link import Link
from axon.testbed.catalogue import device
from axon.testbed.device import LABORATORY, DeviceSettings, serve

PI = replace(device("pi-1"), link=Link())


@asynccontextmanager
async def served(settings: DeviceSettings) -> AsyncIterator[Any]:
    """A stub of the device, which is served until the end of its world's words."""
    control = asyncio.StreamReader()
    reader, writer = os.pipe()
    try:
        serving = asyncio.create_task(serve(settings, control, writer))
        address = (await asyncio.to_thread(os.read, reader, 200)).decode().strip()
        yield await client.connect(address)
        control.feed_eof()
        await serving
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.parametrize("laboratory", [False, True])
def test_only_experiments_have_a_laboratory(laboratory: bool) -> None:
    async def main() -> None:
        settings = DeviceSettings(name="a", device=PI)
        assert not settings.laboratory
        async with served(replace(settings, laboratory=laboratory)) as stub:
            assert hasattr(stub, SERVICE)
            assert hasattr(stub, LABORATORY) == laboratory
            if laboratory:
                assert await getattr(stub, LABORATORY).points() == []

    asyncio.run(main())


@pytest.mark.parametrize("attack", ["", "reversed"])
def test_a_device_serves_a_learner_that_wears_what_it_was_told(
    attack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    offered: list[Any] = []
    made = LearnerService.__init__

    def noted(self: LearnerService, learner: Any, access: Any) -> None:
        offered.append(learner)
        made(self, learner, access)

    monkeypatch.setattr(LearnerService, "__init__", noted)

    async def main() -> None:
        async with served(DeviceSettings(name="a", device=PI, attack=attack, seed=5)) as stub:
            assert (await getattr(stub, SERVICE).describe())["name"] == "a"

    asyncio.run(main())
    (learner,) = offered
    assert isinstance(learner, Lying) == bool(attack)
    if attack:
        assert (learner._attack, learner._seed) == (Reversed(), 5)
