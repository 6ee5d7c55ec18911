"""The contents of a PostgreSQL dump, as pg_restore reads them: objects, and the number of rows of each table."""

import codecs
import re
from dataclasses import dataclass, field

from engines.restores.pg.loader import Loader
from storage.restoring.base import TargetFailed

IDENTIFIER = r'(?:"(?:[^"]|"")+"|[a-z_][a-z0-9_$]*)'
COPY = re.compile(rf"COPY ({IDENTIFIER}\.{IDENTIFIER}) (?:\(.*\) )?FROM stdin;")
ENCODING = re.compile(r"SET client_encoding = '(\w+)';")
FROM = re.compile(r";\s+Dumped from database version: (\d+)\b.*")
ENTRY = re.compile(r"(\d+); \d+ \d+ (.+)")
KINDS = (
    "MATERIALIZED VIEW DATA", "TEXT SEARCH CONFIGURATION", "TEXT SEARCH DICTIONARY", "TEXT SEARCH TEMPLATE",
    "SEQUENCE OWNED BY", "TEXT SEARCH PARSER", "DATABASE PROPERTIES", "FOREIGN DATA WRAPPER", "MATERIALIZED VIEW",
    "PUBLICATION TABLES IN SCHEMA", "PUBLICATION TABLE", "PROCEDURAL LANGUAGE", "SUBSCRIPTION TABLE",
    "CHECK CONSTRAINT", "OPERATOR FAMILY", "STATISTICS DATA", "OPERATOR CLASS", "ACCESS METHOD", "EVENT TRIGGER",
    "FOREIGN SERVER", "FOREIGN TABLE", "SECURITY LABEL", "BLOB METADATA", "FK CONSTRAINT", "ROW SECURITY",
    "INDEX ATTACH", "SEQUENCE SET", "TABLE ATTACH", "USER MAPPING", "DEFAULT ACL", "TABLE DATA", "LARGE OBJECT",
    "SHELL TYPE", "LARGE OBJECTS",
)  # fmt: skip
"""Kinds of objects with more than one word."""


@dataclass
class DatabaseContents:
    """The contents of a dump. `rows` by table, quoted as in SQL; `objects`: the number of an entry → its kind and name,
    such as `TABLE DATA public.orders`; `version`: major version of the server that was dumped; 0 if not known.
    """

    encoding: str = "UTF8"
    rows: dict[str, int] = field(default_factory=dict)
    objects: dict[int, str] = field(default_factory=dict)
    version: int = 0

    def shown(self, name: str) -> str:
        """A name for users: in a dump it has the bytes of the dump's encoding."""
        return name.encode(errors="surrogateescape").decode(codec_of(self.encoding), errors="replace")


def codec_of(encoding: str) -> str:
    """Python's name for an encoding of PostgreSQL; that of UTF-8 for an unknown one."""
    name = re.sub(r"^WIN(?=\d)", "cp", encoding).replace("KOI8", "KOI8_")
    try:
        b"".decode(found := codecs.lookup(name).name)
    except (LookupError, UnicodeError):  # unknown, or no encoding of texts, such as hex
        return "utf-8"
    return found


def read(loader: Loader, dump: int) -> DatabaseContents:
    """Read a dump whole, once. Raises: TargetFailed if it cannot be read; the exceptions of the loader."""
    found, table = DatabaseContents(), [""]

    def take_entry(line: str) -> None:
        if entry := ENTRY.fullmatch(line):
            found.objects[int(entry[1])] = name_of(entry[2])
        elif dumped := FROM.fullmatch(line):
            found.version = int(dumped[1])

    def take_row(line: str) -> None:
        if table[0]:
            if line == "\\.":
                table[0] = ""
            else:
                found.rows[table[0]] += 1
        elif copy := COPY.fullmatch(line):
            table[0] = copy[1]
            found.rows.setdefault(copy[1], 0)
        elif encoding := ENCODING.fullmatch(line):
            found.encoding = encoding[1]

    for take, options in ((take_entry, ("--list",)), (take_row, ("--section=data", "--file=-"))):
        ended = loader.read(dump, options, take)
        if ended.exit_code:
            raise TargetFailed(f"its dump cannot be read: {' '.join(ended.last_lines[-1:])}")
    return found


def name_of(entry: str) -> str:
    """The kind and name of an entry (kind, schema, name, owner), such as `TABLE DATA public.orders` from `TABLE DATA
    public orders anna`.
    """
    kind = next((each for each in KINDS if entry.startswith(f"{each} ")), entry.partition(" ")[0])
    named = entry.removeprefix(kind).strip().rpartition(" ")[0] or entry.removeprefix(kind).strip()
    schema, _, name = named.partition(" ")
    return f"{kind} {name if schema == '-' else f'{schema}.{name}'}".strip(" .")
