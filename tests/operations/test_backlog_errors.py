"""`manage.py backlog errors` and `retry --like`: dead letters at the terminal."""

import json
from typing import Any

import pytest

from jobs.models import BacklogRecord
from jobs.states import Status
from operations.backlog.dead_letters import group_id
from operations.management.commands import backlog as backlog_command
from tests.commands import command
from tests.factories import make_record, statuses

run, refused = command("backlog")
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("kind_of_tests")]

FULL = group_id("disk N is full")


def failed(error: str, **fields: Any) -> BacklogRecord:
    return make_record(Status.FAILED, last_error=error, **fields)


def test_a_line_a_group_and_what_to_do_with_it_also_as_json() -> None:
    make_record(Status.WAITING, last_error="boom")
    assert refused("errors", code=1) == "no failed record"
    failed("boom")
    failed("disk 1 is full")
    last = failed("disk 2 is full")
    facts = run("errors")
    assert "3 failed records in 2 groups; `manage.py backlog retry --like GROUP` retries one" in facts
    [line] = [line.split() for line in facts.splitlines() if "disk N is full" in line]
    assert (line[0], line[1], line[-1]) == (FULL, "2", str(last.pk))
    assert facts.index("disk N is full") < facts.index("boom")
    group, _ = json.loads(run("errors", "--json"))["groups"]
    assert (group["group"], group["count"], group["example"]) == (FULL, 2, "disk 2 is full")


def test_smaller_groups_and_older_records_that_are_not_shown_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    [failed(error) for error in ("a b", "a b", "c d", "e f")]
    assert "; 2 smaller groups are not shown (--limit)" in run("errors", "--limit", 1)
    whole = backlog_command.dead_letters
    monkeypatch.setattr(backlog_command, "dead_letters", lambda *given: whole(*given, most=2))
    assert "the newest 2 failed records in" in run("errors")
    assert "there are older ones" in run("errors")


class TestLike:
    def test_exactly_that_group_is_retried_and_a_dry_run_lists_it(self) -> None:
        records = [failed("disk 1 is full"), failed("disk 22 is full"), failed("boom")]
        waiting = make_record(Status.WAITING, last_error="disk 1 is full")
        facts = run("retry", "--like", FULL, "--dry-run")
        assert "would retry 2 records (2 failed); nothing was changed" in facts
        assert all(str(record.pk) in facts for record in records[:2])
        assert "2 ready" in run("retry", "--like", FULL, "--yes")
        assert statuses(*records, waiting) == [Status.READY, Status.READY, Status.FAILED, Status.WAITING]

    def test_all_other_filters_hold_as_well_and_what_is_no_group_is_refused(self) -> None:
        record = failed("disk 1 is full")
        refused("retry", "--like", FULL, "--yes", "7")
        for beside in (["--status", "waiting"], ["--error", "x"], ["--subject", "x"]):
            refused("retry", "--like", FULL, "--yes", *beside, code=1)
        assert refused("retry", "--like", "0" * 12, "--yes", code=1) == "no record matches"
        for group in ("x", "4F1C08AB92DE", FULL + "0"):
            assert "is no group: 12 digits and letters" in refused("retry", "--like", group, "--yes", code=None)
        assert statuses(record) == [Status.FAILED]


def test_show_tells_why_a_record_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    record = make_record(Status.WAITING)
    monkeypatch.setattr(backlog_command, "reasons", lambda record, now: ["the first reason", "the second"])
    assert "the first reason; the second" in run("show", record.pk)
    assert json.loads(run("show", record.pk, "--json"))["why"] == ["the first reason", "the second"]
