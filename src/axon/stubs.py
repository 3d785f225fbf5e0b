"""The kinds of stub by name: what a call gives its caller."""

from axon.rpc.calling.stubs import FutureStub, GenericStub, SyncStub, ThreadStub

__all__ = ["FutureStub", "GenericStub", "SyncStub", "ThreadStub"]
