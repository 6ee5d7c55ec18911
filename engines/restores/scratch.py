"""The scratch space of drills, and the separate server that a dump is restored into and counted in, table by table.
Runs the programs of databases, in drills and restores.

That server runs the code that a dump holds, as an account without rights where that is possible. It listens to no
network, and ends with the process that started it, however that ends.
"""

import math
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from engines.limits import Space
from external.processes import runner
from external.processes.runner import Command, EndReason, ProgramEnd
from storage.points.store import StorageStopped, Store
from storage.restoring.base import TargetFailed

NAME = "backupsched_drill"
"""The name of the database, and of the one account that may use it."""
START_SECONDS = 60.0
KEPT = 20
COUNTED = re.compile(r"(\d+)\D(\d+)")


def ran(
    store: Store,
    argv: tuple[str, ...],
    environment: Mapping[str, str] = MappingProxyType({}),
    on_line: Callable[[str], None] = lambda line: None,
    sign_of_life: Callable[[], object] | None = None,
    **how: Any,
) -> ProgramEnd:
    """Run a program until it exits, however long it is silent. `how`: other fields of its `Command`. Raises:
    StorageStopped, OSError.
    """
    command = Command(argv, environment, stall_timeout=math.inf, grace=store.grace, **how)
    ended = runner.run(command, stop=store.stop, on_line=on_line, sign_of_life=sign_of_life)
    if ended.ending is EndReason.STOPPED:
        raise StorageStopped
    return ended


@dataclass(frozen=True)
class Scratch:
    """The place where drills write. `reserve`: percent of its file system that stays free. For a database: the
    `account` (uid, gid) that its server runs as; None if it is the present one; `programs`: the directory of a
    PostgreSQL server's programs; `servers`: those of other servers that this host has, by major version.
    """

    folder: str
    reserve: float
    programs: str = ""
    account: tuple[int, int] | None = None
    servers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Database:
    """The result of a drill of a database: rows by table as they were counted; `notes`: the things that were left out;
    `wrong`: the things that are not right; `not_here`: why some of the dump cannot be proved on this host, which is not
    the dump's fault.
    """

    tables: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    not_here: str = ""


@dataclass
class ScratchServer:
    """One kind of server, with its data in `data`. Its methods raise TargetFailed, StorageStopped, OSError,
    ProgramMissing.

    Each kind defines how its programs find it, and how it is asked.
    """

    data: Path
    scratch: Scratch
    space: Space
    store: Store
    inherited: tuple[int, ...] = ()

    count_rows: ClassVar[str]

    def environment(self) -> Mapping[str, str]:
        raise NotImplementedError

    def ask(self, statements: list[str], on_line: Callable[[str], None] = lambda line: None) -> ProgramEnd:
        """Run statements as the account that restores."""
        raise NotImplementedError

    def count_in(self, table: str) -> str:
        """The statement that counts the rows of a table; `count_rows` for most tables."""
        return self.count_rows

    def is_up(self) -> bool:
        return self.ask(["SELECT 1;"]).exit_code == 0

    def make(self, *argv: str) -> None:
        """Let a program make the server's data."""
        self.own_folder(self.data)
        ended = self.run(argv)
        if ended.exit_code:
            raise TargetFailed(f"no scratch server can be made: {' '.join(ended.last_lines[-3:])}")

    def own_folder(self, folder: Path) -> None:
        folder.mkdir(mode=0o700)
        if self.scratch.account:
            os.chown(folder, *self.scratch.account)

    @contextmanager
    def running(self, argv: tuple[str, ...], polite_signal: int) -> Iterator[None]:
        command = Command(argv, self.environment(), math.inf, polite_signal=polite_signal, account=self.scratch.account)
        end, last = threading.Event(), list[str]()
        thread = threading.Thread(target=lambda: last.extend(runner.run(command, stop=end).last_lines))
        descriptor = os.open(self.data, os.O_RDONLY)
        thread.start()
        try:
            self.inherited = (descriptor,)
            until = time.monotonic() + START_SECONDS
            while not self.is_up():
                if not thread.is_alive() or time.monotonic() > until:
                    raise TargetFailed(f"the scratch server does not start: {' '.join(last[-3:])}")
                time.sleep(0.1)
            yield
        finally:
            end.set()
            thread.join()
            os.close(descriptor)

    def socket_folder(self) -> str:
        """The folder of the socket, by its descriptor: the path of a socket has 107 bytes at most, which a folder may
        have used up.
        """
        if self.inherited and Path("/proc/self/fd").exists():
            return f"/proc/self/fd/{self.inherited[0]}"
        return str(self.data)

    def count(self, done: Database, expected: Mapping[str, int]) -> Database:
        """Count the rows of each table, and compare them with those that the dump holds."""
        tables = list(expected)

        def take(line: str) -> None:
            if counted := COUNTED.fullmatch(line):
                done.tables[tables[int(counted[1])]] = int(counted[2])

        self.ask([self.count_in(table).format(number, table) for number, table in enumerate(tables)], take)
        for name, number in expected.items():
            if (rows := done.tables.get(name)) != number:
                there = "is missing" if rows is None else f"has {rows:,} rows"
                done.wrong.append(f"table {name} {there}, and the dump holds {number:,}")
        return done

    def run(
        self,
        argv: tuple[str, ...],
        on_line: Callable[[str], None] = lambda line: None,
        more: tuple[int, ...] = (),
        **given: Any,
    ) -> ProgramEnd:
        """Run a program. `more`: file descriptors that stay open in it; `given`: other fields of its `Command`, such as
        its standard input.
        """
        own = {"inherited": (*self.inherited, *more), "account": self.scratch.account}
        return ran(self.store, argv, self.environment(), on_line, self._check_room, **own | given)

    def _check_room(self) -> None:
        if lack := self.space.lack():
            raise TargetFailed(f"the scratch database does not fit: {lack}")
