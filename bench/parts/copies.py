"""What a backup costs beside rclone alone, its own processes and its manifest included."""

import tempfile

from bench.processes import ContestantFailed, call
from bench.results import Key
from bench.stage import Stage

NAME = "backups-ours"
PART, OURS, BARE = "copies", "backup", "rclone"
FIRST, UNCHANGED, MORE = "first", "unchanged", "unchanged, backup less rclone"
TARGET = "≤ 1.10"


def run(stage: Stage) -> None:
    files, size = stage.options.files, stage.options.files * 100_000
    for contestant in stage.cast([NAME]):
        with tempfile.TemporaryDirectory(prefix="backlog-bench-copies-") as home:
            try:
                url = stage.server.url(stage.tables_of(contestant))
                call(contestant, "make_files", url=url, home=home, files=files, size=size)
                for repeat in stage.repeats(PART):
                    found = call(contestant, "time_copies", url=url, home=home, ours_first=repeat % 2 == 0)
                    for case, seconds in found.items():
                        for name, value in seconds.items():
                            stage.results.add(Key(PART, case, name), value, "s", f"{files:,} files")
                    more = found[UNCHANGED][OURS] - found[UNCHANGED][BARE]
                    stage.results.add(Key(PART, MORE, OURS), more, "s", "promised: ≤ 0.5")
                    stage.say(f"copies: {found}")
            except ContestantFailed as error:
                stage.fail(contestant, error)
    stage.results.compare("copies, first: backup / rclone", Key(PART, FIRST, OURS), Key(PART, FIRST, BARE), TARGET)
