"""What the page on two machines says of long calls and of many devices, against a worker here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from axon.worker import Worker
from tests.cli.scenes import shell
from tests.pages import blocks


@pytest.mark.system
def test_calls_over_a_bad_link_and_to_many_devices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shell(monkeypatch, capsys)("keys", "new", "my-keys", "--host", "127.0.0.1")
    worker = Worker("pi")
    worker.rpc(name="simple_hello")(lambda name: f"Hello {name}!!")
    worker.rpc(name="train")(lambda cycles: cycles * 2)
    serving = worker.start(port=0, key="my-keys", tls="my-keys", announce=False)
    where = f"127.0.0.1:{serving.address.port}"
    names: dict[str, Any] = {"hosts": [where] * 4}
    try:
        _, call, long, many = blocks("docs/two-machines.md")
        for code in (call, long, many):
            exec(code.replace("pi.local", where), names)
    finally:
        serving.shutdown()
    hello, values, failures = capsys.readouterr().out.splitlines()
    assert hello == "Hello John!!"
    assert names["result"] == 20
    assert values == repr(["Hello all!!"] * 3)
    assert failures.count("Failure(") == 1
