"""PostgreSQL alone: connections that break, and rows that stay locked."""

from __future__ import annotations

import select
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from axon.errors import CheckpointConflict, StoreSilent, Superseded
from axon.rounds.checkpoint import open_store
from axon.rounds.postgres import PostgresStore
from tests.rounds.stores import Server, execute, made


class Cut:
    """Stands between store and server and, once armed, breaks the link at the next commit."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.address = server.address(server.database(), folder)
        self.direct = self.address.replace(str(folder), str(server.folder))
        self.armed = ""
        """`before` loses the commit itself, `after` only the answer to it."""
        self.meanwhile: Callable[[], object] = lambda: None
        self._server = str(server.folder / ".s.PGSQL.5432")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / ".s.PGSQL.5432"))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with suppress(OSError):  # it may be closed already
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed, so it is over
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as server:
            server.connect(self._server)
            while ready := select.select([client, server], [], [])[0]:
                data = ready[0].recv(1 << 16)
                # With the byte that ends it: a transaction begins with READ COMMITTED.
                committing = bool(self.armed) and ready[0] is client and b"COMMIT\0" in data
                if committing and self.armed == "after":
                    server.sendall(data)
                    server.recv(1 << 16)
                if committing or not data:
                    break
                (server if ready[0] is client else client).sendall(data)
            server.close()
            if committing:
                self.armed = ""
                self.meanwhile()


@pytest.fixture
def cut(server: Server) -> Iterator[Cut]:
    folder = Path(tempfile.mkdtemp(prefix="axon"))
    with closing(Cut(server, folder)) as cut:
        yield cut
    shutil.rmtree(folder)


@pytest.mark.system
@pytest.mark.parametrize("armed", ["before", "after"])
def test_a_link_lost_at_the_commit_saves_the_cycle_once(cut: Cut, armed: str) -> None:
    seen = []
    with closing(open_store(cut.address)) as store, closing(open_store(cut.direct)) as other:
        store.begin("run", "{}")
        store.save(*made(1))
        cut.armed, cut.meanwhile = armed, lambda: seen.append(len(other.records("run")))
        store.save(*made(2))
        assert seen == [1 if armed == "before" else 2]
        store.save(*made(3))
        assert [record.cycle for record in store.records("run")] == [1, 2, 3]


@pytest.mark.system
@pytest.mark.parametrize("armed", ["before", "after"])
def test_a_link_lost_at_the_commit_leads_the_run_once(cut: Cut, armed: str) -> None:
    with closing(open_store(cut.address)) as store:
        store.begin("run", "{}")
        cut.armed = armed
        led = store.lead("run", "one", after=store.leadership("run"))
        assert (led.epoch, led.holder) == (1, "one")
        cut.armed = armed
        store.beat("run", 1)
        found = store.leadership("run")
        assert found is not None
        # A beat too many says no more than one.
        assert found.beats in (1, 2)
        cut.armed = armed
        store.save(*made(1), 1)
        assert [record.cycle for record in store.records("run")] == [1]


@pytest.mark.system
def test_one_that_was_replaced_while_the_link_was_lost_saves_nothing(cut: Cut) -> None:
    with closing(open_store(cut.address)) as store, closing(open_store(cut.direct)) as other:
        store.begin("run", "{}")
        store.lead("run", "one")
        cut.armed, cut.meanwhile = "before", lambda: other.lead("run", "two")
        with pytest.raises(Superseded, match="led by two as epoch 2"):
            store.save(*made(1), 1)
        assert store.records("run") == []


@pytest.mark.system
def test_a_cycle_that_another_saved_while_the_link_was_lost_is_a_conflict(cut: Cut) -> None:
    with closing(open_store(cut.address)) as store, closing(open_store(cut.direct)) as other:
        store.begin("run", "{}")
        cut.armed, cut.meanwhile = "before", lambda: other.save(*made(1, size=7))
        with pytest.raises(CheckpointConflict, match="1 cycles, so the next is 2, got 1"):
            store.save(*made(1))
        latest = store.latest("run")
        assert latest is not None
        assert len(latest.parameters) == 7


@pytest.mark.system
def test_a_lost_connection_is_opened_anew_while_there_is_a_server(cut: Cut) -> None:
    lose = (
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
        "WHERE application_name = 'axon' AND datname = current_database()"
    )
    with closing(open_store(cut.address)) as store:
        for cycle in (1, 2):
            execute(cut.direct, lose)
            if cycle == 1:
                store.begin("run", "{}")
            execute(cut.direct, lose)
            store.save(*made(cycle))
            execute(cut.direct, lose)
            assert len(store.records("run")) == cycle
        cut.close()
        execute(cut.direct, lose)
        for _ in range(2):
            with pytest.raises(StoreSilent, match="cannot connect to test"):
                store.latest("run")


@pytest.mark.system
def test_a_run_that_stays_locked_is_an_error(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    monkeypatch.setattr("axon.rounds.postgres.LOCK_S", 0.1)
    where = server.address(server.database())
    with closing(open_store(where)) as store, psycopg.connect(where) as other:
        store.begin("run", "{}")
        other.execute("SELECT FROM axon_runs FOR UPDATE")
        with pytest.raises(StoreSilent, match="lock timeout"):
            store.save(*made(1))
        other.rollback()
        store.save(*made(1))


@pytest.mark.system
def test_a_server_that_is_read_only_for_a_while_is_silent(server: Server) -> None:
    with closing(PostgresStore(server.address(server.database()))) as store:
        store.begin("run", "{}")
        led = store.lead("run", "desk")
        store._connection.execute("SET default_transaction_read_only = on")
        with pytest.raises(StoreSilent, match="read-only"):
            store.beat("run", led.epoch)
        store._connection.execute("SET default_transaction_read_only = off")
        store.beat("run", led.epoch)
