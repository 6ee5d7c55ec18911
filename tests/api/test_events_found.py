"""Which events the API finds, in which order, and by which index."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from delivery.models import Event
from jobs.states import Status
from tests.api.asking import Program, fields_of, problem_of
from tests.factories import NOON
from tests.schedules.event_records import HOUR, delivered, make_event, make_event_schedule, refused

pytestmark = pytest.mark.django_db


@pytest.fixture
def program() -> Program:
    return Program()


def told(answer: Any) -> Any:
    assert answer.status_code == 200, answer.content
    return answer.json()


def ids(program: Program, **query: Any) -> list[int]:
    return [each["id"] for each in told(program.get("events", **query))["items"]]


def plan_of(captured: CaptureQueriesContext, without: tuple[str, ...]) -> str:
    """How a list with `limit=1` was looked up. `without`: what the planner prefers while there are few rows."""
    [listing] = [each["sql"] for each in captured if "LIMIT 2" in each["sql"]]
    with connection.cursor() as cursor:
        for way in without:
            cursor.execute(f"SET LOCAL enable_{way} = off")
        cursor.execute(f"EXPLAIN {listing}")
        return "\n".join(line for (line,) in cursor.fetchall())


class TestFilters:
    def test_by_state(self, program: Program) -> None:
        schedule = make_event_schedule()
        by_status = {status: make_event(schedule, number, status).pk for number, status in enumerate(Status, 1)}
        assert ids(program, state="unfinished", ordering="id") == [
            by_status[each] for each in (Status.WAITING, Status.READY, Status.RUNNING)
        ]
        assert ids(program, state="delivered") == [by_status[Status.SUCCEEDED]]
        assert ids(program, state="failed") == [by_status[Status.FAILED]]
        assert ids(program, state="cancelled") == [by_status[Status.CANCELLED]]

    def test_by_what_the_last_attempt_was_answered(self, program: Program) -> None:
        schedule = make_event_schedule()
        found = {
            "2xx": delivered(schedule, 1).pk,
            "3xx": refused(schedule, 2, 307).pk,
            "4xx": refused(schedule, 3, 404).pk,
            "5xx": refused(schedule, 4, 503).pk,
            "none": refused(schedule, 5, None).pk,
        }
        assert {answer: ids(program, answer=answer) for answer in found} == {a: [pk] for a, pk in found.items()}

    def test_by_schedule_batch_kind_and_event_id(self, program: Program) -> None:
        mine, other = make_event_schedule(), make_event_schedule(kind="sqs_message")
        first, second = make_event(mine, 1), make_event(mine, 2, trigger_at=NOON + HOUR)
        message = make_event(other, 1)
        assert ids(program, schedule=mine.pk) == [second.pk, first.pk]
        assert ids(program, schedule=mine.pk, trigger_at="2026-03-02T13:00:00Z") == [second.pk]
        assert ids(program, trigger_at="2026-03-02T14:00:00+01:00") == [second.pk]
        assert ids(program, kind="sqs_message") == [message.pk]
        assert ids(program, event_id=first.subject) == [first.pk]
        assert ids(program, event_id=first.subject, kind="sqs_message") == []

    def test_by_the_endpoint_that_they_go_to(self, program: Program) -> None:
        schedule = make_event_schedule()
        there, elsewhere = make_event(schedule, 1), make_event(schedule, 2)
        for event, endpoint in ((there, 7), (elsewhere, 77)):
            Event.objects.filter(pk=event.pk).update(payload=event.payload | {"endpoint": endpoint})
        assert ids(program, endpoint=7) == [there.pk]

    def test_by_when_they_ended(self, program: Program) -> None:
        schedule = make_event_schedule()
        delivered(schedule, 1)
        late = delivered(schedule, 2, finished_at=NOON + HOUR)
        make_event(schedule, 3)
        assert ids(program, ended_since="2026-03-02T13:00:00Z") == [late.pk]

    @pytest.mark.parametrize(
        ("name", "value"),
        [("state", "lost"), ("kind", "backup"), ("trigger_at", "2026-03-02"), ("event_id", "a\0"), ("code", "200"),],
    )  # fmt: skip
    def test_a_bad_one_is_named(self, name: str, value: object, program: Program) -> None:
        answer = program.get("events", **{name: value})
        if "\0" in str(value):
            problem_of(answer, 400, 422)
        else:
            assert list(fields_of(answer)) == [name]


class TestPages:
    @pytest.mark.parametrize("ordering", ["id", "-id", "finished_at", "-finished_at", "trigger_at", "-trigger_at"])
    def test_each_event_comes_once_in_order(self, ordering: str, program: Program) -> None:
        schedule = make_event_schedule()
        made = [
            delivered(schedule, number, trigger_at=NOON + (number // 2) * HOUR, finished_at=NOON + number // 3 * HOUR)
            for number in range(1, 8)
        ]
        field = ordering.lstrip("-")
        expected = sorted(made, key=lambda e: (getattr(e, field), e.pk), reverse=ordering.startswith("-"))
        found: list[int] = []
        query: dict[str, Any] = {"ordering": ordering, "limit": 2, "state": "delivered"}
        for _ in range(4):
            page = told(program.get("events", **query))
            found += [each["id"] for each in page["items"]]
            query["cursor"] = page["next"]
        assert found == [event.pk for event in expected]
        assert page["next"] is None

    def test_by_the_end_only_what_has_ended_is_listed(self, program: Program) -> None:
        schedule = make_event_schedule()
        ended = delivered(schedule, 1)
        make_event(schedule, 2)
        assert ids(program, ordering="-finished_at") == ids(program, ordering="finished_at") == [ended.pk]

    def test_the_latest_delivered_ones_come_by_the_index_of_the_done_list(self, program: Program) -> None:
        """Sorted they would all be read first: of millions, for each page."""
        schedule = make_event_schedule()
        for number in range(1, 4):
            delivered(schedule, number)
        with CaptureQueriesContext(connection) as captured:
            ids(program, state="delivered", ordering="-finished_at", limit=1)
        plan = plan_of(captured, without=("seqscan", "bitmapscan", "sort"))
        assert "Index Scan Backward using backlog_done" in plan
        assert "Presorted Key" in plan

    def test_those_of_a_schedule_come_by_the_index_of_batches(self, program: Program) -> None:
        schedule = make_event_schedule()
        delivered(schedule)
        with CaptureQueriesContext(connection) as captured:
            ids(program, schedule=schedule.pk, limit=1)
        assert "on one_record_per_trigger_and_subject" in plan_of(captured, without=("seqscan", "indexscan"))
