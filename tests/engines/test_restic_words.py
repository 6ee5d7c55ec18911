"""The meaning of restic's messages and exit codes, and the limits of waiting for it."""

import json
import threading
from types import SimpleNamespace

import pytest

from engines.base import EngineProgress
from engines.restic.engine import ResticProgress
from engines.restic.options import options_of
from storage.restic import program
from storage.restic.program import TRIES, StuckSignal
from storage.restic.verdicts import ResticTrouble as Trouble
from storage.restic.verdicts import problem_of, trouble_of

LOCKED = "unable to create lock in backend: repository is already locked"
NO_CONFIG = "unable to open config file: "
REFUSED = "dial tcp: connection refused"


@pytest.mark.parametrize(
    ("code", "text", "trouble"),
    [
        (1, "wrong password or no key found", Trouble.WRONG_KEY),
        (1, f"{LOCKED} by PID 7 on vm", Trouble.LOCKED),
        (1, f"{LOCKED} exclusively by PID 7", Trouble.LOCKED),
        (1, f"{NO_CONFIG}stat nope/config: no such file or directory; Is there", Trouble.NO_REPOSITORY),
        (1, f'{NO_CONFIG}Head "http://x/config": {REFUSED}', Trouble.UNREACHABLE),
        (1, "unable to save snapshot: write /x: no space left on device", Trouble.NO_SPACE),
        (1, "all target directories/files do not exist", Trouble.NO_SOURCE),
        (1, "unable to save snapshot: snapshot is empty", Trouble.NOTHING),
        (1, 'invalid id "dead": no matching ID found for prefix "dead"', Trouble.NO_SNAPSHOT),
        (1, "create repository at /x failed: config file already exists", Trouble.EXISTS),
        (1, f"{NO_CONFIG}stat /srv/507/config: no such file or directory", Trouble.NO_REPOSITORY),
        (1, "server response unexpected: 507 Insufficient Storage (507)", Trouble.NO_SPACE),
        (1, "something new", Trouble.OTHER),
        (10, "", Trouble.NO_REPOSITORY),
        (11, "", Trouble.LOCKED),
        (12, "", Trouble.WRONG_KEY),
    ],
)
def test_what_restic_ends_with_has_one_meaning(code: int, text: str, trouble: Trouble) -> None:
    assert trouble_of(code, text) is trouble


def test_lines_about_files_are_read_in_old_and_new_forms_and_progress_twice_a_second_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = '{"message_type":"error","error":{"Op":"open","Path":"/s/x","Err":13},"during":"archival","item":"/s/x"}'
    new = '{"message_type":"error","error":{"message":"denied"},"during":"archival","item":"/s/x"}'
    assert (problem_of(old), problem_of(new)) == ("/s/x: Permission denied", "/s/x: denied")
    lost = '{"message_type":"error","error":{},"during":"archival","item":"/s/x"}'
    assert problem_of(lost) == "/s/x: restic gives no reason"
    seen: list[EngineProgress] = []
    progress = ResticProgress(seen.append)
    now = 1.0
    monkeypatch.setattr("engines.restic.engine.time", SimpleNamespace(monotonic=lambda: now))
    for number in range(1000):
        progress.take(
            json.dumps(
                {"message_type": "status", "bytes_done": number, "total_bytes": 9, "files_done": 1},
                separators=(",", ":"),
            )
        )
        now += 0.0012
    assert [each.bytes_done for each in seen] == [0, 417, 834]
    progress.take(old)
    progress.take("no JSON")
    assert (progress.problems, progress.problem_count) == (["/s/x: Permission denied"], 1)


def test_options_of_a_policy_mean_the_same_to_restic() -> None:
    patterns = ["*.tmp", "/cache/**", "*.{iso,img}", "dir/"]
    assert options_of({"exclude": patterns, "bwlimit": "2M", "transfers": 4}, "/srv/a[b]") == (
        "--exclude=/srv/a\\[b\\]/**/*.tmp", "--exclude=/srv/a\\[b\\]/cache", "--exclude=/srv/a\\[b\\]/**/*.img",
        "--exclude=/srv/a\\[b\\]/**/*.iso", "--exclude=/srv/a\\[b\\]/**/dir", "--limit-upload=2048",
    )  # fmt: skip
    with pytest.raises(ValueError, match="timetable"):
        options_of({"bwlimit": "08:00,512K 19:00,off"}, "/srv")
    with pytest.raises(ValueError, match="no regular expressions"):
        options_of({"exclude": ["{{a+}}"]}, "/srv")


def test_tries_end_a_run_only_when_nothing_gets_done_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "OUTAGE_SECONDS", 0.0)
    of_rclone = "rclone: 2026/11/23 06:10:32 ERROR : data/bd/bd6d: Post request put error: dial tcp: connection refused"
    retry = "Save(<data/bd6d>) returned error, retrying after 720ms: server response unexpected: 500"
    done = [0]
    moving, stuck = StuckSignal(threading.Event(), lambda: done[0]), StuckSignal(threading.Event(), lambda: 1)
    for number in range(TRIES * 2):
        done[0] = number
        for each in (moving, stuck):
            each.take(lambda line: None, of_rclone)
            each.take(lambda line: None, retry)
    assert (moving.is_set(), stuck.is_set(), stuck.trouble) == (False, True, Trouble.UNREACHABLE)
    assert stuck.text.endswith("connection refused")
    full = StuckSignal(threading.Event(), None)
    for _ in range(TRIES):
        full.take(lambda line: None, f"{retry}: no space left on device")
    assert (full.is_set(), full.trouble) == (True, Trouble.NO_SPACE)


READ_ONLY = "read-only file system"
LOST = "open /x/data/e3/e39a: no such file or directory"
SAVE, LOAD = "Save(<lock/29>)", "Load(<data/e3>, 17, 0)"


@pytest.mark.parametrize(
    ("verb", "why", "goes_on", "ends_at_once", "trouble"),
    [
        (SAVE, f"open /x/restic/locks/29-tmp-17: {READ_ONLY}", False, True, Trouble.NOT_WRITABLE),
        ("Remove(<lock/29>)", f"chmod /x/locks/29: {READ_ONLY}", False, True, Trouble.NOT_WRITABLE),
        (SAVE, "locks/29: PUT request: AccessDenied: Access Denied", False, True, Trouble.NOT_WRITABLE),
        (SAVE, "write /x/locks/29-tmp-1: no space left on device", False, True, Trouble.NO_SPACE),
        (SAVE, REFUSED, False, False, Trouble.UNREACHABLE),
        (LOAD, LOST, False, True, Trouble.DAMAGED),
        (LOAD, LOST, True, False, Trouble.DAMAGED),
        (LOAD, "read /x/data/e3/e39a: input/output error", True, False, Trouble.DAMAGED),
    ],
)
def test_what_no_waiting_heals_is_not_waited_for_but_where_restic_goes_on_with_the_rest(
    verb: str, why: str, goes_on: bool, ends_at_once: bool, trouble: Trouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts as restic 0.14 and rclone print them."""
    monkeypatch.setattr(program, "OUTAGE_SECONDS", 0.0)
    stuck = StuckSignal(threading.Event(), None, goes_on=goes_on)
    again = f"{verb} returned error, retrying after 552.330144ms: {why}"
    stuck.take(lambda line: None, again)
    assert (stuck.is_set(), stuck.trouble) == (ends_at_once, trouble)
    for _ in range(TRIES):
        stuck.take(lambda line: None, again)
    assert stuck.is_set() is not goes_on
    monkeypatch.setattr(program, "DAMAGE_SECONDS", 0.0)
    stuck.take(lambda line: None, again)
    assert stuck.is_set()
