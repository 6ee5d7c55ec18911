"""The list of events and the page of one."""

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import Client, RequestFactory
from pytest_django import DjangoAssertNumQueries

from delivery.models import Endpoint, Event
from jobs.models import BacklogRecord
from jobs.states import Status
from operations.admin import events as admin_events
from tests.factories import NOON, make_record
from tests.operations.test_admin_backlog import choose, hidden_fields
from tests.people import staff
from tests.schedules.event_records import (
    HOUR,
    attempt,
    delivered,
    make_event,
    make_event_schedule,
    make_trigger,
    refused,
)

pytestmark = pytest.mark.django_db

LIST = "/admin/delivery/event/"


@pytest.fixture
def onlooker() -> Client:
    return staff("view_backlogrecord")


@pytest.fixture
def operator() -> Client:
    return staff("view_backlogrecord", "change_backlogrecord")


def page(client: Client, **query: object) -> str:
    return client.get(LIST, query).content.decode()


def listed(rf: RequestFactory, **query: object) -> list[Event]:
    """The events of the first page, in their order."""
    request = rf.get(LIST, query)
    request.user = User(is_superuser=True)
    found = admin_events.EventAdmin(Event, admin.site).get_changelist_instance(request).result_list
    return list(found)


def ids_on(text: str) -> list[str]:
    """The event ids of the rows, in their order."""
    rows = text.split('class="field-event_id')[1:]
    return [row.split("</span>")[0].rsplit(">", 1)[1].strip() for row in rows]


class TestTheList:
    def test_tells_when_with_which_answer_and_how_late(self, onlooker: Client) -> None:
        schedule = make_event_schedule(name="nightly")
        make_trigger(schedule)
        delivered(schedule, 1)
        refused(schedule, 2, 503)
        text = page(onlooker)
        assert ids_on(text) == [f"{schedule.pk}-20260302T120000Z-2", f"{schedule.pk}-20260302T120000Z-1"]
        assert "answered 503" in text
        assert "2026-03-02 12:00:02" in text
        assert "123 ms" in text
        assert "1 s" in text
        assert f'href="/admin/schedules/schedule/{schedule.pk}/change/"' in text

    def test_has_only_what_is_delivered(self, onlooker: Client) -> None:
        make_record(kind="backup", subject="assignment:7")
        assert "assignment:7" not in page(onlooker)

    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            ({"state": "delivered"}, [1]),
            ({"answer": "none"}, [5]),
            ({"state": "nonsense", "answer": "7xx", "kind": "backup", "ended": "never"}, [4, 5, 3, 2, 1]),
        ],
    )
    def test_is_filtered(self, query: dict[str, str], expected: list[int], rf: RequestFactory) -> None:
        schedule, queue = make_event_schedule(), make_event_schedule(kind="sqs_message")
        delivered(schedule, 1), refused(schedule, 2), make_event(schedule, 3), refused(schedule, 5, None)
        make_event(queue, 4, Status.RUNNING)
        assert [event.payload["number"] for event in listed(rf, **query)] == expected

    def test_of_a_trigger_has_its_batch_and_no_other(self, onlooker: Client) -> None:
        schedule, other = make_event_schedule(), make_event_schedule()
        trigger = make_trigger(schedule)
        delivered(schedule, 1)
        delivered(schedule, 2, trigger_at=NOON + HOUR)
        delivered(other, 3)
        text = onlooker.get(admin_events.url_of_batch(trigger)).content.decode()
        assert ids_on(text) == [f"{schedule.pk}-20260302T120000Z-1"]

    @pytest.mark.parametrize(
        "query",
        [
            {"schedule": "x"},
        ],
    )
    def test_of_nonsense_is_empty(self, query: dict[str, str], rf: RequestFactory) -> None:
        delivered(make_event_schedule())
        assert listed(rf, **query) == []

    @pytest.mark.parametrize(
        "subject",
        [
            "",
        ],
    )
    def test_finds_an_event_by_its_id(self, subject: str, rf: RequestFactory) -> None:
        schedule = make_event_schedule()
        delivered(schedule, 11)
        found = delivered(schedule, 1, **({"subject": subject} if subject else {}))
        assert listed(rf, q=f" {found.subject} ") == [found]
        assert listed(rf, q=found.subject[:-1]) == []

    def test_asks_as_much_for_many_as_for_few(
        self, onlooker: Client, django_assert_max_num_queries: DjangoAssertNumQueries
    ) -> None:
        schedule = make_event_schedule()
        make_trigger(schedule)
        for number in range(1, 41):
            delivered(schedule, number)
        with django_assert_max_num_queries(12):
            assert len(ids_on(page(onlooker))) == 40

    def test_what_receivers_say_is_no_markup(self, onlooker: Client) -> None:
        schedule = make_event_schedule(name="<b>nightly")
        event = make_event(schedule, 1, Status.FAILED, last_error="<script>alert(1)</script>")
        attempt(event, error="<script>alert(2)</script>", status=500)
        for url in (LIST, f"{LIST}{event.pk}/change/"):
            text = onlooker.get(url).content.decode()
            assert "<script>alert(" not in text
            assert "<b>nightly" not in text

    def test_is_not_for_who_may_not_look_at_records(self) -> None:
        assert staff("view_schedule").get(LIST).status_code == 403


class TestThePage:
    @pytest.mark.parametrize(("by_endpoint", "told"), [(True, "ticket hook"), (False, "https://example.com:443")])
    def test_tells_where_it_goes_without_the_path(self, onlooker: Client, by_endpoint: bool, told: str) -> None:
        endpoint = Endpoint.objects.create(name="ticket hook", url="https://example.com/s3cret")
        event = make_event(make_event_schedule())
        event.payload |= {"endpoint": endpoint.pk if by_endpoint else None, "url": endpoint.url}
        event.save()
        text = onlooker.get(f"{LIST}{event.pk}/change/").content.decode()
        assert told in text
        assert "s3cret" not in text

    def test_tells_each_attempt_with_code_and_seconds(self, onlooker: Client) -> None:
        schedule = make_event_schedule()
        make_trigger(schedule)
        event = make_event(schedule, 7, Status.SUCCEEDED, attempt=2)
        attempt(event, 1, error="https://example.com:443 answered 503", status=503, seconds=0.5)
        attempt(event, 2, status=204, seconds=0.25)
        text = onlooker.get(f"{LIST}{event.pk}/change/").content.decode()
        for told in ("503", "500 ms", "204", "250 ms", "answered 503", "&quot;shard&quot;: 7", "12:00:02"):
            assert told in text
        assert f"/admin/jobs/backlogrecord/{event.pk}/change/" in text

    def test_nobody_edits_one(self, operator: Client) -> None:
        event = make_event(make_event_schedule())
        assert operator.post(f"{LIST}{event.pk}/change/", {"priority": 9}).status_code == 403
        assert operator.get(f"{LIST}add/").status_code == 403


class TestRetryAndCancel:
    def test_what_failed_is_retried_after_a_question(self, operator: Client) -> None:
        events = [refused(make_event_schedule(), number) for number in (1, 2)]
        asked = operator.post(LIST, choose("retry_now", *events)).content.decode()
        assert "Retry now: 2 records (2 failed)?" in asked
        operator.post(LIST, hidden_fields(asked))
        assert set(BacklogRecord.objects.values_list("status", flat=True)) == {Status.READY}

    def test_one_is_cancelled_from_its_page(self, operator: Client) -> None:
        event = make_event(make_event_schedule())
        operator.post(f"{LIST}{event.pk}/cancel/", {"confirmed": "yes"})
        assert BacklogRecord.objects.get().status == Status.CANCELLED

    @pytest.mark.parametrize(("app", "model"), [("delivery", "event"), ("jobs", "backlogrecord")])
    @pytest.mark.parametrize(
        ("status", "offered"),
        [
            (Status.WAITING, ["retry", "cancel"]),
            (Status.RUNNING, ["cancel"]),
            (Status.SUCCEEDED, []),
        ],
    )
    def test_the_page_of_one_offers_what_would_do_something(
        self, status: Status, offered: list[str], app: str, model: str, operator: Client
    ) -> None:
        event = make_event(make_event_schedule(), 1, status)
        text = operator.get(f"/admin/{app}/{model}/{event.pk}/change/").content.decode()
        assert [verb for verb in ("retry", "cancel") if f'/{event.pk}/{verb}/"' in text] == offered

    def test_an_onlooker_does_neither(self, onlooker: Client) -> None:
        event = make_event(make_event_schedule())
        assert onlooker.post(f"{LIST}{event.pk}/cancel/", {"confirmed": "yes"}).status_code == 403
        onlooker.post(LIST, choose("cancel", event, confirmed="yes"))
        assert BacklogRecord.objects.get().status == Status.READY
