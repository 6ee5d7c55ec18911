"""The page of dead letters, and what the admin's history says of who retried and cancelled what."""

import re
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from jobs.models import BacklogRecord
from jobs.states import Status, WaitingFor
from operations.admin import records as records_page
from operations.backlog import selection
from operations.backlog.dead_letters import group_id
from tests.factories import make_record, statuses
from tests.operations.questions import asked

pytestmark = pytest.mark.django_db

RECORDS = "/admin/jobs/backlogrecord/"
PAGE = f"{RECORDS}dead-letters/"
FULL = group_id("disk N is full")


def failed(error: str, **fields: Any) -> BacklogRecord:
    return make_record(Status.FAILED, last_error=error, failures=3, **fields)


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


class TestRetryingAGroup:
    def test_it_asks_first_and_then_retries_all_of_it_with_one_line_in_the_history(self, operator: Client) -> None:
        records = [failed("disk 1 is full"), failed("disk 2 is full"), failed("boom")]
        page = operator.post(PAGE, {"group": "", "confirmed": "yes"}, follow=True).content.decode()
        assert "Retry now: there was nothing." in page
        LogEntry.objects.all().delete()
        question, page = asked(operator, PAGE, {"group": FULL})
        assert "Retry now: 2 records (2 failed)?" in question
        assert "Retry now: 2 ready." in page
        assert statuses(*records) == [Status.READY, Status.READY, Status.FAILED]
        [line] = LogEntry.objects.all()
        assert (line.user.username, line.object_repr, line.change_message, line.object_id) == (
            "staff 0", "backlog records: Retry now", "2 ready", None,
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


def test_the_page_of_a_record_says_why_it_does_not_run(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records_page, "reasons", lambda record, now: ["the <first> reason", "the second"])
    page = operator.get(f"{RECORDS}{make_record(Status.WAITING).pk}/change/").content.decode()
    assert "<p>the &lt;first&gt; reason</p><p>the second</p>" in page
