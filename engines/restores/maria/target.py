"""The server of a restore, asked before a dump is fetched, which may take hours: the needs of the database that it does
not meet, and the things that the account may not do there. `needs` of `database.json` is not trusted: it is compared
and shown.
"""

import os
import socket
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Any

from engines.cleartext import is_local
from engines.mariadb.catalogue import FACT
from engines.restores.maria.at_source import AtSource, text_of
from engines.restores.terms import Terms, needs_trust
from external.processes.rows import texts
from storage.restoring.base import RestoreRefused

ASK = """
SELECT CONCAT('{fact}right ', PRIVILEGE_TYPE, IF(IS_GRANTABLE = 'YES', ' granted on', ''))
  FROM information_schema.USER_PRIVILEGES
 WHERE GRANTEE = CONCAT('''', REPLACE(CURRENT_USER(), '@', '''@'''), '''');
SELECT CONCAT('{fact}right ', PRIVILEGE_TYPE, IF(IS_GRANTABLE = 'YES', ' granted on', ''))
  FROM information_schema.SCHEMA_PRIVILEGES
 WHERE GRANTEE = CONCAT('''', REPLACE(CURRENT_USER(), '@', '''@'''), '''') AND {name} LIKE TABLE_SCHEMA;
SELECT CONCAT('{fact}account ', CURRENT_USER());
/*M!100005 SELECT CONCAT('{fact}role ', CURRENT_ROLE()) */;
SELECT CONCAT('{fact}engine ', LOWER(ENGINE)) FROM information_schema.ENGINES WHERE SUPPORT IN ('YES', 'DEFAULT');
SELECT CONCAT('{fact}collation ', COLLATION_NAME) FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY;
/*M!101001 SELECT CONCAT('{fact}collation ', FULL_COLLATION_NAME)
  FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY */;
SELECT CONCAT('{fact}scheduler ', @@GLOBAL.event_scheduler);
SELECT CONCAT('{fact}host ', @@hostname);
SELECT CONCAT('{fact}data ', @@datadir);
SELECT CONCAT('{fact}pid ', @@pid_file);
"""
ACCOUNTS = "SELECT CONCAT('{fact}', User, '@', Host) FROM mysql.user;"
NOT_KNOWN = "the needs of its server are not known: the point was made before they were stored"
ROOM = "whether the server's disk has room for {:,} bytes, which the database had, cannot be seen from here"
NO_ACCOUNT = "accounts that the server lacks, so that their objects will fail when they are used: {}"
SHOWN = 10


class MariadbTarget:
    """The abilities of a server, and the rights of its account. Raises: what `AtSource` raises."""

    def __init__(self, server: AtSource, database: str) -> None:
        self.server, self.database = server, database
        self.has = defaultdict[str, set[str]](set)
        for each in server.ask(ASK.format(fact=FACT, name=text_of(database))):
            kind, _, value = each.partition(" ")
            self.has[kind].add(value)

    def check(self, terms: Terms) -> None:
        """Check the account's rights. Raises: RestoreRefused if the account may not make the database, or if the dump
        would run with all rights of the account and no one has allowed that.
        """
        [account] = self.has["account"]
        if not (terms.trusted or self._may("CREATE USER")):
            raise RestoreRefused(needs_trust(account, self.server.source.name))
        if not self._may("CREATE"):
            raise RestoreRefused(
                f"{self.server.source.name}: the account {account} may not create the database {self.database!r}: "
                "GRANT ALL ON it, WITH GRANT OPTION, and CREATE USER ON *.*"
            )

    def lacks(self, needs: dict[str, Any]) -> list[str]:
        """The things that would be left out."""
        found = [
            f"storage engine {each}: the server does not have it, and its tables are left out, or get another one"
            for each in texts(needs, "engines")
            if each.lower() not in self.has["engine"]
        ]
        found += [
            f"collation {each}: the server does not know it, and tables that use it are left out"
            for each in texts(needs, "collations")
            if each not in self.has["collation"]
        ]
        others = [each for each in texts(needs, "definers") if each not in self.has["account"]]
        if others and not (self._may("SET USER") or self._may("SUPER")):
            found.append(f"the objects of {_shown(others)}: the account lacks the right SET USER")
        if self.has["scheduler"] == {"ON"}:
            found += [f"event {each}: the server runs events, so it is left to you" for each in texts(needs, "events")]
        return found

    def notes(self, needs: dict[str, Any]) -> list[str]:
        """Facts that are good to know and do not mean that anything is missing. Raises: RestoreRefused if there is no
        room.
        """
        if not needs:
            return [NOT_KNOWN]
        found = list[str]()
        with suppress(RestoreRefused):
            there = {*self.server.ask(ACCOUNTS.format(fact=FACT))}
            if missing := [each for each in texts(needs, "definers") if each not in there]:
                found.append(NO_ACCOUNT.format(_shown(missing)))
        return [*found, *self._room(needs.get("bytes"))]

    def _may(self, right: str) -> bool:
        """True if the account has a right, as far as is known: those of a role are not listed."""
        return bool(self.has["role"] - {"NULL"}) or bool({right, f"{right} granted on"} & self.has["right"])

    def _room(self, size: Any) -> list[str]:
        if not isinstance(size, int) or size <= 0:
            return []
        free = self._free()
        if free is None:
            return [ROOM.format(size)]
        if free < size:
            raise RestoreRefused(
                f"the database had {size:,} bytes, and the disk of {self.server.source.name} has {free:,} free: make "
                "room there"
            )
        return []

    def _free(self) -> int | None:
        """The free bytes, if this very server has its data on this host; None if not known."""
        [data], [pid], [host] = self.has["data"], self.has["pid"], self.has["host"]
        with suppress(OSError, ValueError):
            if is_local(self.server.source.address) and host == socket.gethostname():
                os.kill(int((Path(data) / pid).read_text()), 0)
                found = os.statvfs(data)
                return found.f_bavail * found.f_frsize
        return None


def _shown(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (", …" if len(names) > SHOWN else "")
