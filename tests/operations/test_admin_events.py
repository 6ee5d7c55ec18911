"""Events in the list of records, and the page of one."""

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import Client, RequestFactory
from pytest_django import DjangoAssertNumQueries

from delivery.models import Endpoint
from jobs.models import BacklogRecord
from jobs.states import Status
from operations.admin.records import BacklogRecordAdmin, url_of_batch
from tests.factories import NOON, make_record
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

LIST = "/admin/jobs/backlogrecord/"


@pytest.fixture
def onlooker() -> Client:
    return staff("view_backlogrecord")


def page(client: Client, **query: object) -> str:
    return client.get(LIST, {"events": "yes"} | query).content.decode()


def listed(rf: RequestFactory, **query: object) -> list[int]:
    """The numbers of the events of the first page, in their order."""
    request = rf.get(LIST, query)
    request.user = User(is_superuser=True)
    found = BacklogRecordAdmin(BacklogRecord, admin.site).get_changelist_instance(request).result_list
    return [event.payload["number"] for event in found]


def ids_on(text: str) -> list[str]:
    """The event ids of the rows, in their order."""
    rows = text.split('class="field-subject_in_one_line')[1:]
    return [row.split("</span>")[0].rsplit(">", 1)[1].strip() for row in rows]


class TestTheList:
    def test_tells_when_with_which_answer_and_how_late(self, onlooker: Client) -> None:
        schedule = make_event_schedule(name="nightly")
        make_trigger(schedule)
        make_record(kind="backup", subject="assignment:7")
        delivered(schedule, 1)
        refused(schedule, 2, 503)
        text = page(onlooker)
        assert ids_on(text) == [f"{schedule.pk}-20260302T120000Z-2", f"{schedule.pk}-20260302T120000Z-1"]
        for part in ("answered 503", "2026-03-02 12:00:02", "123 ms", "1 s", f"/schedules/schedule/{schedule.pk}/"):
            assert part in text

    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            ({"status": "succeeded"}, [2, 1]),
            ({"answer": "none"}, [5]),
            ({"status": "nonsense", "answer": "7xx", "events": "maybe"}, [4, 5, 3, 2, 1]),
            ({"schedule": "x"}, []),
            ({"trigger_at": "x"}, []),
            ({"kind": "sqs_message"}, [4]),
            ({"queue": "nothing"}, []),
            ({"finished_at__gte": "2026-03-02 12:30:00+00:00"}, [2]),
        ],
    )
    def test_is_filtered(self, query: dict[str, str], expected: list[int], rf: RequestFactory) -> None:
        schedule, queue = make_event_schedule(), make_event_schedule(kind="sqs_message")
        delivered(schedule, 1), delivered(schedule, 2, finished_at=NOON + HOUR), make_event(schedule, 3)
        refused(schedule, 5, None)
        make_event(queue, 4, Status.RUNNING)
        assert listed(rf, **query) == expected

    def test_of_a_trigger_has_its_batch_and_no_other_and_an_event_is_found_by_its_whole_id(
        self, onlooker: Client, rf: RequestFactory
    ) -> None:
        schedule, other = make_event_schedule(), make_event_schedule()
        trigger = make_trigger(schedule)
        found = delivered(schedule, 1)
        delivered(schedule, 2, trigger_at=NOON + HOUR), delivered(schedule, 11, trigger_at=NOON + HOUR)
        delivered(other, 3)
        assert ids_on(onlooker.get(url_of_batch(trigger)).content.decode()) == [found.subject]
        assert listed(rf, q=f" {found.subject} ") == [1]

    def test_asks_as_much_for_many_as_for_few(
        self, onlooker: Client, django_assert_max_num_queries: DjangoAssertNumQueries
    ) -> None:
        schedule = make_event_schedule()
        make_trigger(schedule)
        for number in range(1, 41):
            delivered(schedule, number)
        with django_assert_max_num_queries(14):
            assert len(ids_on(page(onlooker))) == 40


class TestThePage:
    @pytest.mark.parametrize(("by_endpoint", "goes_to"), [(True, "ticket hook"), (False, "https://example.com:443")])
    def test_tells_where_it_goes_without_the_path(self, onlooker: Client, by_endpoint: bool, goes_to: str) -> None:
        endpoint = Endpoint.objects.create(name="ticket hook", url="https://example.com/s3cret")
        event = make_event(make_event_schedule())
        event.payload |= {"endpoint": endpoint.pk if by_endpoint else None, "url": endpoint.url}
        event.save()
        text = onlooker.get(f"{LIST}{event.pk}/change/").content.decode()
        assert goes_to in text
        assert "s3cret" not in text

    def test_tells_each_attempt_with_code_and_seconds(self, onlooker: Client) -> None:
        schedule = make_event_schedule()
        make_trigger(schedule)
        event = make_event(schedule, 7, Status.SUCCEEDED, attempt=2)
        attempt(event, 1, error="https://example.com:443 answered 503", status=503, seconds=0.5)
        attempt(event, 2, status=204, seconds=0.25)
        text = onlooker.get(f"{LIST}{event.pk}/change/").content.decode()
        for part in ("status 503, seconds 0.5", "204 in 250 ms", "answered 503", "&quot;shard&quot;: 7", "12:00:02"):
            assert part in text

    @pytest.mark.parametrize(
        ("status", "offered"),
        [(Status.WAITING, ["retry", "cancel"]), (Status.RUNNING, ["cancel"]), (Status.SUCCEEDED, [])],
    )
    def test_offers_what_would_do_something(self, status: Status, offered: list[str]) -> None:
        event = make_event(make_event_schedule(), 1, status)
        text = staff("change_backlogrecord").get(f"{LIST}{event.pk}/change/").content.decode()
        assert [verb for verb in ("retry", "cancel") if f'/{event.pk}/{verb}/"' in text] == offered
