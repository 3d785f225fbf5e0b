"""What importing costs, each time in an interpreter of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("numpy", "torch", "zeroconf", "cryptography")
pytestmark = pytest.mark.system


def python(script: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=50, check=True
    )
    return done.stdout.strip()


def loaded_by(statement: str, names: tuple[str, ...]) -> str:
    return python(f"import sys; {statement}; print(*sorted(set({names!r}) & set(sys.modules)))")


def test_axon_alone_brings_in_nothing() -> None:
    names = (*HEAVY, "uvloop", "msgspec", "asyncio", "httptools", "typer", "rich", "zstandard")
    assert loaded_by("import axon", names) == ""


@pytest.mark.parametrize(
    "statement",
    [
        "import axon.client",
        "import axon.worker",
        "import axon.stubs",
        "import axon; axon.client.get_stub; axon.worker.rpc",
    ],
)
def test_either_side_brings_in_nothing_heavy(statement: str) -> None:
    assert loaded_by(statement, (*HEAVY, "typer", "rich", "zstandard")) == ""


def test_a_call_brings_in_nothing_heavy_either() -> None:
    script = """
import sys, axon
worker = axon.worker.Worker("light")
worker.rpc(name="double")(lambda value: 2 * value)
serving = worker.start(port=0)
stub = axon.client.get_stub(str(serving.address), stub_type=axon.stubs.SyncStub)
assert stub.double(21) == 42
serving.shutdown()
print(*sorted({"numpy", "torch", "zeroconf", "cryptography"} & set(sys.modules)))
"""
    assert python(script) == ""


@pytest.mark.alone
def test_importing_is_quick() -> None:
    """Under 150 ms beyond the interpreter's own start; the best of five, on a busy machine."""
    script = "import time; t = time.perf_counter(); import axon; print(time.perf_counter() - t)"
    took_s = min(float(python(script)) for _ in range(5))
    print(f"import axon: {took_s * 1000:.1f} ms")
    assert took_s < 0.15


def test_the_names_of_the_package_are_there() -> None:
    script = """
import axon
for name in axon.__all__:
    getattr(axon, name)
assert dir(axon) == sorted(axon.__all__)
try:
    axon.nothing
except AttributeError as error:
    print(error)
"""
    assert python(script) == "module 'axon' has no attribute 'nothing'"
