"""The catalogue of a MariaDB or MySQL database and the grants of its account, asked before a dump and compared with it:
mariadb-dump silently leaves out triggers, routines and events that its account may not see. Pure.

A server lists for an account only objects on which it has some right. So the grants show the objects that may exist
unseen, and the lists show those that the dump must hold.
"""

import re
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from engines.mariadb.reading import DumpContents

FACT = "fact "
"""The beginning of a query's result, which distinguishes it from the warnings of a program."""
MOST_LINES = 200_000
SHOWN = 20
MOST_NEEDS = 100
QUERIES = f"""
SHOW SESSION STATUS LIKE 'Ssl_cipher';
SELECT CONCAT('{FACT}account ', HEX(CURRENT_USER()));
SELECT CONCAT('{FACT}', REPLACE(LOWER(TABLE_TYPE), ' ', '-'), ' ', HEX(TABLE_NAME), ' ', IFNULL(ENGINE, ''))
  FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE();
SELECT CONCAT('{FACT}trigger ', HEX(TRIGGER_NAME)) FROM information_schema.TRIGGERS
 WHERE TRIGGER_SCHEMA = DATABASE();
SELECT CONCAT('{FACT}', REPLACE(LOWER(ROUTINE_TYPE), ' ', '-'), ' ', HEX(ROUTINE_NAME))
  FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = DATABASE();
SELECT CONCAT('{FACT}event ', HEX(EVENT_NAME)) FROM information_schema.EVENTS WHERE EVENT_SCHEMA = DATABASE();
SELECT CONCAT('{FACT}charset ', HEX(DEFAULT_CHARACTER_SET_NAME)) FROM information_schema.SCHEMATA
 WHERE SCHEMA_NAME = DATABASE();
SELECT CONCAT('{FACT}collation ', HEX(DEFAULT_COLLATION_NAME)) FROM information_schema.SCHEMATA
 WHERE SCHEMA_NAME = DATABASE();
/*M!100500 SELECT CONCAT('{FACT}comment ', HEX(SCHEMA_COMMENT)) FROM information_schema.SCHEMATA
 WHERE SCHEMA_NAME = DATABASE() */;
SELECT CONCAT('{FACT}bytes ', HEX(CONCAT(IFNULL(SUM(DATA_LENGTH + INDEX_LENGTH), 0))))
  FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE();
SELECT DISTINCT CONCAT('{FACT}needs-collation ', HEX(COLLATION_NAME)) FROM information_schema.COLUMNS
 WHERE TABLE_SCHEMA = DATABASE() AND COLLATION_NAME IS NOT NULL;
SELECT DISTINCT CONCAT('{FACT}definer ', HEX(DEFINER)) FROM (
  SELECT DEFINER FROM information_schema.VIEWS WHERE TABLE_SCHEMA = DATABASE()
  UNION SELECT DEFINER FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = DATABASE()
  UNION SELECT DEFINER FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = DATABASE()
  UNION SELECT DEFINER FROM information_schema.EVENTS WHERE EVENT_SCHEMA = DATABASE()) d;
SHOW GRANTS;
"""
"""Names are in hexadecimal digits: as text, a client would escape some of them."""
PROPERTIES = ("charset", "collation", "comment")
TRANSACTIONAL = ("InnoDB", "ROCKSDB")
VERSIONED = "system-versioned"
UNFINISHED = "backupsched_unfinished"
"""A table that a restore leaves in its database until the database is whole."""
IN_DUMP = {
    "base-table": "table", VERSIONED: "table", "view": "view", "sequence": "sequence", "trigger": "trigger",
    "function": "function", "procedure": "procedure", "package": "package", "package-body": "package-body",
    "event": "event",
}  # fmt: skip
"""The server's name for a kind of object → the name that `reading` uses."""
NEEDED = ("SELECT", "SHOW VIEW", "TRIGGER", "EVENT")
WHY = {
    "SELECT": "tables that the account may not see",
    "SHOW VIEW": "the texts of views",
    "TRIGGER": "triggers",
    "EVENT": "events",
}
GRANT = re.compile(
    r"GRANT (?P<rights>.+?) ON (?:TABLE )?(?P<database>\*|`(?:[^`]|``)+`)\.(?P<object>\*|`(?:[^`]|``)+`) TO "
)
ALL = "ALL PRIVILEGES"
TORN = "not of the same moment as the rest, since these tables know no transactions: {}"
WITHOUT_HISTORY = (
    "the earlier rows of system-versioned tables are not kept, which needs MariaDB's mariadb-dump from 10.11 on: {}"
)
ROUTINES = "procedures and functions that the account may not see are not kept, if there are any: {}"


@dataclass
class MariadbCatalogue:
    """The objects that a server lists for the account of a source: hexadecimal names by kind, lines of grants, tables
    without transactions. `cipher`: of the connection; empty if it is not encrypted.
    """

    database: str
    objects: dict[str, set[bytes]] = field(default_factory=lambda: defaultdict(set))
    properties: dict[str, str] = field(default_factory=dict)
    torn: list[str] = field(default_factory=list)
    grants: list[str] = field(default_factory=list)
    engines: set[str] = field(default_factory=set)
    account: str = ""
    cipher: str = ""
    lines: int = 0

    def take(self, line: str) -> None:
        """Take a line of the answers to `QUERIES`. Raises: ValueError when there are too many."""
        self.lines += 1
        if self.lines > MOST_LINES:
            raise ValueError("the server lists more objects than a database has")
        if line.startswith("Ssl_cipher\t"):
            self.cipher = line.partition("\t")[2]
        elif line.startswith("GRANT "):
            self.grants.append(line.replace(r"\\", "\\"))
        elif line.startswith(FACT):
            kind, _, rest = line.removeprefix(FACT).partition(" ")
            name, _, engine = rest.partition(" ")
            found = bytes.fromhex(name)
            if kind == "account":
                user, _, host = found.decode(errors="replace").rpartition("@")
                self.account = f"'{user}'@'{host}'"
                return
            if kind in PROPERTIES:
                self.properties[kind] = found.decode(errors="replace")
                return
            self.objects[kind].add(found)
            self.engines |= {engine} if engine else set()
            if kind in ("base-table", VERSIONED) and engine not in TRANSACTIONAL:
                self.torn.append(f"{_shown(found)} ({engine})")

    @property
    def needs(self) -> dict[str, Any]:
        """The things that a server must have for this database, so that a restore can ask for them before it fetches
        the dump.
        """
        listed = {
            "collations": sorted(map(_shown, self.objects["needs-collation"])), "engines": sorted(self.engines),
            "definers": sorted(map(_shown, self.objects["definer"])),
            "events": sorted(map(_shown, self.objects["event"])),
        }  # fmt: skip
        [size] = self.objects["bytes"] or {b"0"}
        return {"bytes": int(size)} | {name: each[:MOST_NEEDS] for name, each in listed.items()}

    @property
    def is_unfinished(self) -> bool:
        """True if a restore is making the database, or was interrupted while it did."""
        return UNFINISHED.encode() in self.objects["base-table"]

    @property
    def has_tables(self) -> bool:
        """True if it lists a table whose rows a dump must hold."""
        return bool(self.objects.get("base-table") or self.objects.get(VERSIONED))

    @property
    def lacking(self) -> str:
        """The rights on the database that the account lacks, in a sentence with the cure; empty if it lacks none, or
        that is not known.
        """
        rights = [each for each in NEEDED if not self._has(each, self.database)]
        if not self.grants or not rights:
            return ""
        what = ", ".join(WHY[each] for each in rights)
        return f"the account lacks a right, so {what} are not kept: {self._grant(rights)}"

    @property
    def without_routines(self) -> str:
        """The reason why some procedures may be missing from the dump; empty if the account may see and read all."""
        reads = self._has("SELECT", "mysql") or self._has("SHOW_ROUTINE", "")
        if (
            not self.grants
            or reads
            or self._has("SHOW CREATE ROUTINE", self.database)
            or self._has("EXECUTE", self.database)
        ):
            return ""
        return ROUTINES.format(f"GRANT SELECT ON mysql.* TO {self.account}")

    def warnings(self, *, with_history: bool) -> tuple[str, ...]:
        """The things that a dump will lack, or have from another moment. `with_history`: True if it has the earlier
        rows of system-versioned tables.
        """
        versioned = [] if with_history else sorted(self.objects.get(VERSIONED, ()))
        found = [
            self.lacking,
            self.without_routines,
            self.torn and TORN.format(listed(self.torn)),
            versioned and WITHOUT_HISTORY.format(listed([_shown(each) for each in versioned])),
        ]
        return tuple(str(each) for each in found if each)

    def missing_in(self, contents: DumpContents) -> list[str]:
        """Objects that the server listed and a dump does not hold, such as `trigger numbered`."""
        found = list[str]()
        for kind, names in self.objects.items():
            if kind in IN_DUMP:
                there = {each.lower() for each in contents.objects[IN_DUMP[kind]]}
                word = IN_DUMP[kind].replace("-", " ")
                found += [f"{word} {_shown(name)}" for name in sorted(names) if name.lower() not in there]
        return found

    def _has(self, right: str, database: str) -> bool:
        return any(
            right in rights or ALL in rights for rights, of in self._granted() if of is None or of.fullmatch(database)
        )

    def _granted(self) -> list[tuple[set[str], re.Pattern[str] | None]]:
        """Rights on all databases (None), or on those whose name a pattern matches."""
        found = []
        for line in self.grants:
            if (granted := GRANT.match(line)) and granted["object"] == "*":
                rights = {each.strip() for each in granted["rights"].split(",")}
                database = granted["database"]
                found.append((rights, None if database == "*" else _pattern(database[1:-1].replace("``", "`"))))
        return found

    def _grant(self, rights: Collection[str]) -> str:
        return f"GRANT {', '.join(rights)} ON `{self.database.replace('`', '``')}`.* TO {self.account}"


def _pattern(like: str) -> re.Pattern[str]:
    """The pattern of a grant, whose database is a pattern of LIKE. The text between two `%` is matched at its first
    occurrence, without backtracking: otherwise trying a server's pattern with many `%` could take years.
    """
    found = [""]
    for each in re.findall(r"\\.|.", like, re.DOTALL):
        if each == "%":
            found.append("")
        else:
            found[-1] += "." if each == "_" else re.escape(each.removeprefix("\\"))
    first, *between = found
    if not between:
        return re.compile(first, re.DOTALL)
    inner = "".join(f"(?>.*?{each})" for each in between[:-1])
    return re.compile(f"{first}{inner}.*{between[-1]}", re.DOTALL)


def _shown(name: bytes) -> str:
    return name.decode(errors="replace")


def listed(names: Collection[str]) -> str:
    """The first of the names, in a line."""
    return ", ".join(list(names)[:SHOWN]) + (", …" if len(names) > SHOWN else "")
