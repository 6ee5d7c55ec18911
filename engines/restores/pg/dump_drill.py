"""Proves a dump of PostgreSQL by the steps of a restore, in a separate server that runs only for this purpose.

It is loaded by a role that owns one database and may do nothing else. A scratch server has neither the roles of the
source nor its rights, and not every extension or collation. So owners and grants are left out, roles that policies name
are made without rights, and a collation that this host lacks is made as `C`. Objects that could not be made for such a
reason are not a fault of the backup, and are named; rows that could not be loaded for such a reason are *not proved
here*.
"""

import re
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from engines.limits import Space
from engines.postgresql.engine import DATABASE, GLOBALS
from engines.restores import loading
from engines.restores.pg.contents import IDENTIFIER, DatabaseContents, read
from engines.restores.pg.failures import StatementFailure, readable
from engines.restores.pg.loader import Loader
from engines.restores.pg.roles import own_lines
from engines.restores.pg.steps import LoadResult, load
from engines.restores.scratch import KEPT, NAME, Database, Scratch, ScratchServer
from external.processes.runner import ProgramEnd
from storage.points.store import Store
from storage.restoring.base import TargetFailed

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
NOT_PROVED = (
    "owners, rights, tablespaces, publications, subscriptions and security labels: a scratch server has no such roles"
)
MADE_AS_C = "COLLATION {}: this host lacks it, and it was made as C"
COLLATION = re.compile(rf"CREATE COLLATION ({IDENTIFIER}\.{IDENTIFIER}) \(")
COLLATED = re.compile(rf"COLLATE (pg_catalog\.{IDENTIFIER})")
CREATE_ROLE = re.compile(rf"CREATE ROLE ({IDENTIFIER});")
NOT_HERE = frozenset({"42501", "0A000", "58P01"})
"""SQLSTATEs: rights, extensions and their files that a scratch server does not have."""
UNDEFINED = frozenset({"42704", "42883", "42P01", "3F000"})


def drill(files: Path, folder: Path, scratch: Scratch, space: Space, store: Store) -> Database:
    """Restore the dump that is in `files`, with a server in `folder`. Raises: TargetFailed, StorageStopped, OSError."""
    server = _ScratchPostgres(folder / "data", scratch, space, store)
    lines = own_lines(loading.lines_of(files, GLOBALS))
    names = [found[1] for line in lines if (found := CREATE_ROLE.fullmatch(line.rstrip()))]
    with loading.opened(files, DATABASE) as dump:
        contents = read(server.loader(), dump)
    with server.running_for(contents.version):
        server.psql("postgres", [f"CREATE ROLE {each};" for each in names])
        ended = server.psql("postgres", [
            "\\set ON_ERROR_STOP 1",
            f"CREATE ROLE {NAME} LOGIN BYPASSRLS;",
            f"CREATE DATABASE {NAME} OWNER {NAME} ENCODING '{contents.encoding}' LOCALE 'C' TEMPLATE template0;",
        ])  # fmt: skip
        if ended.exit_code:
            raise TargetFailed(f"the scratch server: {' '.join(ended.last_lines[-1:])}")
        with loading.opened(files, DATABASE) as dump:
            return server.judged(load(server.loader(), dump, contents), contents)


class _ScratchPostgres(ScratchServer):
    def environment(self) -> dict[str, str]:
        return {"PGHOST": self.socket_folder(), "PGPORT": "5432"}

    def is_up(self) -> bool:
        return self.psql("postgres", ["SELECT;"]).exit_code == 0

    def program(self, name: str) -> str:
        return str(Path(self.scratch.programs) / name)

    @contextmanager
    def running_for(self, version: int) -> Iterator[None]:
        """Run a server for a dump of that version: one of the host, with the extensions and collations that it has, if
        it is not older and starts; else the one that comes with this program.
        """
        own = {int(each): Path(folder) for each, folder in self.scratch.servers.items()}
        fitting = [own[each] for each in sorted(own) if version and each >= version]
        with ExitStack() as opened:
            for programs in fitting:
                try:
                    opened.enter_context(self.running(self.made(programs), signal.SIGINT))
                    break
                except (TargetFailed, OSError):
                    shutil.rmtree(self.data, ignore_errors=True)
            else:
                opened.enter_context(self.running(self.made(Path(self.scratch.programs)), signal.SIGINT))
            yield

    def made(self, programs: Path) -> tuple[str, ...]:
        """Make the server's data. Returns the server's command."""
        self.make(
            str(programs / "initdb"), f"--pgdata={self.data}", "--username=postgres", "--auth=trust", "--encoding=UTF8",
            "--locale=C", "--no-sync", "--no-instructions",
        )  # fmt: skip
        settings = [f"-c{name}={value}" for name, value in SETTINGS.items()]
        return str(programs / "postgres"), f"-D{self.data}", *settings

    def loader(self) -> Loader:
        to = (f"--dbname={NAME}", f"--username={NAME}")
        return Loader(self.run, self.program, to, LEFT_OUT, self.scratch.account, self.make_up)

    def make_up(self, failures: list[StatementFailure]) -> list[str]:
        """Make collations that this host lacks as `C`. Returns a text about each one that was made."""
        lacking = {name for each in failures for name in collations_of(each)}
        made = list[str]()
        for name in sorted(lacking):
            make = ["SET allow_system_table_mods = on;", f'CREATE COLLATION {name} FROM pg_catalog."C";']
            options = ("--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--username=postgres", f"--dbname={NAME}")
            ended = self.run((self.program("psql"), *options), given="\n".join(make).encode(errors="surrogateescape"))
            made += [] if ended.exit_code else [MADE_AS_C.format(name)]
        return made

    def judged(self, loaded: LoadResult, contents: DatabaseContents) -> Database:
        """The result of a drill. Failures that a scratch server makes even of a sound dump are notes, and so are those
        of objects that needed the failed ones.
        """
        done = Database(loaded.tables, notes=[*map(readable, loaded.made_up)])
        lacks = [each for each in loaded.failures if each.state in NOT_HERE and not each.what.startswith("COLLATION ")]
        wrong, lost = list[str](), set[str]()
        for each in loaded.failures:
            if any(MADE_AS_C.format(name) in loaded.made_up for name in collations_of(each)):
                continue
            is_lost = each.entry is not None and each.what.removeprefix("TABLE DATA ") in lost
            if each in lacks or is_lost or (lacks and each.statement and each.state in UNDEFINED):
                done.notes.append(str(each))
                lost |= {each.what.removeprefix("TABLE ")} if each.what.startswith("TABLE ") else set()
            else:
                wrong.append(str(each))
        lacking = {name for name in contents.rows if contents.shown(name) not in loaded.tables}
        unproved = {contents.shown(name) for name in lacking if unquoted(name) in lost}
        done.wrong = [*wrong, *(each for each in loaded.lacking if each.split(" ")[1] not in unproved)]
        done.notes = [*done.notes[:KEPT], NOT_PROVED]
        if unproved:
            missing = sorted({readable(each.what) for each in lacks})
            done.not_here = (
                f"this host lacks {', '.join(missing[:KEPT])}, which {', '.join(sorted(unproved)[:KEPT])} need"
            )
        return done

    def ask(self, statements: list[str], on_line: Callable[[str], None] = lambda line: None) -> ProgramEnd:
        return self.psql(NAME, statements, on_line)

    def psql(self, user: str, lines: list[str], on_line: Callable[[str], None] = lambda line: None) -> ProgramEnd:
        options = ("--no-psqlrc", "--no-align", "--tuples-only", "--quiet", f"--username={user}", f"--dbname={user}")
        return self.run((self.program("psql"), *options), on_line, given="\n".join(lines).encode())


def collations_of(failure: StatementFailure) -> list[str]:
    """The collations for lack of which it may have failed, as SQL writes them."""
    if failure.what.startswith("COLLATION "):
        found = COLLATION.match(failure.statement)
        return [found[1]] if found and "\n" not in found[1] else []
    is_undefined = failure.state == "42704" and "collation" in failure.text
    return [each for each in COLLATED.findall(failure.statement) if "\n" not in each] if is_undefined else []


def unquoted(name: str) -> str:
    return re.sub(r'"((?:[^"]|"")*)"', lambda found: found[1].replace('""', '"'), name)
