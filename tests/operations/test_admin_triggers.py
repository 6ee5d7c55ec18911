"""The list of triggers and the page of one; cancelling a batch."""

from typing import Any

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from audit.models import AuditEntry
from jobs.models import BacklogRecord
from jobs.states import Status
from operations.admin import triggers as admin_triggers
from schedules.facts import state_of
from schedules.models import Trigger
from tests.factories import NOON
from tests.operations.questions import asked, choose
from tests.schedules.event_records import (
    HOUR,
    MINUTE,
    delivered,
    make_event,
    make_event_schedule,
    make_trigger,
    refused,
)

pytestmark = pytest.mark.django_db

LIST = "/admin/schedules/trigger/"


def page(client: Client, **query: object) -> str:
    return client.get(LIST, query).content.decode()


def states() -> dict[str, dict[str, Any]]:
    """The fields of a trigger in each state."""
    return {
        "queued": {"emitted_at": None, "events": 0},
        "under way": {},
        "finished": {"finished_at": NOON + HOUR},
        "skipped": {"emitted_at": None, "events": 0, "finished_at": NOON, "skipped_for": "an earlier batch runs"},
    }


class TestTheList:
    def test_tells_how_far_each_batch_is(self, operator: Client) -> None:
        schedule = make_event_schedule(name="nightly")
        make_trigger(schedule, asked_by="ann")
        delivered(schedule, 1), delivered(schedule, 2), refused(schedule, 3), make_event(schedule, 4)
        make_event(schedule, 5, Status.RUNNING)
        make_event(schedule, 6, Status.WAITING)
        text = page(operator)
        assert "10: 2 done, 1 failed, 1 running, 1 ready, 1 waiting" in text
        assert "2026-03-02 12:00:00 (by ann)" in text
        assert (
            f"/admin/jobs/backlogrecord/?schedule={schedule.pk}&amp;trigger_at=2026-03-02T12%3A00%3A00%2B00%3A00"
            in text
        )

    def test_is_filtered_by_state_and_schedule(self, operator: Client) -> None:
        made = {name: make_trigger(make_event_schedule(name=name), **fields) for name, fields in states().items()}
        for name, trigger in made.items():
            assert state_of(trigger) == name
            for query in ({"state": name}, {"schedule": trigger.schedule_id}):
                text = page(operator, **query)
                assert [each for each in made if f"/{made[each].pk}/change/" in text] == [name]

    def test_counts_all_batches_in_one_question_or_those_under_way_first(
        self,
        operator: Client,
        django_assert_max_num_queries: DjangoAssertNumQueries,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        schedule = make_event_schedule()
        for number in range(15):
            make_trigger(schedule, NOON + number * MINUTE, finished_at=NOON + HOUR if number else None)
            delivered(schedule, 1, trigger_at=NOON + number * MINUTE)
        with django_assert_max_num_queries(12):
            assert page(operator).count("10: 1 done") == 15
        monkeypatch.setattr(admin_triggers, "COUNTED", 1)
        text = page(operator)
        assert text.count("10: 1 done") == 1
        assert text.index("10: 1 done") > text.index("2026-03-02 12:00:00")


class TestCancelling:
    def test_asks_first_and_cancels_what_is_unfinished(self, operator: Client) -> None:
        schedule = make_event_schedule()
        trigger, other = make_trigger(schedule), make_trigger(schedule, NOON + HOUR)
        delivered(schedule, 1), make_event(schedule, 2), make_event(schedule, 3, Status.WAITING)
        left = make_event(schedule, 1, trigger_at=NOON + HOUR)
        question, done = asked(operator, f"{LIST}{trigger.pk}/cancel/")
        assert "10: 1 done, 1 ready, 1 waiting" in question
        assert "Cancel batch: 2 records." in done
        assert list(BacklogRecord.objects.unfinished().values_list("pk", flat=True)) == [left.pk]
        assert Trigger.objects.get(pk=other.pk).finished_at is None
        assert "2 records" in AuditEntry.objects.get(verb="did").text

    def test_from_the_list_likewise_and_a_queued_one_emits_nothing_any_more(self, operator: Client) -> None:
        schedule = make_event_schedule()
        triggers = [make_trigger(schedule), make_trigger(schedule, NOON + HOUR, **states()["queued"])]
        make_event(schedule, 1)
        asked(operator, LIST, choose("cancel", *triggers))
        assert set(BacklogRecord.objects.values_list("status", flat=True)) == {Status.CANCELLED}
        assert state_of(Trigger.objects.get(pk=triggers[1].pk)) == "skipped"
