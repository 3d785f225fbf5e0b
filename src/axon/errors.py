"""Every error Axon raises, as one tree.

    AxonError
    ├── CallError                 a call did not bring back a value
    │   ├── RemoteError           the function ran and raised; also the built-in type it raised
    │   ├── ConnectFailed         nobody listens there, or the address is unreachable
    │   ├── ConnectionLost        the link broke while the call was under way; it may have run
    │   ├── DeadlineExceeded      the call's time was up
    │   ├── CallCancelled         the call was cancelled on one of the two sides
    │   ├── CallLost              the worker no longer has the call: it restarted, or dropped it
    │   ├── NotFound              no such function on that worker
    │   ├── BadArguments          the arguments do not fit the function's signature
    │   ├── TooLarge              over a limit of the receiving side
    │   ├── Unauthorised          no key, a wrong key, a replay, or a key that may not call this
    │   ├── Overloaded            the worker has as many calls in flight as it takes
    │   ├── WorkerStopping        the worker is shutting down and hands the call back
    │   └── ProtocolError         the peer does not speak our protocol
    │       └── VersionMismatch   it speaks another version of it
    ├── CannotTravel              a value has no form on the wire
    ├── QuorumNotReached          a gather ended with fewer answers than it needed
    ├── RunExists                 a new run has the name of one that is already kept
    ├── CheckpointConflict        a cycle to be saved is not the one after the last one saved
    ├── Superseded                another orchestrator leads the run now
    ├── StoreSilent               the store cannot be reached, or does not answer, for now
    └── ConfigurationError        an option that cannot be meant, such as an open port without a key

Where a built-in class says the same (`TimeoutError`, `ConnectionRefusedError`, …) ours is one too,
so that code which knows nothing of Axon still catches it. `hint` says what to do about it.
"""

from __future__ import annotations

from collections.abc import Sequence


class AxonError(Exception):
    """Base of all; `hint` is advice for a person and part of the message."""

    hint: str = ""

    def __init__(self, message: str = "", *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        if hint is not None:
            self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class CallError(AxonError):
    """A call did not bring back a value."""


class RemoteError(CallError):
    """The remote function raised.

    The class of the instance is made on arrival: it is `RemoteError` and, where the remote type is
    a built-in exception, that type as well.
    """

    def __init__(
        self,
        message: str = "",
        *,
        type_name: str = "Exception",
        remote_traceback: str = "",
        notes: Sequence[str] = (),
    ) -> None:
        AxonError.__init__(self, message)
        self.type_name = type_name
        self.remote_traceback = remote_traceback
        for note in notes:
            self.add_note(note)
        if remote_traceback:
            self.add_note(f"\nRemote traceback:\n{remote_traceback}")

    def __str__(self) -> str:
        return f"{self.type_name}: {self.message}" if self.message else self.type_name


class ConnectFailed(CallError, ConnectionRefusedError):
    """Nobody answers at the address."""

    hint = "is the worker running, and are its host and port right?"


class ConnectionLost(CallError, ConnectionResetError):
    """The link broke before the answer came; the function may have run."""

    hint = "the call may have run; a duplex call survives a dropped link"


class DeadlineExceeded(CallError, TimeoutError):
    """The call's time was up before the answer came."""

    hint = "give it longer with options(deadline_s=...), or None for no deadline"


class CallCancelled(CallError):
    """The call was cancelled before it finished."""


class CallLost(CallError):
    """The worker no longer knows the call, so its result cannot be had."""

    hint = "the worker restarted or dropped the result; the call may have run"


class NotFound(CallError, LookupError):
    """No such function on that worker."""


class BadArguments(CallError, TypeError):
    """The arguments do not fit the function."""


class TooLarge(CallError, ValueError):
    """Over a limit of the receiving side."""


class Unauthorised(CallError, PermissionError):
    """No key, a wrong key, a replay, or a key that may not call this function."""


class Overloaded(CallError):
    """The worker has as many calls in flight as it takes."""

    hint = "try again later, or raise the worker's max_calls"


class WorkerStopping(CallError):
    """The worker is shutting down and hands the call back; it was not completed."""


class ProtocolError(CallError):
    """The peer sent something that is not our protocol."""


class VersionMismatch(ProtocolError):
    """The peer speaks another version of the protocol."""


class CannotTravel(AxonError, TypeError):
    """A value has no form on the wire; the message names the attribute and what to do."""


class QuorumNotReached(AxonError):
    """Fewer answers than needed came in time."""

    def __init__(
        self, *, wanted: int, got: int, answers: object = None, hint: str | None = None
    ) -> None:
        super().__init__(f"wanted {wanted} answers, got {got}", hint=hint)
        self.wanted = wanted
        self.got = got
        self.answers = answers


class RunExists(AxonError):
    """A new run has the name of one that is already kept."""

    hint = "take the run up where it stopped, or give the new one another name"


class CheckpointConflict(AxonError):
    """A cycle to be saved is not the one after the last one saved, so saving it would count twice.

    Usually a second orchestrator is advancing the same run.
    """

    hint = (
        "is another orchestrator advancing this run? read the latest checkpoint and go on from it"
    )


class Superseded(AxonError):
    """Another orchestrator leads the run now: it has the higher epoch, and only it may save."""

    def __init__(self, run: str, epoch: int | None, *, by: int, holder: str = "") -> None:
        what = "without leading it" if epoch is None else f"as epoch {epoch}"
        hint = "it has stepped down; the run goes on without it"
        if epoch is None:
            hint = "go on with --failover, or stand by"
        super().__init__(
            f"run {run!r} is led by {holder or 'nobody'} as epoch {by}, "
            f"and this orchestrator wanted to advance it {what}",
            hint=hint,
        )
        self.run = run
        self.epoch = epoch
        self.by = by
        self.holder = holder


class StoreSilent(AxonError):
    """The store cannot be reached or does not answer; what was asked of it may have been done."""


class ConfigurationError(AxonError, ValueError):
    """An option that cannot be meant."""
