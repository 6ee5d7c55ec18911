"""The promise about secrets: a backup by a worker's own process leaves the secret nowhere but in the environment of its
engine, while it runs, and sealed in the database.

Searched: the command lines and environments of all processes while it ran, a dump of the whole database, and every
file that the worker, its commands and its engine wrote. Searched for: the secret, also in base64, base 16 and UTF-16,
and in the form in which rclone took it.
"""

import base64
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from django.conf import settings

from external.processes.programs import find_postgresql_program
from jobs.models import Attempt
from jobs.states import AttemptOutcome
from sealing.lookup import store_secret
from sealing.models import StoredSecret
from sources.models import Backup
from sources.planning import emit_due
from tests.api.asking import Program
from tests.engines.peers import answers
from tests.jobs.worker_processes import database_url
from tests.sources.factories import make_assignment, make_policy
from tests.sources.hosts import Host
from tests.sources.worker_process import worker_process
from tests.waiting import PATIENCE, eventually

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.promise, pytest.mark.slow]

CORE = "Schwertfisch7Zq9wXk3Lm5"
"""The part that stays the same however the rest is quoted."""
SECRET = f"ü '{CORE}\" $HOME"
KEY = "Kugelfisch4Tn8vRb6Pd2-of-an-encrypted-repository"
SLOWLY = {"bwlimit": "1M", "transfers": 1}
FILE_BYTES = 1_500_000
LOOK_EVERY = 0.01
"""Seconds. A short program of an engine takes some 0.03."""


def encodings(core: str) -> dict[str, bytes]:
    """Name → how a text appears, wherever in another one it stands."""
    raw = core.encode()
    shifted = {f"base64, shifted by {by}": base64.b64encode(b"-" * by + raw)[4 if by else 0 : -4] for by in range(3)}
    found = {"clear": raw, "base 16": raw.hex().encode(), "UTF-16": core.encode("utf-16-le"), **shifted}
    return {f"{core[:5]}… in {name}": text for name, text in found.items()}


class Processes:
    """Everything seen of all processes that began after this one."""

    def __init__(self, needles: list[bytes]) -> None:
        self.needles, self.worker = needles, 0
        self.older = set(os.listdir("/proc"))
        self.in_arguments: list[bytes] = []
        self.in_environment: set[tuple[bool, str]] = set()
        """Each process that had a needle there: True if it descends from the worker, and its name."""
        self.passwords: set[tuple[bytes, bytes]] = set()
        """Variables of engines that held a secret in rclone's form, and that."""
        self.seen: set[tuple[str, bytes, int]] = set()
        """Process, its arguments, and how many forms it was searched for: only a new program brings others."""

    @contextmanager
    def watched(self) -> Iterator[None]:
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(LOOK_EVERY):
                for name in set(os.listdir("/proc")) - self.older:
                    with suppress(OSError):  # it has ended
                        self._look_at(Path("/proc") / name)

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _look_at(self, process: Path) -> None:
        arguments = (process / "cmdline").read_bytes()
        if (look := (process.name, arguments, len(self.passwords))) in self.seen:
            return
        environment = (process / "environ").read_bytes()
        is_engine = self.worker in ancestors(int(process.name))
        if is_engine:
            variables = (each.partition(b"=")[::2] for each in environment.split(b"\0"))
            self.passwords |= {(name, value) for name, value in variables if name.endswith((b"_PASS", b"_PASSWORD"))}
        looked_for = [*self.needles, *(value for _, value in self.passwords)]
        if any(each in arguments for each in looked_for):
            self.in_arguments.append(arguments)
        if any(each in environment for each in looked_for):
            self.in_environment.add((is_engine, (process / "comm").read_text().strip()))
        self.seen.add(look)


def ancestors(pid: int) -> Iterator[int]:
    """Parent, its parent and so on, as far as they are there."""
    with suppress(OSError):
        while pid := int(Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[1]):
            yield pid


def command(directory: Path, *arguments: str, given: str, **environment: str) -> None:
    """A command of the project as a process of its own, `given` on its standard input."""
    with (directory / "command.log").open("ab") as log:
        subprocess.run(
            (sys.executable, "manage.py", *arguments), input=given.encode(), stdout=log, stderr=log,
            cwd=settings.BASE_DIR, env={**os.environ, "DATABASE_URL": database_url(), **environment}, check=True,
            timeout=PATIENCE,
        )  # fmt: skip


@contextmanager
def serving(host: Host) -> Iterator[None]:
    """The host as a process that gets its password by its environment."""
    arguments = [each for each in host._serving() if not each.startswith("--pass=")]
    process = subprocess.Popen(arguments, env={"PATH": os.environ["PATH"], "RCLONE_PASS": SECRET})
    try:
        eventually(lambda: answers(host.address, host.port))
        yield
    finally:
        process.kill()
        process.wait(PATIENCE)


def backed_up_and_refused(directory: Path, host: Host) -> list[int]:
    """Put a source on the backlog that can be backed up with the stored secret, and one that cannot."""
    policy = make_policy(engine_options=SLOWLY)
    repository = policy.repository
    repository.location, repository.encrypted = str(directory / "repository"), True
    repository.key = store_secret("key", KEY)
    repository.save()
    sources = host.source(secret="stored:nas"), host.source(name="b", secret="stored:nas", options={"user": "nobody"})
    for source in sources:
        source.save()
    ids = [make_assignment(policy, source).pk for source in sources]
    emit_due(None, ids)
    return ids


def have_ended(ids: list[int]) -> bool:
    failed = Attempt.objects.filter(outcome=AttemptOutcome.FAILED)
    return Backup.objects.filter(assignment=ids[0]).exists() and failed.exists()


def dumped() -> bytes:
    """The test's database as text."""
    program = find_postgresql_program("pg_dump")
    return subprocess.run((program, database_url()), capture_output=True, check=True, timeout=PATIENCE).stdout


def test_a_backup_leaves_its_secret_nowhere(tmp_path: Path) -> None:
    needles, written = encodings(CORE) | encodings(KEY), tmp_path / "written"
    (written / "repository").mkdir(parents=True)
    host = Host(tmp_path / "laptop")
    (host.directory / "letters").write_bytes(os.urandom(FILE_BYTES))
    own = {"SECRET_KEY": settings.SECRET_KEY, "BACKUPSCHED_VAR": str(written / "var"), "LOG_LEVEL": "DEBUG"}
    with serving(host):
        processes = Processes(list(needles.values()))
        with processes.watched():
            command(written, "secrets", "set", "nas", given=SECRET, **own)
            answer = Program().post("stored-secrets", {"name": "of the api", "value": SECRET}, Idempotency_Key="once")
            assert answer.status_code == 422, "a name has no spaces; and what was refused is kept nowhere"
            body = {"name": "of-the-api", "value": SECRET}
            assert Program().post("stored-secrets", body, Idempotency_Key="once").status_code == 201
            ids = backed_up_and_refused(written, host)
            with worker_process("availability:4,backups:2", written, **own) as worker:
                processes.worker = worker.pid
                eventually(lambda: worker.poll() is not None or have_ended(ids))
                worker.terminate()
                worker.wait(PATIENCE)
    assert have_ended(ids), (written / "worker.log").read_text()
    variables = {name for name, _ in processes.passwords}
    assert variables == {b"RCLONE_CONFIG_SRC_PASS", b"RCLONE_CONFIG_CRYPT_PASSWORD"}, "an engine was seen with them"
    assert processes.in_arguments == []
    assert {is_engine for is_engine, _ in processes.in_environment} == {True}
    assert {name for _, name in processes.in_environment} <= {"rclone", "python", Path(sys.executable).resolve().name}
    needles |= {f"as rclone takes it, {number}": each for number, (_, each) in enumerate(processes.passwords)}
    dump = dumped()
    assert StoredSecret.objects.get(name="nas").sealed.encode() in dump, "the dump has it, sealed"
    places = {"the database": dump} | {
        str(path.relative_to(written)): path.name.encode() + path.read_bytes()
        for path in written.rglob("*")
        if path.is_file()
    }
    assert {"worker.log", "command.log"} < places.keys()
    assert [path for path in places if path.startswith("repository/encrypted/")]
    assert [(place, name) for place, text in places.items() for name, each in needles.items() if each in text] == []
