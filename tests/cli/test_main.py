"""The `axon` command as a whole: what it prints where, and with which code it ends."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from axon import __version__, errors
from axon.cli import main as command_line

Outcome = tuple[int, str, str]
Run = Callable[..., Outcome]


@pytest.fixture
def axon(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command line; gives back its exit code, stdout and stderr."""

    def run(*arguments: str) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["axon", *arguments])
        with pytest.raises(SystemExit) as ended:
            command_line.main()
        captured = capsys.readouterr()
        code = ended.value.code
        return (code if isinstance(code, int) else 0), captured.out, captured.err

    return run


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Put an application in place of ours whose command `work` raises what it is told to."""

    def arrange(error: BaseException) -> None:
        application = typer.Typer(pretty_exceptions_enable=False)

        @application.command("work")
        def work(texts: list[str] | None = typer.Argument(None)) -> None:  # noqa: B008
            raise error

        @application.command("rest")
        def rest() -> None:
            raise AssertionError("a second command, so that the first has to be named")

        monkeypatch.setattr(command_line, "app", application)

    return arrange


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.ConfigurationError("bad port"), 2),
        (errors.ConnectFailed("refused"), 3),
        (errors.ConnectionLost("cut"), 3),
        (errors.DeadlineExceeded("late"), 4),
        (errors.Unauthorised("no key"), 5),
        (errors.QuorumNotReached(wanted=2, got=1, hint="pi-1: cannot be reached"), 6),
        (errors.RunExists("run is there already"), 7),
        (errors.CheckpointConflict("cycle 3 is saved"), 7),
        (errors.NotFound("no such function"), 1),
        (errors.RemoteError("boom", type_name="ValueError"), 1),
        (errors.AxonError(), 1),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_our_errors_become_one_line_and_a_code(
    error: errors.AxonError,
    code: int,
    axon: Run,
    failing: Callable[[BaseException], None],
) -> None:
    failing(error)
    assert axon("work") == (code, "", f"axon: {str(error) or 'AxonError'}\n")


def test_every_code_is_for_a_class_that_no_earlier_one_covers() -> None:
    kinds = [kind for kind, _ in command_line.EXIT_CODES]
    for place, kind in enumerate(kinds):
        assert not issubclass(kind, tuple(kinds[:place]))


def test_a_message_from_a_worker_cannot_drive_the_terminal(
    axon: Run, failing: Callable[[BaseException], None]
) -> None:
    failing(errors.RemoteError("\x1b[2Jgone\nsecond\x07 line", remote_traceback="\x1b[31mred"))
    assert axon("work")[2] == "axon: Exception: [2Jgone second line\n"
    traced = axon("work", "--debug")[2]
    assert "\x1b" not in traced
    assert "\x07" not in traced
    assert "[31mred" in traced


@pytest.mark.parametrize("arguments", [("--debug", "work"), ("work", "--debug")])
def test_debug_anywhere_gives_the_trace_and_the_same_code(
    arguments: tuple[str, ...], axon: Run, failing: Callable[[BaseException], None]
) -> None:
    failing(errors.ConnectFailed("refused"))
    code, out, err = axon(*arguments)
    assert (code, out) == (3, "")
    assert err.startswith("Traceback (most recent call last):\n")
    assert "axon.errors.ConnectFailed: refused" in err


def test_debug_after_two_dashes_is_an_argument() -> None:
    assert command_line.take_debug(["--debug", "a", "--", "--debug"]) == (
        ["a", "--", "--debug"],
        True,
    )
    assert command_line.take_debug(["a", "--", "--debug"]) == (["a", "--", "--debug"], False)


def test_an_interrupt_is_silent(axon: Run, failing: Callable[[BaseException], None]) -> None:
    failing(KeyboardInterrupt())
    assert axon("work") == (130, "", "")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (PermissionError(13, "Permission denied", "runs/a"), "Permission denied: 'runs/a'\n"),
        (KeyError("pi"), "axon: internal error: KeyError: 'pi'; --debug shows the trace\n"),
        (MemoryError(), "axon: internal error: MemoryError; --debug shows the trace\n"),
        (ValueError("x\n" * 9999), "x x x…; --debug shows the trace\n"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_what_nobody_foresaw_is_one_line_too(
    error: Exception, line: str, axon: Run, failing: Callable[[BaseException], None]
) -> None:
    failing(error)
    code, out, err = axon("work")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("axon: ")
    assert err.endswith(line)


def test_the_trace_of_a_bug_can_be_had(axon: Run, failing: Callable[[BaseException], None]) -> None:
    failing(ZeroDivisionError("by zero"))
    code, out, err = axon("work", "--debug")
    assert (code, out) == (1, "")
    assert err.startswith("Traceback (most recent call last):\n")
    assert err.endswith("ZeroDivisionError: by zero\n")


def test_version(axon: Run) -> None:
    assert axon("--version") == (0, f"axon {__version__}\n", "")


def test_an_unknown_option_is_a_wrong_use(axon: Run) -> None:
    code, out, err = axon("devices", "--colour")
    assert (code, out) == (2, "")
    assert "--colour" in err


def test_an_error_of_a_real_command(axon: Run, tmp_path: Path) -> None:
    code, out, err = axon("keys", "show", str(tmp_path / "none.key"))
    assert (code, out) == (2, "")
    assert err.startswith("axon: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("command", ["train", "run", "worker", "bench", "devices", "call", "keys"])
def test_every_command_has_one_line_of_help(command: str, axon: Run) -> None:
    code, out, _ = axon("--help")
    assert code == 0
    (line,) = [line for line in out.splitlines() if line.split()[:1] == [command]]
    assert len(line.split()) > 3
    assert not line.endswith("...")


@pytest.mark.parametrize("command", ["train", "run", "worker", "bench", "devices", "call"])
def test_the_help_of_a_command_has_an_example(command: str, axon: Run) -> None:
    assert f"Example: axon {command} " in axon(command, "--help")[1]


@pytest.mark.parametrize("command", [[], ["train"], ["worker"]], ids=" ".join)
def test_help_imports_nothing_heavy(command: list[str]) -> None:
    code = (
        f"import sys, axon.cli.main as m; sys.argv = {['axon', *command, '--help']}\n"
        "try: m.main()\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'torch', 'cryptography', 'zeroconf', 'rich', 'asyncio'}\n"
        "sys.exit(', '.join(heavy & set(sys.modules)) or 0)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stderr) == (0, "")
