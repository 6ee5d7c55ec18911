"""The server of a restore, asked before a dump is fetched, which may take hours: the needs of the database that it does
not meet, in the words that the restore would use afterwards.

`needs` of `database.json` lists these needs. It comes from a repository and is not trusted: its names are compared and
shown, and no statement contains them.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from engines.base import SourceSpec
from engines.cleartext import is_local
from engines.restores.pg import databases, logins, roles
from engines.restores.pg.databases import Properties
from engines.restores.terms import Terms, needs_trust
from external.processes.rows import rows_in, texts
from storage.restoring.base import RestoreRefused

ASK = """
SELECT json_build_object(
  'version', current_setting('server_version_num')::int,
  'role', current_user,
  'superuser', r.rolsuper,
  'makes_roles', r.rolsuper OR r.rolcreaterole,
  'extensions', (
    SELECT json_object_agg(name, by_superuser) FROM (
      SELECT v.name, bool_and(v.superuser AND coalesce(to_jsonb(v) ->> 'trusted', '') <> 'true') AS by_superuser
        FROM pg_available_extension_versions v GROUP BY v.name) e),
  'tablespaces', (SELECT json_agg(spcname) FROM pg_tablespace),
  'collations', (SELECT json_agg(DISTINCT collname) FROM pg_collation WHERE collnamespace = 'pg_catalog'::regnamespace),
  'providers', (SELECT json_agg(DISTINCT collprovider) FROM pg_collation WHERE collname <> 'unicode'),
  'roles', (SELECT json_agg(rolname) FROM pg_roles))
  FROM pg_roles r WHERE r.rolname = current_user
"""
"""One collation of ICU is listed even by a server that is built without it: `unicode`."""
STARTED = "SELECT current_setting('data_directory', true), extract(epoch FROM pg_postmaster_start_time())::bigint"
BELOW_16 = "a server below 16 does not accept it as pg_dump writes it"
NOT_KNOWN = "the needs of its server are not known: the point was made before they were stored"
OLDER = (
    "the server is PostgreSQL {}, and the database comes from {}: features that the server lacks are left out and named"
)
ROOM = "whether the server's disk has room for {:,} bytes, which the database had, cannot be seen from here"


class PostgresqlTarget:
    """The abilities of a server. `has`: the answer to `ASK`."""

    def __init__(self, server: Any) -> None:
        self.server = server
        [self.has] = server.execute(ASK).fetchone()

    @property
    def is_superuser(self) -> bool:
        return bool(self.has["superuser"])

    def lacks(self, like: Properties | None, lines: Iterable[str], terms: Terms) -> list[str]:
        """The things that would be left out. `lines`: of globals.sql."""
        found = roles.foreseen(lines, {*self.has["roles"]}, with_rights=terms.roles_with_rights)
        if found.names and not self.has["makes_roles"]:
            names = ", ".join(found.names)
            found.left.append(f"roles {names}: {self.has['role']} may not make them: ALTER ROLE … CREATEROLE")
        if like is None:
            return found.left
        has = set(self.has["providers"] or ()), set(self.has["tablespaces"])
        of_database = databases.foreseen(self.server, like, *has)
        return [*found.left, *of_database, *self._objects(like.needs, terms)]

    def check_login(self, source: SourceSpec, terms: Terms) -> None:
        """Check that a login can be made. Raises: RestoreRefused if the dump would run with all rights of the account,
        and no one has allowed that.
        """
        if not (terms.trusted or self.has["makes_roles"]):
            account = self.has["role"]
            raise RestoreRefused(needs_trust(account, source.name, logins.MAY_NOT.format(account=account)))

    def notes(self, source: SourceSpec, like: Properties | None) -> list[str]:
        """Facts that are good to know and do not mean that anything is missing. Raises: RestoreRefused if there is no
        room.
        """
        needs = like.needs if like else {}
        if not isinstance(version := needs.get("version"), int):
            return [NOT_KNOWN]
        major, here = version // 10000, self.has["version"] // 10000
        older = [OLDER.format(here, major)] if here < major else []
        return [*older, *self._room(source, needs.get("bytes"))]

    def _objects(self, needs: dict[str, Any], terms: Terms) -> Iterator[str]:
        for name in texts(needs, "extensions"):
            if (by_superuser := self.has["extensions"].get(name)) is None:
                yield f"EXTENSION {name}: the server does not have it: install it there"
            elif by_superuser and not self.is_superuser:
                yield f"EXTENSION {name}: only a superuser may make it there"
        for name in texts(needs, "tablespaces"):
            if name not in self.has["tablespaces"]:
                yield f"TABLESPACE {name}: the server does not have it: its tables go into the default one"
        for each in rows_in(needs, "collations"):
            schema, name = str(each.get("schema")), str(each.get("name"))
            is_usual = schema == "pg_catalog"
            if name not in self.has["collations"] if is_usual else each.get("provider") not in self.has["providers"]:
                yield f"COLLATION {schema}.{name}: the server does not have it, and no table that needs it is made"
        left_out = "it is made with all rights of a superuser only" if not (terms.trusted and self.is_superuser) else ""
        if left_out:
            yield from (f"EVENT TRIGGER {name}: {left_out}" for name in texts(needs, "event_triggers"))
        if text := left_out or (BELOW_16 if self.has["version"] < 160000 else ""):
            yield from (f"SUBSCRIPTION {name}: {text}" for name in texts(needs, "subscriptions"))

    def _room(self, source: SourceSpec, size: Any) -> list[str]:
        if not isinstance(size, int) or size <= 0:
            return []
        free = self._free(source)
        if free is None:
            return [ROOM.format(size)]
        if free < size:
            raise RestoreRefused(
                f"the database had {size:,} bytes, and the disk of {source.name} has {free:,} free: make room there"
            )
        return []

    def _free(self, source: SourceSpec) -> int | None:
        """The free bytes, if this very server has its data on this host; None if not known."""
        import psycopg

        with suppress(psycopg.errors.InsufficientPrivilege, OSError, ValueError, IndexError):
            folder, started = self.server.execute(STARTED).fetchone()
            if folder and is_local(source.address):
                said = (Path(folder) / "postmaster.pid").read_text().splitlines()
                if abs(int(said[2]) - started) <= 2:
                    found = os.statvfs(folder)
                    return found.f_bavail * found.f_frsize
        return None
