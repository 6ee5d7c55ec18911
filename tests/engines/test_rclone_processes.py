"""The rclone engine's process: ended by a stop, ended with its worker, and the secret nowhere to be seen."""

import os
import signal
import subprocess
import sys
import threading
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest

from backups import repository_orders
from engines.at_repositories import questions
from engines.base import EngineProgress, EngineResult, Verdict
from external.processes import orders
from storage.places.identity import Identity
from storage.places.location import of_directory
from tests.engines.peers import (
    PASSWORD,
    held,
    is_gone,
    local_folder,
    loopback_address,
    points,
    run,
    sftp_host,
    task_for,
    write_files,
)
from tests.processes import below
from tests.waiting import eventually

LATER = datetime(2100, 1, 1, tzinfo=UTC)
"""Than what these tests write, so that no file is in doubt."""
SLOW = {"bwlimit": "100K", "transfers": 1}


@pytest.mark.promise
@pytest.mark.slow
def test_a_stop_while_copying_ends_rclone_and_leaves_the_earlier_copy_whole(tmp_path: Path) -> None:
    files, first = write_files(tmp_path / "files", big="old"), {"big": "old"}
    seen: list[psutil.Process] = []
    stop = threading.Event()

    def stop_when_under_way(progress: EngineProgress) -> None:
        if progress.bytes_done and not stop.is_set():
            seen.extend(below("copy"))
            stop.set()

    with sftp_host(files) as source:
        assert run(task_for(source, tmp_path / "copy")).verdict is Verdict.SUCCEEDED
        write_files(files, big="x" * 3_000_000)
        task = task_for(source, tmp_path / "copy", options=SLOW)
        result = run(task, stop_when_under_way, stop)
    assert result == EngineResult(Verdict.STOPPED, error="stopped on request")
    assert len(seen) == 1
    assert is_gone(seen[0].pid)
    assert (held(tmp_path / "copy"), len(points(tmp_path / "copy"))) == (first, 1), "the earlier point is whole"


@pytest.mark.promise
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process of its parent's death")
def test_rclone_dies_with_a_killed_worker_and_the_next_run_completes_the_copy(tmp_path: Path) -> None:
    worker = """
import django, sys, threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
django.setup()
from backups import repository_orders
from tests.engines.peers import *

address, port, host_key, copy = sys.argv[1:]
source = specification("sftp", address, port=int(port), options={"user": USER}, host_key=host_key)
task = task_for(source, Path(copy), options={"bwlimit": "100K"})
with ThreadPoolExecutor() as pool:
    tell = lambda progress: print(progress.bytes_done, flush=True)
    pool.submit(repository_orders.back_up, task, on_progress=tell, stop=threading.Event()).result()
"""
    files = write_files(tmp_path / "files", big="old")
    copy = tmp_path / "copy"
    with sftp_host(files) as source:
        run(task_for(source, copy))
        write_files(files, big="x" * 3_000_000)
        arguments = [sys.executable, "-c", worker, source.address, str(source.port), source.host_key, str(copy)]
        root = Path(__file__).parents[2]
        with subprocess.Popen(arguments, cwd=root, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            while int(process.stdout.readline()) == 0:
                pass
            (rclone,) = below("copy", pid=process.pid)
            assert "--config=" in rclone.cmdline()
            assert PASSWORD not in " ".join(rclone.cmdline())
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            eventually(lambda: is_gone(rclone.pid))
        result = run(task_for(source, copy))
    assert result.verdict is Verdict.SUCCEEDED, result.error
    assert held(copy) == {"big": "x" * 3_000_000}
    assert held(copy, points(copy)[0]) == {"big": "old"}


def test_an_order_leaves_the_signals_of_a_process_that_is_not_its_own_alone(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    location = of_directory(tmp_path).as_json()
    assert questions.make_repository(location, asdict(Identity("1f8a", "office"))) == {"made": False, "unlike": ""}
    assert signal.getsignal(signal.SIGTERM) is before
    assert len({loopback_address(process) for process in range(32_768, 33_800)}) == 1_032, "no other process has ours"


def test_the_process_of_a_backup_starts_without_what_it_does_not_need() -> None:
    """asyncio alone costs 60 ms of a processor, and only what speaks HTTP needs it; other orders 30 ms."""
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import engines.repository_process, engines.rclone.engine;"
        "print([each for each in sys.argv[2:] if each in sys.modules])"
    )
    others = (
        "engines.at_repositories.point_upkeep",
        "engines.at_repositories.questions",
        "storage.restic",
        "engines.imap",
    )
    argv = (sys.executable, "-I", "-c", program, str(orders.ROOT), "asyncio", *others)
    assert subprocess.run(argv, check=True, capture_output=True, text=True).stdout == "[]\n"


def test_a_process_takes_for_damaged_what_is_and_nothing_that_is_called_like_a_part_of_it(tmp_path: Path) -> None:
    """The places are a set, and were a text on the way to the process: *in* asks something else of that."""
    files = write_files(tmp_path / "files", a="one", ab="twice", other="other")

    def backed_up(day: int, *damaged: str) -> EngineResult:
        task = task_for(
            local_folder(files), tmp_path / "copy", started_at=LATER + timedelta(days=day), damaged=frozenset(damaged)
        )
        return repository_orders.back_up(task, on_progress=lambda progress: None, stop=threading.Event())

    first = backed_up(0)
    assert (first.read, backed_up(1, f"{first.snapshot}/ab").read, backed_up(2).read) == (13, 5, 0)
