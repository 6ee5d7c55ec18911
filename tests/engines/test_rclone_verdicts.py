"""The table of rclone's messages, on lines that rclone 1.75 wrote (where a peer here cannot be made to fail so)."""

import json

import pytest

from engines.base import EngineProgress, Verdict
from engines.rclone.bringing import Problems
from engines.rclone.log import RcloneLog
from engines.rclone.verdicts import judge
from storage.points.refusals import without_path

DESTINATION = "/srv/backups/a-1/daily"


def log_of(*problems: tuple[str, str], transfers: int = 1) -> RcloneLog:
    log = RcloneLog()
    for path, message in problems:
        about = {"object": path, "objectType": "*local.Object"} if path else {}
        log.take(json.dumps({"level": "error", "msg": message, **about}))
    log.take(json.dumps({"level": "notice", "msg": "", "stats": {"bytes": 9, "transfers": transfers, "checks": 0}}))
    return log


@pytest.mark.parametrize(
    ("path", "message", "verdict"),
    [
        ("", "couldn't connect SSH: dial tcp 10.0.0.1:22: connect: no route to host", Verdict.UNAVAILABLE),
        ("", "couldn't connect SSH: dial tcp 10.0.0.1:22: i/o timeout", Verdict.UNAVAILABLE),
        ("", "couldn't connect SSH: ssh: handshake failed: EOF", Verdict.UNAVAILABLE),
        ("a", "Failed to copy: failed to open source object: connection lost", Verdict.WARNINGS),
        ("", "error reading source root directory: couldn't list files: 403 Forbidden", Verdict.SOURCE_FAILED),
        ("a", "Failed to copy: failed to open source object: no space left on device", Verdict.WARNINGS),
        (
            "NTUSER.DAT",
            'Failed to copy: failed to open source object: sftp: "Failure" (SSH_FX_FAILURE)',
            Verdict.WARNINGS,
        ),
        ("a", "Failed to copy: failed to open source object: unexpected HTTP status 423 Locked", Verdict.WARNINGS),
        ("a", "Failed to copy: InvalidObjectState: the object's storage class is GLACIER", Verdict.WARNINGS),
        ("a", "Failed to copy: failed to open source object: open /home/a: operation not permitted", Verdict.WARNINGS),
        ("a", "Failed to copy: failed to open source object: open /srv/a: stale NFS file handle", Verdict.WARNINGS),
        ("a", "Failed to copy: read /srv/a: no data available", Verdict.WARNINGS),
        ("a", "Failed to copy: read /srv/a: connection timed out", Verdict.WARNINGS),
        ("a", "Failed to copy: AccessDenied: Access Denied status code: 403", Verdict.WARNINGS),
        ("a", "Failed to copy: write /x/a.12345678.rclone-partial: no space left on device", Verdict.REPOSITORY_FAILED),
        ("a", f"Failed to copy: mkdir {DESTINATION}/current: permission denied", Verdict.REPOSITORY_FAILED),
        ("a", f"Failed to copy: mkdir {DESTINATION}/current: read-only file system", Verdict.REPOSITORY_FAILED),
        ("k", "Failed to copy: failed to open source object: open /home/k: permission denied", Verdict.WARNINGS),
        ("d", 'failed to open directory "d": open /home/d: permission denied', Verdict.WARNINGS),
        ("connection refused", "failed to open: open /home/connection refused: permission denied", Verdict.WARNINGS),
        ("", "bad glob pattern", Verdict.SOURCE_FAILED),
    ],
)
def test_a_message_tells_who_is_to_blame(path: str, message: str, verdict: Verdict) -> None:
    assert judge(1, log_of((path, message)), DESTINATION).verdict is verdict


def test_the_repository_is_to_blame_before_the_source_and_a_run_without_a_single_file_has_failed() -> None:
    unreadable = ("a", "Failed to copy: open /home/a: permission denied")
    log = log_of(unreadable, ("b", f"write {DESTINATION}/current/b: no space left on device"))
    assert judge(1, log, DESTINATION).verdict is Verdict.REPOSITORY_FAILED
    assert judge(1, log_of(("a", "Failed to copy: i/o timeout")), DESTINATION).is_silent
    for exit_code in (2, 7, 10, -9):
        assert judge(exit_code, log_of(unreadable), DESTINATION).verdict is Verdict.SOURCE_FAILED, "it ended midway"
    for exit_code in (1, 10, 42, -9):
        judgement = judge(exit_code, RcloneLog(), DESTINATION)
        assert (judgement.verdict, judgement.text != "") == (Verdict.SOURCE_FAILED, True), "it says what the code means"


def test_too_many_problems_are_counted_and_the_first_and_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engines.rclone.log.MAX_PROBLEMS", 100)
    log = log_of(*((f"file-{n}", f"open /home/file-{n}: permission denied") for n in range(600)))
    assert (len(log.problems), log.problem_count) == (100, 600)
    assert (log.problems[0].path, log.problems[-1].path) == ("file-0", "file-599")
    judgement = judge(1, log, DESTINATION)
    assert (len(judgement.problems), judgement.unnamed) == (100, 500)


def test_any_text_is_survived_and_stats_say_how_far_it_is() -> None:
    log = RcloneLog()
    for line in ("", "{", "{}", "[]", '{"level": "error"', '{"level": 3, "stats": {"bytes": null}}'):
        log.take(line)
    assert not log.problems
    line = '{"level":"notice","msg":"","stats":{"bytes":5,"totalBytes":9,"transfers":2,"checks":7,"eta":null}}'
    assert log.take(line) == EngineProgress(5, 9, 2)


@pytest.mark.parametrize("path", ["a/access denied", "invalid name", "not found/a"])
def test_a_file_is_tried_again_whatever_its_name_is(path: str) -> None:
    for why in (f"open /mnt/{path}: unexpected EOF", f'"{path.rpartition("/")[2]}": unexpected EOF'):
        assert Problems({path: why}).may_pass(path)
    assert not Problems({path: f"open /mnt/{path}: permission denied"}).may_pass(path)


@pytest.mark.parametrize("path", ["no", "mis", "a", "", "/", "quota", ".*", "run/exceeded", "(", "is"])
def test_a_message_keeps_its_words_whatever_a_file_is_called(path: str) -> None:
    why = "disk quota exceeded, this is a mismatch: object not found"
    assert without_path(why, path) == why
    assert without_path(f"open /mnt/{path}: {why}", path).endswith(why)


@pytest.mark.parametrize("sign", ["\u200e", "\u202e", "\ufeff", "\u2066", "\n", "\u200b", '"', "\\"])
@pytest.mark.parametrize("form", ["open /mnt/{}: no answer", "open {!r}: no answer", '"{}": no answer'])
def test_a_name_with_marks_that_nobody_sees_says_nothing_either(form: str, sign: str) -> None:
    """A message shows such marks in another form than the name has."""
    quoted = form.replace("{!r}", json.dumps(f"a/host key mismatch{sign}"))
    message = quoted.format(f"a/host key mismatch{sign}")
    log = log_of((path := f"a/host key mismatch{sign}", message))
    assert "mismatch" not in without_path(log.problems[0].message, path)
    assert judge(1, log, DESTINATION).verdict is Verdict.WARNINGS
