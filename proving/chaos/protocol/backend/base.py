"""psycopg's connections, which hand over the baton before each round trip, and Django's wrapper for them.

Every round trip passes `Connection.wait`, for every caller: ORM, raw cursor, COMMIT. Threads that are not actors pass
at once. Sound connections are used again, since a new one costs more than ten steps.
"""

from typing import Any

import psycopg
from django.db.backends.postgresql import base
from psycopg.pq import TransactionStatus

from proving.chaos.protocol.actor import actor_here

STEPS = ("_execute_gen", "_commit_gen", "_rollback_gen")
UNSEEN = ("SAVEPOINT", "RELEASE SAVEPOINT", "SELECT pg_notify", "SET ")
"""Statements that neither wait for a lock nor change what others see, so they are not steps."""

_kept: "list[SteppedConnection]" = []


class SteppedConnection(psycopg.Connection[Any]):
    """A connection whose round trips are steps of the actor in whose thread they are made."""

    is_read_only = False

    def wait(self, gen: Any, *args: Any, **kwargs: Any) -> Any:
        actor = actor_here()
        if actor is None or actor.is_connecting:
            return super().wait(gen, *args, **kwargs)
        statement = _statement(gen)
        if not statement:
            return super().wait(gen, *args, **kwargs)
        return actor.round_trip(self, statement, lambda: super(SteppedConnection, self).wait(gen, *args, **kwargs))

    def linger(self, reading: int) -> None:
        """Let the next statement stop at its first, second … reading of a clock, or at none if `reading` is 0."""
        if not self.closed and self.pgconn.transaction_status != TransactionStatus.INERROR:
            self.pgconn.exec_(b"SET sim.linger_at = " + str(reading).encode())

    def obey(self, read_only: bool) -> None:
        """Refuse every write of the next transaction, as a demoted server does, or allow writes again."""
        if read_only != self.is_read_only and self.pgconn.transaction_status == TransactionStatus.IDLE:
            self.pgconn.exec_(b"SET default_transaction_read_only = " + (b"on" if read_only else b"off"))
            self.is_read_only = read_only


def _statement(gen: Any) -> str:
    """The statement of a round trip on one line, or empty if it is not a step."""
    name = str(gen.__name__)
    if name not in STEPS:
        return ""
    if name != "_execute_gen":
        return name.strip("_").removesuffix("_gen").upper()
    query = gen.gi_frame.f_locals.get("query") if gen.gi_frame else None
    text = query.decode() if isinstance(query, bytes) else str(query)
    text = " ".join(text.split())
    return "" if text.startswith(UNSEEN) else text


class DatabaseWrapper(base.DatabaseWrapper):
    """Django's wrapper, with connections that step."""

    def connect(self) -> None:
        actor = actor_here()
        if actor is None:
            super().connect()
            return
        actor.is_connecting = True
        try:
            super().connect()
        finally:
            actor.is_connecting = False

    def get_new_connection(self, conn_params: dict[str, Any]) -> SteppedConnection:
        self.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        while _kept:
            connection = _kept.pop()
            if not connection.closed:
                return connection
        return SteppedConnection.connect(**conn_params)

    def _close(self) -> None:
        connection, actor = self.connection, actor_here()
        if connection is None:
            return
        is_sound = not connection.closed and connection.pgconn.transaction_status == TransactionStatus.IDLE
        if is_sound and not (actor and actor.is_dead):
            connection.obey(read_only=False)
            _kept.append(connection)
        else:
            pid = connection.pgconn.backend_pid if not connection.closed else None
            connection.pgconn.finish()
            if actor is not None and pid is not None:
                actor.baton.monitor.end_backend(pid)
