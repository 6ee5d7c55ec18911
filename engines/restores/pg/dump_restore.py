"""Makes a database at the server of a source, and fills it with a dump.

1. The database that an interrupted restore of that name has left is dropped, with its login.
2. The source's account makes the database. Unless the dump is trusted, it makes a login that owns this database and
   nothing else (`logins.py`), in one transaction.
3. As long as the database is empty, it makes the extensions.
4. The login loads the dump (`steps.py`). Then it is closed: nothing of the dump runs after that.
5. The source's account hands objects over to their owners (`owners.py`), and gives the database comment, rights and
   settings.
6. In one transaction the database gets its name and its owner, so a database with that name is whole. The login is
   dropped, or owns, closed, the objects that are given to no one.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, Any

from engines.base import SourceSpec
from engines.restores.pg import databases, logins, owners
from engines.restores.pg.connections import connected, loader_into
from engines.restores.pg.contents import DatabaseContents, read
from engines.restores.pg.databases import Properties
from engines.restores.pg.steps import LoadResult, load
from engines.restores.scratch import Scratch
from engines.restores.terms import Terms
from storage.points.store import Store
from storage.restoring.base import RestoreRefused

UNFINISHED = ".unfinished"
LONGEST_NAME = 63
FIRST_WITH_FORCE = 130000


@dataclass
class DumpRestore:
    """A restore of one dump into a new database. `server`: a connection of the source's account; `like`: the properties
    of the new database, as far as they are known; `apart`: the account and the programs that load the dump.
    """

    server: Any
    source: SourceSpec
    store: Store
    dump: int
    like: Properties | None
    apart: Scratch | None
    terms: Terms

    def make(self, name: str) -> LoadResult:
        """Make the database and fill it. Raises: RestoreRefused for an error that the server answered, and if the dump
        has to be trusted; TargetFailed when the server went away; psycopg.Error; the exceptions of the loader.
        """
        from psycopg import sql

        unfinished = name.encode()[: LONGEST_NAME - len(UNFINISHED)].decode(errors="ignore") + UNFINISHED
        self._drop(unfinished, logins.left_by(self.server, unfinished))
        try:
            loaded, like = self._filled(unfinished)
            names, login = (sql.Identifier(unfinished), sql.Identifier(name)), logins.left_by(self.server, unfinished)
            # only its owner may rename it
            with self.server.transaction():
                self.server.execute(sql.SQL("ALTER DATABASE {} RENAME TO {}").format(*names))
                self.server.execute(sql.SQL("ALTER DATABASE {} OWNER TO CURRENT_USER").format(names[1]))
                databases.give_to_owner(self.server, name, like)
        except BaseException:
            import psycopg

            with suppress(psycopg.Error):  # if the server went away, the first error reports it
                self._drop(unfinished, logins.left_by(self.server, unfinished))
            raise
        if login:
            logins.drop(self.server, login)
        loaded.lacking += like.left
        return loaded

    def _drop(self, database: str, role: str) -> None:
        from psycopg import sql

        # a statement of a killed restore may run for hours, such as one that makes an index
        force = " WITH (FORCE)" if self.server.info.server_version >= FIRST_WITH_FORCE else ""
        self.server.execute(sql.SQL("DROP DATABASE IF EXISTS {}" + force).format(sql.Identifier(database)))
        if role:
            logins.drop(self.server, role)

    def _filled(self, database: str) -> tuple[LoadResult, Properties]:
        with loader_into(database, self.store, self.source, self.apart) as loader:
            contents = read(loader, self.dump)
        like = self.like or databases.of_source(self.server, self.source.path, contents.encoding)
        databases.create(self.server, database, like)
        if self.terms.trusted:
            loaded = self._loaded(database, contents, self.source)
        else:
            loaded = self._loaded_by_a_login(database, contents)
        if loaded.failures and contents.rows and not loaded.tables:
            raise RestoreRefused(f"{self.source.name} accepts nothing of it; the first error: {loaded.failures[0]}")
        # facts shared among databases are stored in the encoding of the database in which they were stated
        with self._inside(database) as inside:
            databases.furnish(inside, database, like)
        return loaded, like

    def _loaded(self, database: str, contents: DatabaseContents, account: SourceSpec, **how: Any) -> LoadResult:
        with loader_into(database, self.store, account, self.apart, **how) as loader:
            return load(loader, self.dump, contents)

    def _loaded_by_a_login(self, database: str, contents: DatabaseContents) -> LoadResult:
        login = logins.let_in(self.server, logins.make(self.server, self.source, database), database)

        def make_ahead(script: IO[bytes]) -> set[str]:
            with self._inside(database) as inside:
                return owners.make_ahead(inside, login.role, script)

        how = {"left_out": ("--no-owner",), "make_ahead": make_ahead}
        loaded = self._loaded(database, contents, login.account, **how)
        logins.close(self.server, login, database)
        with self._inside(database) as inside, loader_into(database, self.store, self.source, self.apart) as loader:
            loaded.failures = owners.say_again(inside, loaded.failures, contents.encoding)
            given = owners.hand_over(inside, loader, self.dump, contents.encoding)
        loaded.failures += given.failures
        loaded.notes += given.notes(login.role)
        return loaded

    @contextmanager
    def _inside(self, database: str) -> Iterator[Any]:
        """A connection of the source's account in the new database."""
        with connected(self.source, (database,)) as inside:
            yield inside
