"""Timetables of bandwidth: what is accepted, and whose clock they go by."""

import subprocess
import threading
import time
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from sources.engines import engine_for
from sources.engines.base import Verdict
from sources.processes.programs import find_rclone
from tests.sources.engines.peers import local_folder, task_for, write_files


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


@pytest.mark.slow
def test_a_timetable_goes_by_the_clock_of_the_policy(tmp_path: Path) -> None:
    files = local_folder(write_files(tmp_path / "files", a="a" * 200_000))
    now = datetime.now(UTC)
    early, late = "Etc/GMT+12", "Pacific/Kiritimati"  # 26 hours apart: never the same day
    days = [f"{now.astimezone(ZoneInfo(zone)):%a}".lower() for zone in (early, late)]
    assert days[0] != days[1]
    timetable = f"{days[0]}-00:00,off {days[1]}-00:00,100K"
    took = {}
    for zone in (early, late):
        began = time.monotonic()
        task = task_for(files, tmp_path / "copies" / zone, options={"bwlimit": timetable}, zone=zone)
        result = engine_for("local").run(task, on_progress=lambda progress: None, stop=threading.Event())
        assert result.verdict is Verdict.SUCCEEDED, result.error
        took[zone] = time.monotonic() - began
    assert took[late] > took[early] + 1
