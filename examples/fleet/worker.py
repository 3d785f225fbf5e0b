"""One device of a fleet: as fast as it is told to be."""

import asyncio
import sys

import axon

NAME, PORT, SECONDS = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])


@axon.worker.rpc()
async def work(item: str) -> str:
    """Take this device's time over an item."""
    await asyncio.sleep(SECONDS)
    return f"{item}, done by {NAME}"


axon.worker.init(port=PORT, name=NAME)
