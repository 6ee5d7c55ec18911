"""Patterns leave out the same in our own walk, in rclone's listing and in a snapshot of restic."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from engines.base import Verdict
from engines.rclone.exclude import matcher, rclone_arguments
from engines.rclone.options import check_options
from engines.restic.options import options_of
from external.processes.programs import find_rclone, find_restic
from storage.places.location import RESTIC
from tests.engines.peers import back_up, local_folder, write_files
from tests.engines.restic_keys import make_empty
from tests.engines.restic_runs import KEY
from tests.programs import needs_restic

PATHS = (
    "cache", "sub/cache", "cached/a", "a.tmp", "sub/a.tmp", "sub/b.TMP", "old/x", "sub/old/deep/y", "sub/older", "x[1]",
    "a{b}", "sub/a,b", "img1.iso", "img12.iso", "imgx.iso", "top/sub/file", "sub/top/sub/file", "q?",
    "back\\slash", "é/ü", "top/file", "deep", "x/deep", "a/1/b/2/c", "z/a/1/1/b/2/2/c", "a/b/2/c",
    "img/.iso", "img./a", "x-",
)  # fmt: skip
PATTERNS = (
    "cache", "/cache", "*.tmp", "/*.tmp", "old/", "old/**", "/sub/**", "sub/*", "img?.iso", "img[0-9].iso",
    "img[^0-9].iso", "*.{tmp,iso}", "{a,x}*", "{{img[0-9]+}}.iso", "top/sub", "/top/**/file", "x\\[1\\]", "a\\{b\\}",
    "q\\?", "é", "**/deep",
    "**/top", "/**/file", "sub/**/file", "{{[a-z]{5}}}", "img[0-9]*.{iso,img}", "sub/{a,b}.*", "a\\{b\\}*",
    "{sub/cache,q?}", "**/*", "a/**/b/**/c", "{sub/cache,top}/file", "sub{/older,x}",
    "img[^x]*", "x[+-9]*", "img[!-~].iso", "{{img[^x]a}}", "x[-_]",
    "x[!-]", "[^a-x-]/*", "{x[+-],img[0-9-]2}*",
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


@needs_restic
@pytest.mark.slow
def test_a_pattern_names_the_same_files_for_restic_wherever_their_folder_is(tmp_path: Path) -> None:
    """All patterns in one run, each below a folder of its own. Folders above that have names that they would match."""
    above = tmp_path / "cache" / "a.tmp" / "old" / "x[1]"
    make_empty(tmp_path / RESTIC, KEY)
    patterns, arguments = [each for each in PATTERNS if "{{" not in each], list[str]()
    for number, pattern in enumerate(patterns):
        write_files(above / str(number), **dict.fromkeys(PATHS, ""))
        arguments += options_of({"exclude": [pattern]}, str(above / str(number)))
    environment = {"PATH": os.environ["PATH"], "RESTIC_REPOSITORY": str(tmp_path / RESTIC), "RESTIC_PASSWORD": KEY}

    def restic(*command: str) -> str:
        argv = (find_restic(), "--no-cache", "--json", *command)
        return subprocess.run(argv, check=True, capture_output=True, text=True, cwd=above, env=environment).stdout

    restic("backup", *arguments, ".")
    rows = map(json.loads, restic("ls", "latest").splitlines())
    kept = {row["path"].strip("/") for row in rows if row.get("type") == "file"}
    for number, pattern in enumerate(patterns):
        is_left_out = matcher([pattern])
        found = {each.partition("/")[2] for each in kept if each.startswith(f"{number}/")}
        assert found == {each for each in PATHS if not is_left_out(each)}, pattern


@pytest.mark.parametrize(
    ("pattern", "path"), [("img[^x]*", "img/.iso"), ("x[+-9]*", "x/deep"), ("img[!-~].iso", "img/.iso")]
)
def test_a_choice_of_characters_matches_within_a_name(pattern: str, path: str) -> None:
    assert not matcher([pattern])(path)


@pytest.mark.parametrize("pattern", ["a**b", "sub/**.tmp", "{{a}}"])
def test_a_pattern_that_restic_would_read_differently_is_refused(pattern: str) -> None:
    check_options({"exclude": [pattern]})
    with pytest.raises(ValueError, match="'exclude' holds"):
        options_of({"exclude": [pattern]}, "/srv")


@pytest.mark.parametrize(
    "pattern",
    [
        "a[b", "{a,b", "{{a", "{{(}}", "a\\", "a]", "a}", "{a,{b,c}}", "***", "\\d", "\\é", "[\\d]", "[[:digit:]]",
        "[]a]", "[a/b]", "/", "/**", "**", "*", "/*/", "a//b", "//a", "a//", "./a", "a/.", "a/../b", "/..", "{a,}/b",
        "a/{b,}", "{/a,b}", "a{/,b}", "{a,.}{.,b}/c", "a\\/b",
    ],
)  # fmt: skip
def test_a_pattern_that_is_none_or_means_something_else_to_one_of_them_is_named(pattern: str) -> None:
    with pytest.raises(ValueError, match="is not a file pattern"):
        matcher([pattern])
    with pytest.raises(ValueError, match="is not a file pattern"):
        options_of({"exclude": [pattern]}, "/srv")


@pytest.mark.parametrize("pattern", ["a//b", "/"])
def test_a_pattern_that_was_stored_before_it_was_refused_ends_a_run_with_a_sentence(
    pattern: str, tmp_path: Path
) -> None:
    files = local_folder(write_files(tmp_path / "files", a=""))
    result = back_up(files, tmp_path / "copy", options={"exclude": [pattern]})
    assert (result.verdict, f"{pattern!r} is not a file pattern" in result.error) == (Verdict.SOURCE_FAILED, True)
    with pytest.raises(ValueError, match="is not a file pattern"):
        rclone_arguments([pattern])
