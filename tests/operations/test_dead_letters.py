"""Dead letters: which errors say the same, what a group tells, in the admin and at the terminal; retrying them."""

import json
import re
import time
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from hypothesis import example, given
from hypothesis import strategies as st

from audit.models import AuditEntry
from jobs.models import BacklogRecord
from jobs.prepared_statements import execute
from jobs.states import Status, WaitingFor
from operations.admin import records as records_page
from operations.backlog import dead_letters as module
from operations.backlog import selection
from operations.backlog.dead_letters import (
    LENGTH_FOLDED,
    NEWEST_FAILED,
    dead_letters,
    facts_of,
    fold,
    group_id,
    ids_like,
)  # fmt: skip
from operations.backlog.reason import Code, Reason
from operations.management.commands import backlog as backlog_command
from tests.commands import command
from tests.factories import NOON, build_record, make_record, statuses
from tests.operations.questions import asked

RECORDS = "/admin/jobs/backlogrecord/"
PAGE = f"{RECORDS}dead-letters/"
FULL = group_id("disk N is full")
run, refused = command("backlog")


def failed(error: str, **fields: Any) -> BacklogRecord:
    return make_record(Status.FAILED, last_error=error, failures=3, **fields)


class TestFolding:
    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("nothing moved for 300 s; it was ended", "nothing moved for 1,800.5 s; it was ended"),
            ("cannot reach 10.0.0.7:22: refused", "cannot reach [2001:db8::1]:22: refused"),
            ("cannot reach laptop-1.lan:22: refused", "cannot reach 192.0.2.4: refused"),
            ("no answer from aa:bb:cc:dd:ee:ff", "no answer from 01:23:45:67:89:AB"),
            ("'/srv/a/b.txt' is locked", "'/home/anna/my file 3.xlsx' is locked"),
            ("/srv/repo/x: permission denied", "/srv/repo/y/z: permission denied"),
            (r"C:\Users\anna is locked", r"D:\data\7 is locked"),
            ("Documents/a.txt: not found", "Documents/old/2026/b.ods: not found"),
            ("not copied: /a; /b; /c", "not copied: /a"),
            ("no snapshot 3f2504e0-4f89-11d3-9a0c-0305e82c3301", "no snapshot deadbeef01"),
            ("since 2026-03-02T12:00:00+00:00 it hangs", "since 2026-04-01 07:30:01 UTC it hangs"),
            ("503 from https://a.example.org/hook?id=3", "503 from http://b.example.com/"),
            ("no\n  more", "no\n\nless"),
            ("  two   words ", "two words"),
        ],
    )
    def test_what_differs_in_numbers_ids_addresses_paths_or_instants_says_the_same(self, one: str, other: str) -> None:
        assert fold(one) == fold(other)

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("repository nas: no space left", "repository attic: no space left"),
            ("rclone ended with code 3", "rclone ended with code 7"),
            ("HTTP 503 from https://a.example.org/", "HTTP 404 from https://a.example.org/"),
            ("[Errno 28] on '/srv/a/b'", "[Errno 13] on '/srv/a/b'"),
            ("KeyError: 'title'", "KeyError: 'name'"),
            ("Command failed:\nthe disk is gone", "Command failed:\nit was killed"),
            ("cannot be read", "cannot be written"),
        ],
    )
    def test_what_differs_in_words_codes_or_names_does_not(self, one: str, other: str) -> None:
        assert fold(one) != fold(other)

    def test_what_is_left_is_still_a_sentence(self) -> None:
        message = "repository nas: [Errno 28] No space left on device: '/srv/backups/laptop-17/a.part' after 12 s"
        assert fold(message) == "repository nas: [Errno 28] No space left on device: PATH after N s"

    def test_the_names_of_a_record_are_left_out_and_no_part_of_a_word(self) -> None:
        assert fold("source bob: bobby is away", "bob") == "source NAME: bobby is away"
        assert fold("a file of a", "a") == "a file of a"

    def test_nothing_says_nothing(self) -> None:
        assert fold("") == fold(" \n ") == ""

    @given(st.text(max_size=500))
    @example("disk 1 of é\n" * 250)
    def test_any_text_is_folded_to_one_short_line_and_always_to_the_same(self, text: str) -> None:
        folded = fold(text)
        assert len(folded) <= LENGTH_FOLDED
        assert len(folded.splitlines()) <= 1
        assert (fold(text), group_id(folded)) == (folded, group_id(folded))

    @pytest.mark.parametrize("part", ['"/', "'/", "a/", "-.", ":", "1.", "f:", "@", "a.b-", "0", "1:", "A1", "/", "x"])
    def test_no_text_takes_long(self, part: str) -> None:
        """A pattern that goes back over itself takes seconds for a thousand characters, and not milliseconds."""

        def seconds() -> float:
            began = time.process_time()
            fold(part[0] + part * 1000)
            return time.process_time() - began

        assert any(seconds() < 0.2 for _ in range(3))  # a garbage collection may fall into one


@pytest.mark.django_db
class TestGroups:
    def test_the_largest_comes_first_with_its_kinds_its_time_and_its_newest_error(self) -> None:
        failed("boom")
        first = failed("disk 1 is full", finished_at=NOON, kind="a", queue="x")
        last = failed("disk 22 is full", finished_at=NOON + timedelta(hours=2), kind="b", queue="y")
        middle = failed("disk 333 is full", finished_at=NOON + timedelta(hours=1), kind="a", queue="x")
        largest, other = dead_letters().groups
        assert (largest.says, largest.count, largest.kinds, largest.queues) == (
            "disk N is full", 3, {"a", "b"}, {"x", "y"},
        )  # fmt: skip
        assert (largest.first_at, largest.last_at) == (NOON, NOON + timedelta(hours=2))
        assert (largest.example, largest.example_id) == ("disk 22 is full", last.pk)
        assert sorted(largest.ids) == sorted([first.pk, middle.pk, last.pk])
        assert other.says == "boom"

    def test_only_failed_records_are_dead_letters_all_or_those_of_one_kind_and_queue(self) -> None:
        for status in Status:
            make_record(status, last_error="boom", kind="a", queue="x")
        failed("boom", kind="a", queue="y")
        failed("boom", kind="b", queue="y")
        assert [dead_letters(*given).read for given in ((), ("a",), (None, "y"), ("b", "x"))] == [3, 2, 2, 0]

    def test_the_newest_are_read_and_it_says_that_there_are_older_ones(self) -> None:
        for hour in range(5):
            failed(f"error {'abcde'[hour]}", finished_at=NOON + timedelta(hours=hour))
        found = dead_letters(most=3)
        assert (sorted(each.says for each in found.groups), found.read, found.more) == (
            ["error c", "error d", "error e"], 3, True,
        )  # fmt: skip
        assert dead_letters(most=5).more is False

    def test_a_record_is_left_out_of_the_text_by_its_title_and_subject(self) -> None:
        failed("laptop one is locked", payload={"title": "laptop one"})
        failed("assignment:7 is locked", subject="assignment:7")
        assert [each.says for each in dead_letters().groups] == ["NAME is locked"]

    def test_the_facts_are_those_that_people_see(self) -> None:
        record = failed("disk 1 is full", finished_at=NOON)
        assert facts_of(dead_letters()) == {
            "groups": [{
                "group": group_id("disk N is full"), "says": "disk N is full", "count": 1, "first_at": NOON,
                "last_at": NOON, "example_id": record.pk, "example": "disk 1 is full", "kinds": ["test"],
                "queues": ["default"],
            }],
            "read": 1,
            "more": False,
        }  # fmt: skip

    def test_the_members_of_a_group_are_those_that_are_counted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "MOST_READ", 3)
        like = [failed(f"disk {number} is full", finished_at=NOON).pk for number in range(5)]
        failed("boom", finished_at=NOON)
        group = group_id("disk N is full")
        assert ids_like(group) == like[-2:]
        assert ids_like(group, "nothing") == ids_like("0" * 12) == []


@pytest.mark.django_db
def test_reading_them_reads_no_other_record() -> None:
    BacklogRecord.objects.bulk_create([build_record(Status.SUCCEEDED) for _ in range(3000)])
    BacklogRecord.objects.bulk_create([build_record(Status.FAILED) for _ in range(50)])
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE jobs_backlogrecord")
    values = {"kind": None, "queue": None, "limit": 10}
    plan = "\n".join(row[0] for row in execute(f"EXPLAIN {NEWEST_FAILED}", values).fetchall())
    assert "backlog_failed" in plan, plan
    assert [each for each in ("Seq Scan", "Sort") if each in plan] == [], plan


@pytest.mark.django_db
def test_a_line_a_group_whose_number_leads_to_the_list_of_just_these(operator: Client) -> None:
    like, newest, other = failed("disk 1 is full"), failed("disk 2 is full"), failed("<b>boom</b>")
    waiting = make_record(Status.WAITING, last_error="disk 1 is full")
    page = operator.get(PAGE).content.decode()
    for part in ("disk N is full", f"#{newest.pk}</a> disk 2 is full", "&lt;b&gt;boom&lt;/b&gt;"):
        assert part in page
    assert page.count('name="group"') == 2
    [url] = re.findall(rf'href="([^"]*group={FULL})"', page)
    listed = operator.get(url).content.decode()
    shown = [each for each in (like, newest, other, waiting) if f"{RECORDS}{each.pk}/change/" in listed]
    assert shown == [like, newest]


@pytest.mark.django_db
class TestRetryingAGroup:
    def test_it_asks_first_and_then_retries_all_of_it_with_one_line_in_the_history(self, operator: Client) -> None:
        records = [failed("disk 1 is full"), failed("disk 2 is full"), failed("boom")]
        page = operator.post(PAGE, {"group": "", "confirmed": "yes"}, follow=True).content.decode()
        assert "Retry now: there was nothing." in page
        AuditEntry.objects.all().delete()
        question, page = asked(operator, PAGE, {"group": FULL})
        assert "Retry now: 2 records (2 failed)?" in question
        assert "Retry now: 2 ready." in page
        assert statuses(*records) == [Status.READY, Status.READY, Status.FAILED]
        [line] = AuditEntry.objects.all()
        assert (line.who, line.name, line.text, line.row_id) == (
            "staff 0", "backlog records: Retry now", "2 ready", "",
        )  # fmt: skip

    def test_what_stopped_being_failed_meanwhile_is_left_alone(
        self, operator: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        record = failed("disk 1 is full")
        choose = selection.ids_like

        def then_it_waits(*given: Any, **options: Any) -> list[int]:
            ids = choose(*given, **options)
            facts = {"status": Status.WAITING, "waiting_for": WaitingFor.BACKOFF, "finished_at": None}
            BacklogRecord.objects.filter(pk=record.pk).update(**facts)
            return ids

        monkeypatch.setattr(selection, "ids_like", then_it_waits)
        operator.post(PAGE, {"group": FULL, "confirmed": "yes"})
        assert statuses(record) == [Status.WAITING]


@pytest.mark.django_db
def test_the_page_of_a_record_says_why_it_does_not_run(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    found = SimpleNamespace(reasons=["the <first> reason", "the second"])
    monkeypatch.setattr(records_page, "explain", lambda record, now: found)
    page = operator.get(f"{RECORDS}{make_record(Status.WAITING).pk}/change/").content.decode()
    assert "<p>the &lt;first&gt; reason</p><p>the second</p>" in page


@pytest.mark.django_db
@pytest.mark.usefixtures("kind_of_tests")
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


@pytest.mark.django_db
@pytest.mark.usefixtures("kind_of_tests")
def test_smaller_groups_and_older_records_that_are_not_shown_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    [failed(error) for error in ("a b", "a b", "c d", "e f")]
    assert "; 2 smaller groups are not shown (--limit)" in run("errors", "--limit", 1)
    whole = backlog_command.dead_letters
    monkeypatch.setattr(backlog_command, "dead_letters", lambda *given: whole(*given, most=2))
    assert "the newest 2 failed records in" in run("errors")
    assert "there are older ones" in run("errors")


@pytest.mark.django_db
@pytest.mark.usefixtures("kind_of_tests")
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
            assert "is not a group: 12 digits and letters" in refused("retry", "--like", group, "--yes", code=None)
        assert statuses(record) == [Status.FAILED]


@pytest.mark.django_db
@pytest.mark.usefixtures("kind_of_tests")
def test_show_tells_why_a_record_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    record = make_record(Status.WAITING)
    found = [Reason(Code.READY, "the first reason"), Reason(Code.READY, "the second")]
    monkeypatch.setattr(backlog_command, "explain", lambda record, now: SimpleNamespace(reasons=found))
    assert "the first reason; the second" in run("show", record.pk)
    assert json.loads(run("show", record.pk, "--json"))["why"] == ["the first reason", "the second"]
