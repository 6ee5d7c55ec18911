"""A copy whose server has stored files with another content than was sent."""

from pathlib import Path
from typing import Any

import pytest

from storage import layout
from storage.points.store import StorageFailed
from tests.append_only import DENIED
from tests.engines.peers import tree, write_files
from tests.engines.refused_copies import NEW, copied_to
from tests.processes import below

pytestmark = pytest.mark.slow


def test_a_file_that_arrived_altered_is_never_taken_for_whole(tmp_path: Path) -> None:
    altered = {"comes"}

    def refusal(command: str, path: str, headers: Any) -> tuple[int, bytes] | None:
        there = tmp_path / "served" / path.strip("/")
        if command != "PUT" or there.is_file() or not {there.name, there.parent.name[-2:]} & altered:
            return None
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_text("ALTERED"[: len(NEW)])
        return 200, b""

    with copied_to("s3", tmp_path, refusal, None) as copied:
        points = [copied.back_up(0, same="same", comes=NEW)]
        done = copied.copy()
        assert (done.new, done.incomplete, done.wrong) == (points, {}, []), "under another name"
        assert copied.restored(points[0], 0)[1] == tree(tmp_path / "source")
        altered.add(".0")
        for day, files in ((1, {"comes": "NEWER!!"}), (2, {})):
            copied.back_up(day, **files)
            done = copied.copy(*points)
            points = done.points
            assert [*done.incomplete] == done.new
            report, back = copied.restored(done.new[-1], day)
            assert (report.old_files, back["comes"]) == (1, NEW)


@pytest.mark.parametrize("is_torn", [False, True])
def test_a_file_that_arrived_altered_is_not_taken_for_whole_after_a_killed_copy(is_torn: bool, tmp_path: Path) -> None:
    altered, is_killed = list[str](), True

    def refusal(command: str, path: str, headers: Any) -> tuple[int, bytes] | None:
        if command != "PUT" or altered or not path.endswith("/comes"):
            return DENIED if is_killed and path.endswith(layout.MANIFEST_ENDING) else None
        altered.append(path)
        write_files((tmp_path / "served" / path.strip("/")).parent, comes="ALTERED"[: len(NEW)])
        return 200, b""

    with copied_to("s3", tmp_path, refusal, None) as copied:
        point = copied.back_up(0, same="same", comes=NEW)
        with pytest.raises(StorageFailed):
            copied.copy()
        [note] = (tmp_path / "served").rglob(f"*{layout.AMISS}")
        if is_torn:
            note.write_bytes(b"")
        is_killed = False
        done = copied.copy()
        assert (done.new, done.incomplete, done.wrong) == ([point], {}, [])
        assert copied.restored(point, 0)[1] == tree(tmp_path / "source")


def test_a_file_that_arrived_altered_under_another_name_is_not_taken_for_whole_after_an_rclone_that_ended(
    tmp_path: Path,
) -> None:
    altered, files = list[str](), {"comes": NEW, "comet": NEW}

    def refusal(command: str, path: str, headers: Any) -> tuple[int, bytes] | None:
        if command != "PUT" or headers.get("Content-Length") != str(len(NEW)) or len(altered) > len(files):
            return None
        if (there := tmp_path / "served" / path.strip("/")).is_file():
            return None
        altered.append(path)
        write_files(there.parent, **{there.name: "ALTERED"[: len(NEW)]})
        return 200, b""

    def ended_by_the_next(command: str, path: str, headers: Any) -> tuple[int, bytes] | None:
        if (found := refusal(command, path, headers)) is None and command == "PUT" and len(altered) == 3:
            for each in below("rcd") if ".0/" in path else ():
                each.kill()
        return found

    with copied_to("s3", tmp_path, ended_by_the_next, None) as copied:
        point = copied.back_up(0, same="same", **files)
        with pytest.raises(StorageFailed):
            copied.copy()
        assert [".0/" in each for each in altered] == [False, False, True]
        copied.refusal = None
        done = copied.copy()
        assert (done.new, [*done.incomplete]) == ([point], [point]), "it cannot be replaced"
        assert "comes" not in copied.restored(point, 0)[1]
