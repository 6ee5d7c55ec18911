"""Restores a dump as a new database at its PostgreSQL server, never over one that is there; a drill, into a server of
its own, which lives for that only. Without Django.

It is made under another name, `<name>.unfinished`, and gets its own when it is whole. So one that has the name is
whole, and what a killed restore left is dropped by the next one of that name, with what its server still does there.

Roles that the dump needs and the server has no longer are made again, as the `globals.sql` of the point says. One that
is there stays as it is: the file would give it the password and the rights of the day of the backup.

In a drill it is restored by a role that owns one database and may do nothing else. Owners, grants and what only a
superuser can make are left out; roles that policies name are made without rights.
"""

import re
import signal
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from sources.engines.base import SourceSpec
from sources.engines.cleartext import libpq_parameters
from sources.engines.limits import Space
from sources.engines.pg_dump import DATABASE, GLOBALS, connection_environment
from sources.engines.pg_dump import errors_of as message_of
from sources.processes.runner import Ended
from sources.restores import loading
from sources.restores.scratch import NAME, Database, Scratch, Server, ran
from sources.storage import restoring
from sources.storage.places import KEPT_TEXTS, Refused, Report, Step, TargetFailed, Wish
from sources.storage.store import Store
from sources.storage.trees import opened

FILES = (DATABASE, GLOBALS)
READ = "--format=custom"
"""pg_restore reads no other: a folder as a dump names files that it would open."""
CONNECT_SECONDS = 30
UNFINISHED = ".unfinished"
LONGEST_NAME = 63
FIRST_WITH_FORCE = 130000
LACKS_A_ROLE = re.compile(r'role ("(?:[^"]|"")+") does not exist')
MAKE_IT = (
    "the role that restores may not make {0}: let one with CREATEROLE run `CREATE ROLE {0}` there (globals.sql of the "
    "point says with which rights), and restore again"
)
IDENTIFIER = r'(?:"(?:[^"]|"")+"|[a-z_][a-z0-9_$]*)'
CREATED = re.compile(rf"(?:CREATE|ALTER) ROLE ({IDENTIFIER})(?: .*)?;")
GRANTED = re.compile(rf"GRANT {IDENTIFIER} TO ({IDENTIFIER})(?: .*)?;")
ALIKE = "SELECT pg_encoding_to_char(encoding), datcollate, datctype FROM pg_database WHERE datname = %s"

SETTINGS = {
    "listen_addresses": "", "unix_socket_directories": ".", "unix_socket_permissions": "0700", "fsync": "off",
    "full_page_writes": "off", "autovacuum": "off", "wal_level": "minimal", "max_wal_senders": "0",
    "max_connections": "10", "shared_buffers": "32MB",
}  # fmt: skip
LEFT_OUT = (
    "--no-owner",
    "--no-privileges",
    "--no-tablespaces",
    "--no-publications",
    "--no-security-labels",
    "--no-subscriptions",
)
COPY = re.compile(rf"COPY ({IDENTIFIER}\.{IDENTIFIER}) (?:\(.*\) )?FROM stdin;")
CREATE_ROLE = re.compile(rf"CREATE ROLE ({IDENTIFIER});")
ENCODING = re.compile(r"SET client_encoding = '(\w+)';")
ERROR = "pg_restore: error: "
NEW_SETTING = "Command was: SET transaction_timeout = 0;"
"""Of pg_restore 17 and later: servers below do not know it, and need it for nothing."""
NOT_HERE = re.compile(
    "permission denied|must be superuser|must be owner of extension|is not available|extension .* does not exist"
)


def create(
    wish: Wish,
    store: Store,
    source: SourceSpec,
    cache: Path,
    on_step: Callable[[Step], None],
    loader: Scratch | None = None,
) -> Report:
    """Restore the dump of a point as the database `wish.target`; block until done. `loader`: as whom, and by which
    programs, it is loaded.

    Raises: Refused for a name that is taken; StorageFailed, Stopped, OSError, ProgramMissing.
    """
    import psycopg

    name = str(wish.target)
    program, account = loading.loader_of("pg_restore", source, loader)
    try:
        with _connected(source) as server:
            if server.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone():
                raise Refused(f"there is a database {name!r} at {source.name} already; name one that is not there")
            if not server.execute("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", (name,)).fetchone()[0]:
                raise TargetFailed(f"another restore makes the database {name!r} at {source.name}")
            with tempfile.TemporaryDirectory(dir=cache.parent.resolve(), prefix="restore-") as scratch:
                fetched = replace(wish, target=Path(scratch) / "dump", paths=_files(wish, store, cache))
                report = restoring.restore(fetched, store, cache, on_step)
                if report.failed_files:
                    return report
                made = _make_roles(server, fetched.target, report)
                with loading.opened(fetched.target, DATABASE) as dump:
                    load = {"reads": dump, **loading.apart_from(program, account)}
                    _fill(server, program, load, name, store, source)
    except psycopg.Error as error:
        raise TargetFailed(f"{source.name}: {str(error).strip()}") from None
    more = f", with the roles that were missing: {', '.join(made)}" if made else ""
    return replace(report, target=f"{source.name}: database {name}{more}")


def _files(wish: Wish, store: Store, cache: Path) -> tuple[str, ...]:
    with opened(store, wish.assignment, wish.point, cache) as tree:
        return tuple(each.path for each in loading.files_in(tree, FILES))


def _make_roles(server: Any, files: Path, report: Report) -> list[str]:
    """The names of those that were missing. What could not be made is noted: the dump may need none of it."""
    if not (files / GLOBALS).exists():
        report.not_set.append("roles: the point holds none; one that the server lacks was not made")
        return []
    made, failed = _make_missing(server, loading.lines_of(files, GLOBALS))
    report.not_set += failed[:KEPT_TEXTS]
    return made


def _make_missing(server: Any, lines: Iterable[str]) -> tuple[list[str], list[str]]:
    """Make those of `globals.sql` that the server of the connection lacks, with passwords, rights, settings and
    memberships, all or none. Returns their names, and in words what could not be done."""
    import psycopg

    there = {f'"{name}"' for (name,) in server.execute("SELECT replace(rolname, '\"', '\"\"') FROM pg_roles")}
    wanted = [
        (found[1], line)
        for line in map(str.strip, lines)
        if (found := CREATED.fullmatch(line) or GRANTED.fullmatch(line)) and _quoted(found[1]) not in there
    ]
    made, failed = list[str](), list[str]()
    with server.transaction():
        for name, statement in wanted:
            try:
                with server.transaction():
                    server.execute(statement)
            except psycopg.Error as error:
                what = statement.partition(" PASSWORD ")[0].rstrip(";")
                failed.append(f"{what}: {str(error).partition(chr(10))[0]}")
            else:
                if statement.startswith("CREATE"):
                    made.append(name)
    return made, failed


def _quoted(name: str) -> str:
    return name if name.startswith('"') else f'"{name}"'


def _fill(server: Any, program: str, load: dict[str, Any], name: str, store: Store, source: SourceSpec) -> None:
    import psycopg
    from psycopg import sql

    unfinished = name.encode()[: LONGEST_NAME - len(UNFINISHED)].decode(errors="ignore") + UNFINISHED
    # a statement of a killed restore may go on for hours, as the making of an index does
    force = " WITH (FORCE)" if server.info.server_version >= FIRST_WITH_FORCE else ""
    drop = sql.SQL("DROP DATABASE IF EXISTS {}" + force).format(sql.Identifier(unfinished))
    server.execute(drop)
    like = server.execute(ALIKE, (source.path,)).fetchone()
    how = sql.SQL("ENCODING {} LC_COLLATE {} LC_CTYPE {}").format(*map(sql.Literal, like)) if like else sql.SQL("")
    server.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0 ").format(sql.Identifier(unfinished)) + how)
    try:
        _restore_into(unfinished, program, load, store, source)
        server.execute(
            sql.SQL("ALTER DATABASE {} RENAME TO {}").format(sql.Identifier(unfinished), sql.Identifier(name))
        )
    except BaseException:
        with suppress(psycopg.Error):  # a server that went away: the first error says so
            server.execute(drop)
        raise


def _restore_into(database: str, program: str, load: dict[str, Any], store: Store, source: SourceSpec) -> None:
    from psycopg.conninfo import make_conninfo

    errors = harmless = 0

    def take(line: str) -> None:
        nonlocal errors, harmless
        errors += line.startswith(ERROR)
        harmless += line.startswith(NEW_SETTING)

    parameters = libpq_parameters(source.secret, source.options)
    with loading.handed_over(parameters.get("sslrootcert", "")) as (certificates, inherited):
        parameters |= {"sslrootcert": certificates} if certificates else {}
        argv = (program, READ, "--no-password", f"--dbname={make_conninfo(dbname=database, **parameters)}")
        ended = ran(store, argv, connection_environment(source, CONNECT_SECONDS), take, inherited=inherited, **load)
    if ended.exit_code and (not errors or errors > harmless):
        message = message_of(ended) or f"code {ended.exit_code}"
        missing = LACKS_A_ROLE.search("\n".join(ended.last_lines))
        what_to_do = f"; {MAKE_IT.format(missing[1])}" if missing else ""
        raise TargetFailed(f"pg_restore at {source.name}: {message}{what_to_do}")


def _connected(source: SourceSpec) -> Any:
    """The server of a source, at its maintenance database."""
    import psycopg
    from psycopg.conninfo import make_conninfo

    parameters = {
        "host": source.address, "port": str(source.port or 5432), "dbname": "postgres", "application_name": "restore",
        "connect_timeout": str(CONNECT_SECONDS), "user": str(source.options.get("user", "")),
        "password": source.secret or "", **libpq_parameters(source.secret, source.options),
    }  # fmt: skip
    given = make_conninfo(**{name: value for name, value in parameters.items() if value})
    return psycopg.connect(given, autocommit=True)


def drill(files: Path, folder: Path, scratch: Scratch, space: Space, store: Store) -> Database:
    """Restore the dump that lies in `files`, with a server in `folder`. Raises: TargetFailed, Stopped, OSError."""
    server = _Scratch(folder / "data", scratch, space, store)
    with loading.opened(files, DATABASE) as dump:
        encoding, expected = server.look_into(dump)
    roles = [found[1] for line in loading.lines_of(files, GLOBALS) if (found := CREATE_ROLE.fullmatch(line.rstrip()))]
    with server.running(server.made(), signal.SIGINT):
        server.psql("postgres", [f"CREATE ROLE {each};" for each in roles])
        ended = server.psql("postgres", [
            "\\set ON_ERROR_STOP 1",
            f"CREATE ROLE {NAME} LOGIN BYPASSRLS;",
            f"CREATE DATABASE {NAME} OWNER {NAME} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0;",
        ])  # fmt: skip
        if ended.exit_code:
            raise TargetFailed(f"the scratch server: {' '.join(ended.last_lines[-1:])}")
        with loading.opened(files, DATABASE) as dump:
            return server.count(server.load(dump), expected)


class _Scratch(Server):
    count_rows = "SELECT {}, count(*) FROM ONLY {};"

    def environment(self) -> dict[str, str]:
        return {"PGHOST": self.socket_folder(), "PGPORT": "5432"}

    def is_up(self) -> bool:
        return self.psql("postgres", ["SELECT;"]).exit_code == 0

    def look_into(self, dump: int) -> tuple[str, dict[str, int]]:
        """The encoding of a dump, and how many rows it holds of each table."""
        encoding, table, rows = ["UTF8"], [""], dict[str, int]()

        def take(line: str) -> None:
            if table[0]:
                if line == "\\.":
                    table[0] = ""
                else:
                    rows[table[0]] += 1
            elif found := COPY.fullmatch(line):
                table[0] = found[1]
                rows.setdefault(found[1], 0)
            elif found := ENCODING.fullmatch(line):
                encoding[0] = found[1]

        ended = self._read((READ, "--section=data", "--file=-"), dump, take)
        if ended.exit_code:
            raise TargetFailed(f"its dump cannot be read: {' '.join(ended.last_lines[-1:])}")
        return encoding[0], rows

    def program(self, name: str) -> str:
        return str(Path(self.scratch.programs) / name)

    def made(self) -> tuple[str, ...]:
        """Returns its command."""
        self.make(
            self.program("initdb"), f"--pgdata={self.data}", "--username=postgres", "--auth=trust", "--encoding=UTF8",
            "--locale=C", "--no-sync", "--no-instructions",
        )  # fmt: skip
        settings = [f"-c{name}={value}" for name, value in SETTINGS.items()]
        return self.program("postgres"), f"-D{self.data}", *settings

    def load(self, dump: int) -> Database:
        errors = list[str]()

        def take(line: str) -> None:
            if line.startswith(ERROR):
                errors.append(line.removeprefix(ERROR).removeprefix("could not execute query: "))

        ended = self._read((READ, *LEFT_OUT, f"--dbname={NAME}", f"--username={NAME}"), dump, take)
        return self.judge(ended, errors, lambda error: NOT_HERE.search(error) is not None)

    def _read(self, how: tuple[str, ...], dump: int, take: Callable[[str], None]) -> Ended:
        program = self.program("pg_restore")
        return self.run((program, *how), take, reads=dump, **loading.apart_from(program, self.scratch.account))

    def ask(self, statements: list[str], on_line: Callable[[str], None] = lambda line: None) -> Ended:
        return self.psql(NAME, statements, on_line)

    def psql(self, user: str, lines: list[str], on_line: Callable[[str], None] = lambda line: None) -> Ended:
        options = ("--no-psqlrc", "--no-align", "--tuples-only", "--quiet", f"--username={user}", f"--dbname={user}")
        return self.run((self.program("psql"), *options), on_line, given="\n".join(lines).encode())
