"""Statements of a dump by the lines at which mariadb reports errors, and which of them make an object that names an
account: a view, trigger, routine or event with a DEFINER. Pure.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import IO

from engines.mariadb.reading import DELIMITER, INSERT
from engines.restores.maria.database_names import lines_of

LONGEST = 2**20
SETTING = re.compile(
    rb"(?:/\*!\d+ )?SET (sql_mode|character_set_client|character_set_results|collation_connection|time_zone)\s*+=\s*+"
    rb"'?([\w,+:/-]*+)'?\s*+(?:\*/)?\s*+;",
    re.IGNORECASE,
)
"""A setting with which an object was made, and is made again."""
MARKS = re.compile(rb"/\*!(?:50001|50003|50013|50017|50020|50106|50117) |\*/")
"""Executable comments that dumps have: any server runs the text in them."""
QUOTED = rb"`(?:[^`]|``)+`"
ANY = rb"(?:" + QUOTED + rb"|\"(?:[^\"]|\"\")+\"|[\w$]+)"
DEFINITION = re.compile(
    rb"CREATE\s+(?:OR\s+REPLACE\s+)?(?:ALGORITHM\s*=\s*\w+\s+)?DEFINER\s*=\s*" + ANY + rb"(?:@" + ANY + rb")?\s+"
    rb"(?:SQL\s+SECURITY\s+\w+\s+)?(?:AGGREGATE\s+)?"
    rb"(?P<kind>TRIGGER|VIEW|FUNCTION|PROCEDURE|EVENT|PACKAGE\s+BODY|PACKAGE)\s+"
    rb"(?:IF\s+NOT\s+EXISTS\s+)?(?P<name>" + ANY + rb")(?P<next>\s*\(|\s)",
    re.IGNORECASE,
)
"""A definition without a database before its name: it is made in the restored database."""
OTHERS = (
    ("table", re.compile(rb"CREATE TABLE (?:IF NOT EXISTS )?(" + QUOTED + rb")")),
    ("sequence", re.compile(rb"CREATE SEQUENCE (?:IF NOT EXISTS )?(" + QUOTED + rb")")),
    ("value of sequence", re.compile(rb"DO SETVAL\((" + QUOTED + rb")")),
    ("table", re.compile(rb"(?:/\*!\d+ )?(?:ALTER|LOCK|DROP) TABLES? (?:IF EXISTS )?(" + QUOTED + rb")")),
    ("view", re.compile(rb"(?:/\*!\d+ )?(?:CREATE|DROP) VIEW (?:IF EXISTS )?(" + QUOTED + rb")")),
)


@dataclass
class DumpedStatement:
    """The statement that begins at a `line` of a dump. `text`: the whole statement, empty if it has rows; `settings`:
    of its session, by name.
    """

    line: int
    what: str
    text: bytes = b""
    settings: dict[str, str] = field(default_factory=dict)
    definition: str = ""
    """The kind of object with a DEFINER that it makes, such as `trigger`; empty if it makes none, or more than that."""


def statements_at(
    dump: IO[bytes], lines: Collection[int], on_piece: Callable[[], object] = lambda: None
) -> dict[int, DumpedStatement]:
    """The statements that begin at these lines, counted from 1, by line. `on_piece` is called now and then."""
    found, settings, wanted = dict[int, DumpedStatement](), dict[str, str](), frozenset(lines)
    number, is_new, delimiter = 0, True, b";"
    current: DumpedStatement | None = None
    for line in lines_of(dump):
        if is_new:
            number += 1
            if number % 1000 == 0:
                on_piece()
        began, is_new = is_new, line.endswith(b"\n")
        if current is None and began:
            if line.startswith(DELIMITER):
                delimiter = line.removeprefix(DELIMITER).strip() or b";"
            elif setting := SETTING.match(line):
                settings[setting[1].decode().lower()] = setting[2].decode()
            elif number in wanted:
                found[number] = current = DumpedStatement(number, "", settings=dict(settings))
        if current is not None:
            if rows := INSERT.match(line) if not current.text else None:
                found[number] = DumpedStatement(number, f"rows of table {_shown(rows[1])}")
                current = None
            elif len(current.text) <= LONGEST:
                current.text += line
            if current is not None and line.rstrip().endswith(delimiter):
                _name(current, delimiter)
                current = None
    return found


def _name(statement: DumpedStatement, delimiter: bytes) -> None:
    text = statement.text.rstrip().removesuffix(delimiter).rstrip()
    statement.text = text
    plain = MARKS.sub(b"", text).lstrip()
    if defined := DEFINITION.match(plain):
        kind = b" ".join(defined["kind"].split()).decode().lower()
        statement.what = f"{kind} {_shown(defined['name'])}"
        is_whole = len(text) <= LONGEST and b"/*" not in plain[: defined.end()] and b"#" not in plain[: defined.end()]
        # a function without arguments in parentheses would be one of a library of the server's host
        if is_whole and (kind not in ("function", "procedure") or defined["next"].strip() == b"("):
            statement.definition = kind
        return
    for what, pattern in OTHERS:
        if named := pattern.match(text):
            statement.what = f"{what} {_shown(named[1])}"
            return
    statement.what = "a statement"


def _shown(name: bytes) -> str:
    text = name.decode(errors="replace")
    return text[1:-1].replace(text[0] * 2, text[0]) if text[:1] in ("`", '"') else text
