"""What is found of events: by state, by answer, when they were to start, and how late they were."""

from datetime import timedelta

import pytest
from pytest_django import DjangoAssertNumQueries

from delivery.models import Endpoint, Event
from jobs.models import BacklogRecord
from jobs.states import Status, WaitingFor
from operations.event_list import (
    Answer,
    State,
    answered,
    endpoint_names,
    facts_of,
    in_state,
    lag_of,
    latest_first,
    launch_instants,
    shown_payload,
    with_answers,
)
from schedules.events import batch_of
from tests.factories import NOON, make_record
from tests.schedules.event_records import (
    HOUR,
    MINUTE,
    SECOND,
    attempt,
    delivered,
    make_event,
    make_event_schedule,
    make_trigger,
    refused,
)

pytestmark = pytest.mark.django_db


def events(*found: BacklogRecord) -> set[int]:
    return {event.pk for event in found}


class TestWhichRecordsAreEvents:
    def test_those_of_kinds_that_deliver(self) -> None:
        make_record(kind="backup")
        callback, message = make_record(kind="http_callback"), make_record(kind="sqs_message")
        assert events(*Event.objects.all()) == events(callback, message)


class TestStates:
    def test_each_event_is_in_one(self) -> None:
        schedule = make_event_schedule()
        by_status = {status: make_event(schedule, number, status) for number, status in enumerate(Status, 1)}
        found = {state: events(*in_state(Event.objects.all(), state)) for state in State}
        assert found == {
            State.UNFINISHED: events(*(by_status[s] for s in (Status.WAITING, Status.READY, Status.RUNNING))),
            State.DELIVERED: events(by_status[Status.SUCCEEDED]),
            State.FAILED: events(by_status[Status.FAILED]),
            State.CANCELLED: events(by_status[Status.CANCELLED]),
        }

    def test_what_has_ended_comes_by_when_it_did(self) -> None:
        schedule = make_event_schedule()
        late = make_event(schedule, 1, Status.SUCCEEDED, finished_at=NOON + HOUR)
        early = make_event(schedule, 2, Status.SUCCEEDED, finished_at=NOON + MINUTE)
        state = State.DELIVERED
        assert list(latest_first(in_state(Event.objects.all(), state), state)) == [late, early]
        assert list(latest_first(Event.objects.all(), None)) == [early, late]


class TestAnswers:
    def test_the_last_attempt_counts_of_what_was_tried(self) -> None:
        schedule = make_event_schedule()
        ok, broken, silent = delivered(schedule, 1), refused(schedule, 2, 503), refused(schedule, 3, None)
        moved, wrong = refused(schedule, 4, 307), refused(schedule, 5, 404)
        attempt(ok, 0, error="broken", status=500, seconds=1)
        attempt(silent, 0, error="broken", status=500, seconds=1)
        make_event(schedule, 6)
        attempt(make_event(schedule, 7, Status.SUCCEEDED))
        found = {answer: events(*answered(with_answers(Event.objects.all()), answer)) for answer in Answer}
        assert found == {
            Answer.OK: events(ok),
            Answer.REDIRECT: events(moved),
            Answer.REFUSED: events(wrong),
            Answer.BROKEN: events(broken),
            Answer.NONE: events(silent),
        }

    def test_what_waits_for_its_retry_has_the_answer_to_its_last_attempt(self) -> None:
        schedule = make_event_schedule()
        waiting = make_event(schedule, 1, Status.WAITING, waiting_for=WaitingFor.BACKOFF, attempt=1)
        attempt(waiting, error="broken", status=502, seconds=0.5)
        [found] = answered(with_answers(Event.objects.all()), Answer.BROKEN)
        facts = facts_of(found, None)
        assert (facts["code"], facts["seconds"], facts["state"]) == (502, 0.5, "unfinished")

    def test_facts_of_an_attempt_that_are_no_numbers_of_http_are_none(self) -> None:
        event = make_event(make_event_schedule(), 1, Status.SUCCEEDED)
        attempt(event, warnings=3)
        facts = facts_of(with_answers(Event.objects.all()).get(), None)
        assert (facts["code"], facts["seconds"]) == (None, None)


class TestLaunch:
    def test_of_a_batch_without_stagger_it_is_the_trigger(self) -> None:
        schedule = make_event_schedule()
        make_trigger(schedule)
        event = delivered(schedule)
        assert launch_instants([event]) == {event.pk: NOON}
        assert lag_of(event, NOON) == 1.0

    @pytest.mark.parametrize("late", ["deliver", "drop"])
    @pytest.mark.parametrize("seen_after", [SECOND, HOUR / 2])
    def test_of_a_staggered_one_it_is_where_the_emitter_put_it(self, late: str, seen_after: timedelta) -> None:
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

    def test_of_one_whose_trigger_is_gone_nobody_knows(self) -> None:
        event = delivered(make_event_schedule())
        assert launch_instants([event]) == {event.pk: None}
        assert lag_of(event, None) is None

    def test_one_that_a_program_made_was_to_start_at_once(self) -> None:
        record = make_record(Status.SUCCEEDED, kind="http_callback")
        assert launch_instants(Event.objects.all()) == {record.pk: NOON}

    def test_all_of_a_page_are_asked_in_one_go(self, django_assert_num_queries: DjangoAssertNumQueries) -> None:
        schedules = [make_event_schedule(), make_event_schedule()]
        for schedule in schedules:
            make_trigger(schedule)
        found = [delivered(schedule, number) for schedule in schedules for number in (1, 2, 3)]
        with django_assert_num_queries(1):
            assert set(launch_instants(found).values()) == {NOON}


class TestFacts:
    def test_of_a_delivered_event(self) -> None:
        schedule = make_event_schedule(name="nightly")
        delivered(schedule, 3)
        facts = facts_of(with_answers(Event.objects.all()).get(), NOON)
        assert facts["event_id"] == f"{schedule.pk}-20260302T120000Z-3"
        assert facts["state"] == "delivered"
        assert facts["delivered_at"] == NOON + 2 * SECOND
        assert (facts["lag"], facts["code"], facts["seconds"], facts["error"]) == (1.0, 200, 0.123, "")

    def test_the_error_of_what_was_delivered_in_the_end_is_history(self) -> None:
        make_event(make_event_schedule(), 1, Status.SUCCEEDED, last_error="it was broken")
        assert facts_of(Event.objects.get(), None)["error"] == ""

    def test_tell_the_endpoint_by_name_and_no_path(self) -> None:
        endpoint = Endpoint.objects.create(name="hook", url="https://example.com/s3cret")
        schedule = make_event_schedule()
        sent_there, by_url = make_event(schedule, 1), make_event(schedule, 2)
        sent_there.payload |= {"endpoint": endpoint.pk, "url": None}
        by_url.payload |= {"url": "https://example.com/s3cret"}
        names = endpoint_names([sent_there, by_url])
        told = [facts_of(event, None, names) for event in (sent_there, by_url)]
        assert [(facts["endpoint_name"], facts["url"]) for facts in told] == [
            ("hook", None),
            (None, "https://example.com:443"),
        ]

    @pytest.mark.parametrize("url", ["s3cret", "https://user:s3cret@example.com/", 7, ["s3cret"]])
    def test_tell_nothing_of_a_url_that_is_none(self, url: object) -> None:
        event = make_event(make_event_schedule())
        event.payload |= {"url": url, "endpoint": ["s3cret"]}
        assert facts_of(event, None, endpoint_names([event]))["url"] is None
        assert shown_payload(event)["url"] is None
