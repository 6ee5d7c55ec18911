"""Engine mariadb_dump: one database of a MariaDB or MySQL server as SQL, and the server's accounts.

    database.sql    tables with their rows, views, triggers, routines and events, of one moment (InnoDB); read back as a
                    stream: a dump that was cut off lacks its last line
    database.json   character set, collation and comment of the database, which its dump lacks
    globals.sql     users with the hashes of their passwords, roles and grants (`mariadb-dump --system=users`)

Both go into a server by `mariadb --binary-mode NAME < database.sql`, the accounts first.

All of a connection stands in an option file, which goes to the program as a descriptor, without a name: arguments can
be read by other accounts, and so can, on some systems, an environment. No other option file is read, so none of the
worker's account adds a plugin, a host or a password. What only some of the programs know is `loose-`.
"""

import json
import re
import ssl
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from engines.addresses import address_of
from engines.base import BackupTask, RunEnded, SourceSpec, Stalled, Verdict
from engines.cleartext import NO_FILE, is_local
from engines.dumps import NOT_WRITTEN, REFUSED, SILENT, Dump, DumpEngine, judge, message_of
from engines.engine import Run
from engines.mariadb.catalogue import QUERIES, Catalogue, listed
from engines.mariadb.reading import Contents, read
from external.processes.programs import find_mariadb_program
from external.processes.runner import Ended, StopSignal

DATABASE, GLOBALS, PROPERTIES = "database.sql", "globals.sql", "database.json"
PORT = 3306
CONNECT_SECONDS = 10.0
"""For each address of a server that has several."""
VERIFIED = "verify-full"
LONGEST_ROW = "--max-allowed-packet=1G"
ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\b": r"\b"})
OF_MYSQL = {"loose-set-gtid-purged": "OFF", "loose-column-statistics": "0"}
"""What mysqldump writes otherwise needs a superuser where it is restored, or a server of its own version."""
FORCE = "--force"
"""Go on after an error of one object, such as a view over a table that is gone."""
DUMPED = (
    "--single-transaction", "--quick", "--routines", "--events", "--triggers", "--hex-blob", "--no-tablespaces",
    "--skip-add-locks",
    "--default-character-set=utf8mb4", LONGEST_ROW,
)  # fmt: skip
"""Of mariadb-dump: one moment of all tables that know transactions, and all that belongs to a database."""
CLIENT = (
    "--batch", "--skip-column-names", "--binary-mode", "--local-infile=0", "--default-character-set=utf8mb4",
    LONGEST_ROW,
)  # fmt: skip
"""Of mariadb. In binary mode it knows no commands of its own, as `system` and `source`, in what it is given; without
local files no server, and no dump, has it send one."""
NO_HOME = {"HOME": "/dev/null/none"}
"""MySQL's programs read `~/.mylogin.cnf`, too, whatever option file is named."""
WITHOUT_GLOBALS = (
    "the users, roles and grants of the server were not kept, which needs MariaDB's mariadb-dump and the right to "
    "read the database mysql: create them before a restore"
)
NO_SUCH_ACCOUNT = frozenset({1133, 1141})
WITHOUT_SOME = (
    "accounts that are bound to the name of a host were not kept: the server looks up no names (skip_name_resolve), so "
    "it knows none of them"
)
NOT_IN_DUMP = "not in the dump: {}"
HISTORY = "--dump-history"

NUMBER = re.compile(r"\berror:? \(?(\d{4,5})\b|\((\d{4,5})\)$", re.IGNORECASE)
NOISE = re.compile(r"^(Warning: |---).*")
OWN_NOISE = re.compile(r"^(-+$|.*unknown (variable|option) .*loose).*|^[\w-]+: (?=\S)")
"""Of a program that went on: its name, and options that only others of its kind know."""
NOT_WRITABLE = re.compile(r"errno \d+ on write|Can't create/write to file|No space left|Disk quota exceeded")
LOST = re.compile(r"unexpected eof|Connection reset|Broken pipe|timed out", re.IGNORECASE)
"""What an encrypted connection calls what is 2013 elsewhere."""
LOST_CODE = 2
"""Of mariadb-dump, for an error of the server. It has no word for a connection that is lost as it sets what characters
the next answer is in."""
AWAY = (1040, 1053, 1077, 1079, 1203, 1226, 1927, 2002, 2003, 2005, 2006, 2013, 2055)
"""No connection left, shutting down, killed, not reached, unknown host, gone, lost."""
NOT_LET_IN, NO_DATABASE, UNENCRYPTED = (1045, 1129, 1130, 1698), 1049, 2026
LOCKED = (1205, 1213, 1317, 1412, 1615, 1684, 1969, 3024)
"""A lock that was not obtained, a deadlock, a query that was ended; 1412: a table was altered since the dump began."""
OF_ALL = frozenset({*AWAY, *NOT_LET_IN, *LOCKED, NO_DATABASE, UNENCRYPTED})
NO_PLUGIN = re.compile(r"plugin .* (could not|cannot) be loaded", re.IGNORECASE)
"""By MariaDB under the number of a lost connection, too."""
SHOWN = (
    "the server asks for the password in a way that would show it to another server in its place: name its socket, or "
    'its certificates, with the options "sslmode": "verify-full" and sslrootcert'
)
LACKS_A_RIGHT = "the source's user lacks a right, or there is no such database"
STAYS_LOCKED = (
    "a table was locked or altered in the middle of the dump, or a query ended: let the window of the policy keep "
    "clear of migrations and upkeep"
)
WAITS = "; if a table is locked, SHOW PROCESSLIST names who waits for a table metadata lock, and who has it"
NOT_ENCRYPTED = "no encrypted connection was made: see the options sslmode and sslrootcert"


class MariadbDumpEngine(DumpEngine):
    """Dumps a source of kind mariadb."""

    name = "mariadb_dump"

    def find_programs(self) -> None:
        for name in ("mariadb-dump", "mariadb"):
            find_mariadb_program(name)

    def write(self, dump: Dump) -> tuple[str, tuple[str, ...]]:
        task, program = dump.task, find_mariadb_program("mariadb-dump")
        with option_file(task.source) as (option, descriptor):

            def start(*arguments: str, alive: Callable[[], object]) -> Ended:
                return dump.start((program, option, *arguments), NO_HOME, sign_of_life=alive, inherited=(descriptor,))

            catalogue = _look(dump, option, descriptor)
            history = _history_option(dump, program)
            file = dump.new_file(DATABASE)
            arguments = (*DUMPED, *history, FORCE, f"--result-file={file}", "--", task.source.path)
            try:
                said = judge_forced(start(*arguments, alive=dump.grows), task)
            except Stalled as error:
                raise RunEnded(error.verdict, f"{error}{WAITS}") from None
            warnings = (*catalogue.warnings(with_history=bool(history)), *said)
            contents = _read(file, dump)
            dump.tables, dump.rows = len(contents.rows), sum(contents.rows.values())
            warnings += _compare(catalogue, contents, said)
            warnings += _dump_globals(dump, start)
            dump.new_file(PROPERTIES).write_text(json.dumps(catalogue.properties | {"needs": catalogue.needs}))
            judge_dump(version := dump.start((program, "--version")), task)
        return version.last_lines[-1], warnings

    def look(self, task: BackupTask, stop: StopSignal) -> str:
        run, program = Run(task, stop), find_mariadb_program("mariadb-dump")
        with option_file(task.source) as (option, descriptor):
            catalogue = _look(run, option, descriptor)
            if catalogue.lacking:
                raise RunEnded(Verdict.SOURCE_FAILED, catalogue.lacking)
            history = _history_option(run, program)
            arguments = (option, *DUMPED, "--no-data", FORCE, "--result-file=/dev/null", "--", task.source.path)
            said = judge_forced(run.start((program, *arguments), NO_HOME, inherited=(descriptor,)), task)
        found = f"mariadb-dump may read the database {task.source.path}"
        return "; ".join([found, *catalogue.warnings(with_history=bool(history)), *said])


def _look(run: Run, option: str, descriptor: int) -> Catalogue:
    """Refuse a connection that is not as it has to be."""
    source = run.task.source
    found = Catalogue(source.path)
    timeout = f"--connect-timeout={max(1, round(run.task.connect_timeout))}"
    argv = (find_mariadb_program("mariadb"), option, *CLIENT, timeout, "--", source.path)
    judge_dump(run.start(argv, NO_HOME, given=QUERIES.encode(), on_line=found.take, inherited=(descriptor,)), run.task)
    if needs_encryption(source) and not found.cipher:
        raise RunEnded(
            Verdict.SOURCE_FAILED,
            "the server encrypts no connections, so nothing was read: give it a certificate, or accept that with "
            'the option "sslmode": "disable" if everything on the way is yours',
        )
    if found.is_unfinished:
        raise RunEnded(Verdict.NOT_FOR_NOW, "a restore makes this database, or was interrupted: finish or repeat that")
    return found


def _history_option(run: Run, program: str) -> tuple[str, ...]:
    """mariadb-dump's option for earlier rows of tables with system versioning, where it has that."""
    helped = list[str]()
    run.start((program, "--no-defaults", "--help"), NO_HOME, on_line=helped.append)
    return (HISTORY,) if any(HISTORY in line for line in helped) else ()


def _compare(catalogue: Catalogue, contents: Contents, said: tuple[str, ...]) -> tuple[str, ...]:
    """Raises: RunEnded for a dump of nothing of a database that holds something."""
    missing = catalogue.missing_in(contents)
    if missing and not contents.rows and catalogue.has_tables:
        raise RunEnded(Verdict.SOURCE_FAILED, f"no table is in the dump: {'; '.join(said) or listed(missing)}")
    return (NOT_IN_DUMP.format(listed(missing)),) if missing else ()


def _dump_globals(dump: Dump, start: Callable[..., Ended]) -> tuple[str, ...]:
    """Returns warnings. A database without its server's accounts is still a backup."""
    file = dump.new_file(GLOBALS)
    try:
        ended = start("--system=users", "--force", f"--result-file={file}", alive=dump.size)
        message, numbers = errors_of(ended), {number_of(line) for line in ended.last_lines} - {0}
        if numbers <= NO_SUCH_ACCOUNT and bool(numbers) is bool(ended.exit_code):
            _read(file, dump)
            return (WITHOUT_SOME,) if numbers else ()
        if NOT_WRITABLE.search(message):
            judge_dump(ended, dump.task)
    except Stalled as error:
        message = str(error)
    dump.leave_out(GLOBALS)
    reason = message.rpartition("': ")[2]  # behind the query, which it repeats
    return (f"{WITHOUT_GLOBALS} ({reason})",)


def _read(file: Path, dump: Dump) -> Contents:
    with file.open("rb") as opened:
        found = read(opened, dump.store.go_on)
    if not found.is_whole:
        text = "the dump is cut off, although its program reported no error; so it was removed"
        raise RunEnded(Verdict.REPOSITORY_FAILED, text)
    return found


@contextmanager
def option_file(source: SourceSpec) -> Iterator[tuple[str, int]]:
    """The argument that names the option file of `source`, which has to be the first one, and its descriptor, which
    the program inherits."""
    with tempfile.TemporaryFile() as file:
        file.write(_options_of(source).encode())
        file.flush()
        yield f"--defaults-file=/dev/fd/{file.fileno()}", file.fileno()


def _options_of(source: SourceSpec) -> str:
    given: dict[str, str] = {"user": str(source.options["user"]), "password": source.secret or ""}
    if source.address.startswith("/"):
        given |= {"protocol": "socket", "socket": source.address}
    else:
        port = source.port or PORT
        host = address_of(source.address, port, CONNECT_SECONDS)
        if _mode_of(source.address, source.options) == VERIFIED:
            host = source.address  # which its certificate has to name, so another server gets nothing
        given |= {"protocol": "tcp", "host": host, "port": str(port)}
    given |= _encryption(source.address, source.options) | OF_MYSQL
    return "[client]\n" + "".join(f'{name}="{value.translate(ESCAPES)}"\n' for name, value in given.items())


def needs_encryption(source: SourceSpec) -> bool:
    """Whether a connection without TLS is refused."""
    return _mode_of(source.address, source.options) not in ("disable", "prefer")


def _mode_of(address: str, options: Mapping[str, Any]) -> str:
    """As libpq calls it: its `sslmode`, or what is usual."""
    return str(options.get("sslmode") or ("prefer" if is_local(address) else "require"))


def _encryption(address: str, options: Mapping[str, Any]) -> dict[str, str]:
    mode = _mode_of(address, options)
    is_verified = mode == VERIFIED
    found = {"loose-ssl": "0"} if mode == "disable" else {"loose-ssl": "1"}
    found["loose-ssl-verify-server-cert"] = "1" if is_verified else "0"
    names = {"disable": "DISABLED", "require": "REQUIRED", VERIFIED: "VERIFY_IDENTITY"}
    found["loose-ssl-mode"] = names.get(mode, "PREFERRED")
    if is_verified:
        certificates = str(options.get("sslrootcert", "system"))
        found["ssl-ca"] = (ssl.get_default_verify_paths().cafile or "") if certificates == "system" else certificates
    elif not address.startswith("/"):
        # the one way to prove a password that all programs have built in shows it to no server; others are plugins.
        # On loopback, too: any account may listen there while the server is down
        found["plugin-dir"] = NO_FILE
    return found


def judge_dump(ended: Ended, task: BackupTask) -> None:
    """Exit codes say only that something is wrong; the numbers of errors are the same for MariaDB and MySQL. Raises:
    RunEnded, unless the program is done."""
    no_database = f"there is no database {task.source.path!r}: check the source's path"
    meanings = (
        (NOT_WRITABLE.search, Verdict.REPOSITORY_FAILED, NOT_WRITTEN),
        (NO_PLUGIN.search, Verdict.SOURCE_FAILED, SHOWN),
        (_numbered(*AWAY), Verdict.UNAVAILABLE, SILENT),
        (_numbered(*LOCKED), Verdict.NOT_FOR_NOW, STAYS_LOCKED),
        (LOST.search, Verdict.UNAVAILABLE, SILENT),
        (_numbered(*NOT_LET_IN), Verdict.SOURCE_FAILED, REFUSED),
        (_numbered(NO_DATABASE), Verdict.SOURCE_FAILED, no_database),
        (_numbered(1044, 1142, 1143, 1227, 1370, 1683), Verdict.SOURCE_FAILED, LACKS_A_RIGHT),
        (_numbered(UNENCRYPTED), Verdict.SOURCE_FAILED, NOT_ENCRYPTED),
    )
    message = errors_of(ended)
    if not message and ended.exit_code == LOST_CODE:
        raise RunEnded(Verdict.UNAVAILABLE, f"{SILENT} (the program ended with code {LOST_CODE} and no word)")
    judge(ended, "the program", message, meanings)


def judge_forced(ended: Ended, task: BackupTask) -> tuple[str, ...]:
    """As `judge_dump` of a program that goes on after an error. Returns what it said of single objects, each of which
    is left out or damaged; what concerns all of them is raised."""
    for line in ended.last_lines:
        if number_of(line) in OF_ALL or NOT_WRITABLE.search(line) or LOST.search(line) or NO_PLUGIN.search(line):
            judge_dump(replace(ended, exit_code=ended.exit_code or LOST_CODE, last_lines=(line,)), task)
    said = tuple(dict.fromkeys(shown for each in ended.last_lines if (shown := OWN_NOISE.sub("", each).strip())))
    if not said or ended.exit_code < 0:
        judge_dump(ended, task)
    return said


def _numbered(*numbers: int) -> Callable[[str], bool]:
    return lambda message: number_of(message) in numbers


def number_of(message: str) -> int:
    """The number of the error that a message names; 0: none."""
    found = NUMBER.search(message)
    return int(found[1] or found[2]) if found else 0


def errors_of(ended: Ended) -> str:
    """The program's errors in one line."""
    return message_of(ended, NOISE)
