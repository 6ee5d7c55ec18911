"""The time of a backup compared with rclone or restic alone, its processes and its manifest included."""

import tempfile
from typing import Any

from proving.bench.contestant import Contestant
from proving.bench.processes import COMMAND_SECONDS, call, call_within
from proving.bench.results import Key
from proving.bench.stage import Stage

NAME = "backups-ours"
PART, OURS, RCLONE, RESTIC = "copies", "backup", "rclone", "restic"
BARES = ((RCLONE, "local"), (RESTIC, "local"), (RCLONE, "sftp"), (RCLONE, "s3"))
"""The programs that copy alone, and the kind of the source."""
FIRST, UNCHANGED, CHANGED = "first", "unchanged", "1 % changed"
TARGET, TINY_TARGET, CHANGED_TARGET = "≤ 1.10", "≤ 1.25", "≤ 1.2"
TINY = 1_000
"""Files of at most so many bytes are tiny."""
MORE = "promised: ≤ 0.3"
SHAPES = ((1_000, 100_000), (100_000, 1_000), (10, 100_000_000))
"""Many small files and few large ones, to show costs per file and per byte."""
SECONDS_A_FILE = 0.06
"""A pair may take so much longer for each file: over SFTP, two first copies of one take a fortieth of a second."""
LINES = 100_000
LINES_TARGET = "promised: ≤ 83, a twentieth of the time in which restic prints them, 60 a second"


def run(stage: Stage) -> None:
    shapes = [(stage.options.files, 100_000), *(SHAPES if stage.options.all_shapes else ())]
    for contestant in stage.cast([NAME]):
        with tempfile.TemporaryDirectory(prefix="backlog-bench-copies-") as home:
            _read_progress(stage, contestant, home)
        for files, size in shapes:
            shape = f"{files:,} × {size // 1000:,} kB"
            with tempfile.TemporaryDirectory(prefix="backlog-bench-copies-") as home, stage.trying(contestant):
                _measure(stage, contestant, home, files, size, shape)
            for bare, kind in BARES:
                for case, target in ((FIRST, TINY_TARGET if size <= TINY else TARGET), (CHANGED, CHANGED_TARGET)):
                    over, under = (Key(PART, f"{case}, {shape}, {kind}, {bare}", each) for each in (OURS, bare))
                    stage.results.compare(f"copies, {case}, {shape}, {kind}: backup / {bare}", over, under, target)


def _read_progress(stage: Stage, contestant: Contestant, home: str) -> None:
    url = stage.server.url(stage.tables_of(contestant))
    for _ in stage.repeats(PART):
        spent = call(contestant, "read_progress", url=url, home=home, lines=LINES)
        stage.results.add(
            Key(PART, f"{LINES:,} lines of restic's progress", OURS), spent, "s of processor", LINES_TARGET
        )


def _measure(stage: Stage, contestant: Contestant, home: str, files: int, size: int, shape: str) -> None:
    url = stage.server.url(stage.tables_of(contestant))
    call(contestant, "make_files", url=url, home=home, files=files, size=size)
    for repeat in stage.repeats(PART):
        for bare, kind in BARES:
            facts: dict[str, Any] = {"ours_first": repeat % 2 == 0, "with_restic": bare == RESTIC, "kind": kind}
            within = COMMAND_SECONDS + SECONDS_A_FILE * files
            found = call_within(within, contestant, "time_copies", url=url, home=home, files=files, size=size, **facts)
            for case, seconds in found.items():
                for name, value in seconds.items():
                    stage.results.add(Key(PART, f"{case}, {shape}, {kind}, {bare}", name), value, "s")
                if case == UNCHANGED:
                    more, less = seconds[OURS] - seconds[bare], f"{case}, {shape}, {kind}, backup less {bare}"
                    stage.results.add(Key(PART, less, OURS), more, "s", MORE)
            stage.say(f"copies of {shape}, {kind}, next to {bare}: {found}")
