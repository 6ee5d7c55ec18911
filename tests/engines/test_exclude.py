"""Patterns leave out the same in our own walk and in rclone's listing."""

import subprocess
from pathlib import Path

import pytest

from engines.rclone.exclude import matcher, rclone_arguments
from external.processes.programs import find_rclone
from tests.engines.peers import write_files

PATHS = (
    "cache", "sub/cache", "cached/a", "a.tmp", "sub/a.tmp", "sub/b.TMP", "old/x", "sub/old/deep/y", "sub/older", "x[1]",
    "a{b}", "sub/a,b", "img1.iso", "img12.iso", "imgx.iso", "top/sub/file", "sub/top/sub/file", "q?",
    "back\\slash", "é/ü",
)  # fmt: skip
PATTERNS = (
    "cache", "/cache", "*.tmp", "/*.tmp", "old/", "old/**", "/sub/**", "sub/*", "img?.iso", "img[0-9].iso",
    "img[^0-9].iso", "*.{tmp,iso}", "{a,x}*", "{{img[0-9]+}}.iso", "top/sub", "/top/**/file", "x\\[1\\]", "a\\{b\\}",
    "q\\?", "é", "**/deep", "*",
)  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_names_the_same_files_for_our_walk_and_for_rclone(pattern: str, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "files", **dict.fromkeys(PATHS, ""))
    command = (
        find_rclone(),
        "lsf",
        "--recursive",
        "--files-only",
        "--config=",
        *rclone_arguments([pattern]),
        str(folder),
    )
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    is_left_out = matcher([pattern])
    assert sorted(each for each in PATHS if not is_left_out(each)) == sorted(listed)


@pytest.mark.parametrize("pattern", ["a[b", "{a,b", "{{a", "{{(}}", "a\\"])
def test_a_pattern_that_is_none_is_named(pattern: str) -> None:
    with pytest.raises(ValueError, match="is not a file pattern"):
        matcher([pattern])
