"""The launch instant of an event, and its lag; instants of a batch: tests/schedules/test_launch_instants.py."""

import pytest
from pytest_django import DjangoAssertNumQueries

from jobs.models import BacklogRecord
from jobs.states import Status
from operations.backlog.facts import deliveries, launch_instants, record_facts
from tests.factories import NOON, make_record
from tests.schedules.event_records import MINUTE, delivered, make_event, make_event_schedule, make_trigger

pytestmark = pytest.mark.django_db


def test_what_waits_says_its_start_itself_and_of_one_whose_trigger_is_gone_it_cannot_be_told() -> None:
    waits, gone = make_event(make_event_schedule(), 1, Status.WAITING), delivered(make_event_schedule())
    assert launch_instants([waits, gone]) == {waits.pk: NOON + MINUTE, gone.pk: None}
    assert deliveries([gone])[gone.pk]["lag"] is None


def test_one_that_a_program_made_was_to_start_at_once() -> None:
    record, _ = make_record(Status.SUCCEEDED, kind="http_callback"), make_record(kind="backup")
    found = deliveries(BacklogRecord.objects.all())
    assert {pk: each["launch_at"] for pk, each in found.items()} == {record.pk: NOON}


def test_all_of_a_page_are_asked_in_one_go(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    schedules = [make_event_schedule(), make_event_schedule()]
    for schedule in schedules:
        make_trigger(schedule)
    found = [delivered(schedule, number) for schedule in schedules for number in (1, 2, 3)]
    with django_assert_num_queries(1):
        assert {(each["launch_at"], each["lag"]) for each in deliveries(found).values()} == {(NOON, 1.0)}


def test_what_succeeded_shows_no_error_of_before() -> None:
    record = make_record(Status.SUCCEEDED, last_error="disk full")
    assert record_facts([record])[0]["last_error"] == ""
