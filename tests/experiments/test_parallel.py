"""Work spread over processes: nothing lost, everything in order, and nothing left behind."""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections.abc import Iterator
from multiprocessing import active_children
from pathlib import Path

import pytest

from axon.experiments.parallel import spread


def test_a_single_worker_works_here_and_only_as_asked() -> None:
    done: list[int] = []
    results = spread(done.append, [1, 2, 3], 1)
    assert isinstance(results, Iterator)
    next(results)
    assert done == [1]
    assert list(spread(abs, [], 4)) == []


@pytest.mark.system
def test_results_come_in_the_order_of_the_tasks() -> None:
    assert list(spread(math.sqrt, [9.0, 4.0, 1.0], 2)) == [3.0, 2.0, 1.0]


@pytest.mark.system
def test_an_error_is_told_at_once_and_stops_the_others() -> None:
    began_s, before = time.monotonic(), set(active_children())
    with pytest.raises(ValueError, match="non-negative"):
        list(spread(time.sleep, [-1.0, 50.0], 2))
    assert time.monotonic() - began_s < 40.0
    assert not set(active_children()) - before


@pytest.mark.system
def test_workers_end_with_the_process_that_began_them(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import os, time\n"
        "from axon.experiments.parallel import spread\n"
        "def work(task):\n"
        "    print(os.getpid(), flush=True)\n"
        "    time.sleep(50)\n"
        "if __name__ == '__main__':\n"
        "    list(spread(work, [1, 2], 2))\n"
    )
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        workers = [int(process.stdout.readline()) for _ in range(2)]
        process.kill()
        # The workers hold the pipe too: it ends when the last of them has.
        assert process.stdout.read() == b""
    assert len(set(workers)) == 2
