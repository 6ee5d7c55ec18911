"""Timetables of bandwidth: what is accepted, and whose clock they go by."""

import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from sources.engines import engine_for
from sources.engines.base import EngineProgress, Verdict
from sources.processes.programs import find_rclone
from tests.sources.engines.peers import local_folder, task_for, write_files
from tests.waiting import PATIENCE

BYTES = 200_000


@pytest.mark.parametrize(
    ("limit", "accepted"),
    [
        ("0.5M", True),
        ("08:00,512k 19:00,10M 23:00,off", True),
        ("Mon-08:00,512K sun-23:59,off", True),
        ("08:00,512k, 19:00,10M", False),
        ("24:00,1M", False),
        ("8:00,1M", False),
        ("08:60,1M", False),
        ("day-08:00,1M", False),
        ("08:00,1X", False),
        ("08:00,-1M", False),
    ],
)
def test_a_timetable_is_refused_where_rclone_would_refuse_it(limit: str, accepted: bool) -> None:
    with nullcontext() if accepted else pytest.raises(ValueError, match=r"or a timetable of them in the zone of the"):
        engine_for("sftp").check_options({"bwlimit": limit})
    rclone = subprocess.run([find_rclone(), "version", f"--bwlimit={limit}"], check=False, capture_output=True)
    assert (rclone.returncode == 0) is accepted


def zones_of_two_days(hour: int) -> tuple[str, str]:
    """Two in which it is never the same day, and midnight is two hours away, at that hour of UTC."""
    if 2 <= hour < 11:
        return "Etc/GMT+12", "UTC"
    return ("UTC", "Pacific/Kiritimati") if 11 <= hour < 22 else ("Etc/GMT+12", "Pacific/Kiritimati")


@pytest.mark.slow
def test_a_timetable_goes_by_the_clock_of_the_policy(tmp_path: Path) -> None:
    files = local_folder(write_files(tmp_path / "files", a="a" * BYTES))
    now = datetime.now(UTC)
    zones = zones_of_two_days(now.hour)
    days = [f"{now.astimezone(ZoneInfo(zone)):%a}".lower() for zone in zones]
    assert days[0] != days[1]
    options = {"bwlimit": f"{days[0]}-00:00,off {days[1]}-00:00,2K"}  # all of it would take a hundred seconds
    stop, seen = threading.Event(), list[int]()

    def look(progress: EngineProgress) -> None:
        seen.extend([progress.bytes_done] if 0 < progress.bytes_done < BYTES else [])
        if len(seen) > 1:  # half a second after the first look it is still at work
            stop.set()

    def copy(zone: str, on_progress: Callable[[EngineProgress], None]) -> Verdict:
        task = task_for(files, tmp_path / "copies" / zone, options=options, zone=zone)
        return engine_for("local").run(task, on_progress=on_progress, stop=stop).verdict

    began = time.monotonic()
    assert copy(zones[0], lambda progress: None) is Verdict.SUCCEEDED
    assert time.monotonic() - began < PATIENCE
    assert copy(zones[1], look) is Verdict.STOPPED
