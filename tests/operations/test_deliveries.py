"""When an event was to start, and how late it was."""

from datetime import timedelta

import pytest
from pytest_django import DjangoAssertNumQueries

from jobs.models import BacklogRecord
from jobs.states import Status
from operations.backlog.facts import deliveries, launch_instants
from schedules.events import batch_of
from tests.factories import NOON, make_record
from tests.schedules.event_records import HOUR, MINUTE, SECOND, delivered, make_event, make_event_schedule, make_trigger

pytestmark = pytest.mark.django_db


class TestLaunch:
    @pytest.mark.parametrize("late", ["deliver", "drop"])
    @pytest.mark.parametrize("seen_after", [SECOND, HOUR / 2])
    def test_of_a_staggered_batch_it_is_where_the_emitter_put_it(self, late: str, seen_after: timedelta) -> None:
        schedule = make_event_schedule(stagger="even", window_for=3600, late=late)
        trigger = make_trigger(schedule, closes_at=NOON + HOUR, seen_at=NOON + seen_after)
        batch = batch_of(schedule, trigger.pk, NOON, trigger.seen_at)
        emitted = [batch.begins_at + timedelta(milliseconds=after) for after in batch.milliseconds(1, 10)]
        found = [delivered(schedule, number) for number in range(1, 11)]
        assert list(launch_instants(found).values()) == emitted
        assert len(set(emitted)) == 10

    def test_what_waits_for_its_start_says_so_itself(self) -> None:
        event = make_event(make_event_schedule(), 1, Status.WAITING)
        assert launch_instants([event]) == {event.pk: NOON + MINUTE}

    def test_of_one_whose_trigger_is_gone_it_cannot_be_told(self) -> None:
        event = delivered(make_event_schedule())
        assert (deliveries([event])[event.pk]["launch_at"], deliveries([event])[event.pk]["lag"]) == (None, None)

    def test_one_that_a_program_made_was_to_start_at_once(self) -> None:
        record, _ = make_record(Status.SUCCEEDED, kind="http_callback"), make_record(kind="backup")
        found = deliveries(BacklogRecord.objects.all())
        assert {pk: each["launch_at"] for pk, each in found.items()} == {record.pk: NOON}

    def test_all_of_a_page_are_asked_in_one_go(self, django_assert_num_queries: DjangoAssertNumQueries) -> None:
        schedules = [make_event_schedule(), make_event_schedule()]
        for schedule in schedules:
            make_trigger(schedule)
        found = [delivered(schedule, number) for schedule in schedules for number in (1, 2, 3)]
        with django_assert_num_queries(1):
            assert {(each["launch_at"], each["lag"]) for each in deliveries(found).values()} == {(NOON, 1.0)}
