"""Connections to the server of a source: those of this process, and those of the programs that load a dump there."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from engines.base import SourceSpec
from engines.cleartext import libpq_parameters
from engines.postgresql.engine import connection_environment, hosts_of
from engines.restores import loading
from engines.restores.pg.loader import Loader
from engines.restores.scratch import Scratch, ran
from external.processes.runner import ProgramEnd
from storage.points.store import Store

CONNECT_SECONDS = 30


@contextmanager
def loader_into(database: str, store: Store, source: SourceSpec, apart: Scratch | None, **how: Any) -> Iterator[Loader]:
    """A `Loader` into a database of the source's server. `source`: with the account that loads; `how`: other fields of
    the `Loader`.
    """
    from psycopg.conninfo import make_conninfo

    environment = connection_environment(source, CONNECT_SECONDS)
    parameters = libpq_parameters(source.secret, source.options)
    with loading.handed_over(parameters.get("sslrootcert", "")) as (certificates, inherited):

        def run(
            argv: tuple[str, ...],
            on_line: Callable[[str], None] = lambda line: None,
            more: tuple[int, ...] = (),
            **how: Any,
        ) -> ProgramEnd:
            return ran(store, argv, environment, on_line, inherited=(*inherited, *more), **how)

        def program(name: str) -> str:
            return loading.loader_of(name, source, apart)[0]

        parameters |= {"sslrootcert": certificates} if certificates else {}
        to = (f"--dbname={make_conninfo(dbname=database, **parameters)}",)
        yield Loader(run, program, to, account=loading.loader_of("pg_restore", source, apart)[1], **how)


def connected(source: SourceSpec, databases: tuple[str, ...] = ()) -> Any:
    """A connection to the server of a source, at the first of these databases that lets it in: usually one for
    maintenance.

    Raises: psycopg.OperationalError, that of the first database; RunEnded if the source has no address.
    """
    import psycopg
    from psycopg.conninfo import make_conninfo

    first: psycopg.OperationalError | None = None
    for database in databases or ("postgres", source.path, "template1"):
        parameters = {
            **hosts_of(source), "port": str(source.port or 5432), "dbname": database, "application_name": "restore",
            "connect_timeout": str(CONNECT_SECONDS), "client_encoding": "UTF8",
            "user": str(source.options.get("user", "")), "password": source.secret or "",
            "require_auth": "!gss,!sspi", **libpq_parameters(source.secret, source.options),
        }  # fmt: skip
        try:
            given = make_conninfo(**{name: value for name, value in parameters.items() if value})
            found = psycopg.connect(given, autocommit=True)
        except psycopg.OperationalError as error:
            first = first or error
        else:
            # so that no function which a dump has put into a schema is taken for one of the server
            found.execute("SET search_path = ''")
            return found
    raise first or AssertionError
