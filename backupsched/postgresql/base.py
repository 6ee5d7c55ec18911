import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from django.db.backends.postgresql import base, client
from psycopg import OperationalError
from psycopg.errors import ConnectionTimeout

from backupsched.embedded import EmbeddedDatabaseAway, Server

START_AGAIN_AFTER_SECONDS = 5.0
_failed_starts: dict[str, tuple[float, str]] = {}


class DatabaseClient(client.DatabaseClient):
    """`manage.py dbshell`: psql, with the password that is in no setting."""

    @classmethod
    def settings_to_cmd_args_env(cls, settings_dict: dict[str, Any], parameters: Iterable[str]) -> Any:
        server = Server(Path(settings_dict["EMBEDDED_IN"]))
        server.ensure_running()
        return super().settings_to_cmd_args_env({**settings_dict, "PASSWORD": server.password()}, parameters)


class DatabaseWrapper(base.DatabaseWrapper):
    """Connects to the embedded server of `EMBEDDED_IN` (a var directory), which it starts if need be."""

    client_class = DatabaseClient

    def get_connection_params(self) -> dict[str, Any]:
        params: dict[str, Any] = super().get_connection_params()
        params["password"] = self._server().password()
        return params

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        try:
            return super().get_new_connection(conn_params)
        except ConnectionTimeout:
            raise  # it runs, and does not answer: all who would start it would wait for each other, and ask it in turn
        except OperationalError:
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
