"""Django's PostgreSQL backend, with three additions: it starts the embedded server if that does not answer, it leaves a
server that may no longer write, and it has no statement compiled.

After a failover the old primary may live on, read-only, and answer every `SELECT`. Each thread of the process has its
own connection, and most threads would never look for the new primary. So:

1. a connection is *usable* only while its server may write (Django asks before each request and after errors);
2. when one thread meets SQLSTATE 25006 (a read-only server), all of the process's connections made before are
   outdated: each is closed by its own thread, at its next use outside of a transaction, and opened again.

The URL decides where the new connection leads: several hosts with `target_session_attrs=read-write`, an address that
follows the primary, or a pooler.

A server with LLVM compiles statements that it considers expensive, up to PostgreSQL 18 without being asked to. Our long
ones look expensive next to tables that were never analysed, and are compiled for one or two seconds to run for
milliseconds.
"""

import time
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Any

from django.db.backends.postgresql import base, client
from django.db.utils import DatabaseErrorWrapper
from django.utils.functional import cached_property
from psycopg import Error, OperationalError
from psycopg.errors import ConnectionTimeout, ReadOnlySqlTransaction

from backupsched.embedded import EmbeddedDatabaseAway, Server

START_AGAIN_AFTER_SECONDS = 5.0
_failed_starts: dict[str, tuple[float, str]] = {}

_moments = count(1)
_outdated_before: dict[str, int] = {}
"""Alias → the moment before which connections were made to a server that may not write."""


class DatabaseClient(client.DatabaseClient):
    """`manage.py dbshell`: psql, with the embedded server's password, which is in no setting."""

    @classmethod
    def settings_to_cmd_args_env(cls, settings_dict: dict[str, Any], parameters: Iterable[str]) -> Any:
        if "EMBEDDED_IN" not in settings_dict:
            return super().settings_to_cmd_args_env(settings_dict, parameters)
        server = Server(Path(settings_dict["EMBEDDED_IN"]))
        server.ensure_running()
        return super().settings_to_cmd_args_env({**settings_dict, "PASSWORD": server.password()}, parameters)


class ReadOnlyServerNoticed(DatabaseErrorWrapper):
    """Translates psycopg's errors into Django's, and takes note of a server that may not write."""

    wrapper: base.DatabaseWrapper

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        if isinstance(exc_value, ReadOnlySqlTransaction):
            _outdated_before[self.wrapper.alias] = next(_moments)
        super().__exit__(exc_type, exc_value, traceback)


class DatabaseWrapper(base.DatabaseWrapper):
    """Connects to the server of the settings or, with `EMBEDDED_IN` (a var directory) in them, to the embedded one,
    which it starts if need be."""

    client_class = DatabaseClient
    _made_at = 0

    @cached_property
    def wrap_database_errors(self) -> DatabaseErrorWrapper:
        return ReadOnlyServerNoticed(self)

    def is_usable(self) -> bool:
        """True if the server answers and may write."""
        if self.connection is None:
            return False
        try:
            with self.connection.cursor() as cursor:
                row = cursor.execute("SHOW transaction_read_only").fetchone()
        except Error:
            return False
        return bool(row == ("off",))

    def ensure_connection(self) -> None:
        is_outdated = self._made_at < _outdated_before.get(self.alias, 0)
        if is_outdated and self.connection is not None and not self.in_atomic_block:
            self.close()
        super().ensure_connection()

    def get_connection_params(self) -> dict[str, Any]:
        params: dict[str, Any] = super().get_connection_params()
        if "EMBEDDED_IN" in self.settings_dict:
            params["password"] = self._server().password()
        return params

    def init_connection_state(self) -> None:
        super().init_connection_state()
        if not self.settings_dict["DISABLE_SERVER_SIDE_CURSORS"]:  # a pooler would hand the setting to other programs
            self.connection.execute("SET jit = off")

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        self._made_at = next(_moments)
        try:
            return super().get_new_connection(conn_params)
        except ConnectionTimeout:
            raise  # it runs, and does not answer: all who would start it would wait for each other, and ask it in turn
        except OperationalError:
            if "EMBEDDED_IN" not in self.settings_dict:
                raise
            # also when another process has just started it: tried once more in any case
            self._start()
            return super().get_new_connection({**conn_params, "password": self._server().password()})

    def _start(self) -> None:
        """Raises: OperationalError, also for START_AGAIN_AFTER_SECONDS after a start that failed: each thread of a
        worker that waits for room asks for one each second."""
        home = self.settings_dict["EMBEDDED_IN"]
        failed_at, why = _failed_starts.get(home, (float("-inf"), ""))
        if time.monotonic() - failed_at < START_AGAIN_AFTER_SECONDS:
            raise OperationalError(why)
        try:
            self._server().ensure_running()
        except EmbeddedDatabaseAway as error:
            _failed_starts[home] = time.monotonic(), str(error)
            raise OperationalError(str(error)) from error

    def _server(self) -> Server:
        return Server(Path(self.settings_dict["EMBEDDED_IN"]))
