"""The sizes that a source reports bound what is read of its files, and one that it does not report bounds nothing."""

from dataclasses import replace
from pathlib import Path
from threading import Event, Timer

import pytest

from engines.base import Verdict
from storage.places import rclone
from storage.points.other_names import name_for
from tests.engines.peers import STARTED_AT, held, point, run, task_for
from tests.engines.webdav_shares import AWAY, Share
from tests.waiting import PATIENCE

CONTENT = b"more than the slack"


class SilentShare(Share):
    """Does not answer this many questions about a file, and as many about its folder, once that was listed."""

    unanswered, unheard, is_listed = 0, 0, False

    def found(self, path: str, is_deep: bool) -> tuple[int, bytes]:
        first = next(iter(self.files))
        if path == first and self.unanswered:
            self.unanswered -= 1
            return AWAY, b""
        if path == first.rpartition("/")[0] and is_deep:
            if self.is_listed and self.unheard:
                self.unheard -= 1
                return AWAY, b""
            self.is_listed = True
        return super().found(path, is_deep)


@pytest.mark.parametrize(
    "path", ["dot.", pytest.param("a/space ", marks=pytest.mark.slow), pytest.param("l" * 200, marks=pytest.mark.slow)]
)
def test_a_file_whose_size_is_not_told_when_it_is_copied_comes_with_the_listed_one(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rclone, "SLACK", 10)
    share = SilentShare(**{path: CONTENT})
    share.unanswered = share.unheard = 3  # the tries of rclone, which lists the folder as well
    with share.served() as source:
        result = run(task_for(source, tmp_path / "copy"))
    assert (result.verdict, result.warnings, result.new) == (Verdict.SUCCEEDED, (), 1), result
    assert point(tmp_path / "copy", result.snapshot)[path].stored == name_for(path), "it was tried under two names"


def test_a_file_under_another_name_is_tried_again_like_any_other(tmp_path: Path) -> None:
    share = SilentShare(**{"dot.": CONTENT, "other": b"other"})
    share.unanswered = 6  # once for its size, which is then found in the list of its folder
    with share.served() as source:
        result = run(task_for(source, tmp_path / "copy"))
    assert (result.verdict, result.warnings, result.new) == (Verdict.SUCCEEDED, (), 2), result


@pytest.mark.parametrize(
    "endless",
    [["b3"], pytest.param(["a", "b7", "c/d"], marks=pytest.mark.slow), pytest.param(["b9"], marks=pytest.mark.slow)],
)
def test_digests_that_are_read_have_an_end(endless: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rclone, "SLACK", 2**16)
    share = Share(a=b"first", **{f"b{number}": b"%d" % number for number in range(10)}, **{"c/d": b"deep"})
    whole, stop = {path: text.decode() for path, text in share.files.items()}, Event()
    with share.served() as source:
        task = task_for(source, tmp_path / "copy", options={"checksum": True})
        assert run(task).new == len(whole)
        share.endless.update(endless)
        later = replace(task, started_at=STARTED_AT.replace(day=23), newest="20261121T065755Z")
        (timer := Timer(PATIENCE, stop.set)).start()
        result = run(later, stop=stop)
        timer.cancel()
    assert (result.verdict, result.unchanged) == (Verdict.WARNINGS, len(whole)), result
    assert held(tmp_path / "copy", result.snapshot) == whole
    assert {each.folder for each in point(tmp_path / "copy", result.snapshot).values()} <= {"20261121T065755Z", ""}
