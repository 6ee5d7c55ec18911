"""Pages of the backlog over the API: each record comes once, in order, by an index."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from api import large_tables
from jobs.models import BacklogRecord
from jobs.states import Status
from operations.backlog import walking
from tests.api.asking import Program, found, ids_of, pages_of
from tests.factories import NOON, make_record
from tests.schedules.event_records import (
    HOUR,
    delivered,
    make_event_schedule,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("kind_of_tests")]


def ids(program: Program, **query: Any) -> list[int]:
    return ids_of(program.get("records", **query))


def plan_of(captured: CaptureQueriesContext, without: tuple[str, ...]) -> str:
    """The plan of a list with `limit=1`. `without`: the plans that the planner prefers while there are few rows."""
    [listing] = [each["sql"] for each in captured if "LIMIT 2" in each["sql"]]
    with connection.cursor() as cursor:
        for way in without:
            cursor.execute(f"SET LOCAL enable_{way} = off")
        cursor.execute(f"EXPLAIN {listing}")
        plan = "\n".join(line for (line,) in cursor.fetchall())
        for way in without:
            cursor.execute(f"SET LOCAL enable_{way} = on")
        return plan


class TestPages:
    @pytest.mark.parametrize("ordering", ["id", "-id", "finished_at", "-finished_at", "trigger_at", "-trigger_at"])
    def test_each_record_comes_once_in_order(self, ordering: str, program: Program) -> None:
        schedule = make_event_schedule()
        made = [
            delivered(schedule, number, trigger_at=NOON + (number // 2) * HOUR, finished_at=NOON + number // 3 * HOUR)
            for number in range(1, 8)
        ]
        unfinished, field = make_record(), ordering.lstrip("-")
        made += [unfinished] if field == "id" else []  # else only what has a value is listed
        expected = sorted(made, key=lambda e: (getattr(e, field), e.pk), reverse=ordering.startswith("-"))
        assert pages_of(program, "records", ordering=ordering) == [event.pk for event in expected]

    @pytest.mark.parametrize("ordering", ["id", "-id"])
    @pytest.mark.parametrize("asked", [{"answer": "2xx"}, {"kind": "http_callback"}, {"events": "true"}])
    def test_a_page_that_no_index_serves_looks_at_some_ids_and_has_a_next(
        self, program: Program, monkeypatch: pytest.MonkeyPatch, ordering: str, asked: dict[str, str]
    ) -> None:
        monkeypatch.setattr(large_tables, "MOST_WALKED", 3)
        schedule = make_event_schedule()
        made = [delivered(schedule, 1), *(make_record(Status.SUCCEEDED) for _ in range(4)), delivered(schedule, 2)]
        BacklogRecord.objects.filter(pk=made[1].pk).delete()  # an `after` that is gone
        events = sorted((made[0].pk, made[-1].pk), reverse=ordering == "-id")
        page = found(program.get("records", ordering=ordering, **asked))
        assert ([each["id"] for each in page["items"]], page["next"]) == (
            events[:1],
            made[2 if ordering == "id" else 3].pk,
        )
        assert pages_of(program, "records", ordering=ordering, **asked) == events
        with CaptureQueriesContext(connection) as captured:
            ids(program, ordering=ordering, **asked)
        [listing] = [each["sql"] for each in captured if "LIMIT 51" in each["sql"]]
        assert f'"id" {"<=" if ordering == "id" else ">="} {page["next"]}' in listing

    @pytest.mark.parametrize("ordering", ["finished_at", "-finished_at"])
    def test_a_page_by_their_end_ends_after_some_and_has_a_next(
        self, program: Program, monkeypatch: pytest.MonkeyPatch, ordering: str
    ) -> None:
        monkeypatch.setattr(large_tables, "MOST_BY_END", 3)
        schedule = make_event_schedule()
        kinds = (True, False, False, False, False, True)
        made = [
            (delivered(schedule, each, finished_at=NOON + each // 2 * HOUR) if is_event
             else make_record(Status.SUCCEEDED, finished_at=NOON + each // 2 * HOUR)).pk
            for each, is_event in enumerate(kinds)
        ]  # fmt: skip
        in_order = made[::-1] if ordering.startswith("-") else made
        page = found(program.get("records", events="true", ordering=ordering))
        assert ([each["id"] for each in page["items"]], page["next"]) == (in_order[:1], in_order[3])
        assert pages_of(program, "records", events="true", ordering=ordering) == [in_order[0], in_order[-1]]
        assert pages_of(program, "records", ordering=ordering) == in_order

    def test_what_no_index_yields_is_not_sorted_and_what_cannot_be_is_not_looked_for(
        self, program: Program, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        event = delivered(schedule := make_event_schedule(), 1)
        assert ids(program, ordering="trigger_at") == [event.pk]
        monkeypatch.setattr(walking, "MOST_READ", -2)
        for asked in ({}, {"kind": "http_callback"}, {"status": "succeeded"}):
            refused = program.get("records", ordering="-trigger_at", **asked)
            assert (refused.status_code, refused.json()["errors"][0]["field"]) == (400, "ordering")
        assert ids(program, ordering="trigger_at", schedule=schedule.pk) == [event.pk]
        with CaptureQueriesContext(connection) as captured:
            assert ids(program, ordering="finished_at", status="unfinished") == []
        assert not [each for each in captured if "LIMIT 51" in each["sql"]]
        assert ids(program, ordering="finished_at", status="succeeded") == [event.pk]

    @pytest.mark.parametrize("asked", [{"status": "succeeded", "schedule": 0}, {"subject": "1"}, {}])
    def test_a_page_that_asks_for_certain_records_is_whole(
        self, program: Program, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any]
    ) -> None:
        monkeypatch.setattr(large_tables, "MOST_WALKED", 1)
        schedule = make_event_schedule()
        made = [delivered(schedule, number) for number in (1, 2, 3)]
        asked = {**asked, **({"schedule": schedule.pk} if "schedule" in asked else {})}
        asked = {**asked, **({"subject": made[0].subject} if "subject" in asked else {})}
        page = found(program.get("records", **asked))
        expected = [made[0].pk] if "subject" in asked else [each.pk for each in reversed(made)]
        assert ([each["id"] for each in page["items"]], page["next"]) == (expected, None)

    def test_the_done_list_and_that_of_a_schedule_come_by_their_indexes(self, program: Program) -> None:
        """Sorted they would all be read first: of millions, for each page."""
        schedule = make_event_schedule()
        for number in range(1, 4):
            delivered(schedule, number)
        with CaptureQueriesContext(connection) as captured:
            ids(program, status="succeeded", events="true", ordering="-finished_at", limit=1)
        plan = plan_of(captured, without=("seqscan", "bitmapscan", "sort"))
        assert "Index Scan Backward using backlog_done" in plan
        assert "Presorted Key" in plan
        with CaptureQueriesContext(connection) as captured:
            ids(program, schedule=schedule.pk, limit=1)
        assert "on one_record_per_trigger_and_subject" in plan_of(captured, without=("seqscan", "indexscan"))

    @pytest.mark.slow
    def test_a_page_behind_50_000_of_100_000_reads_its_own_rows_alone(self, program: Program) -> None:
        schedule = make_event_schedule()
        first = delivered(schedule, 0)
        drawn = {"id": "id + n", "trigger_at": "trigger_at + n * interval '1 s'",
                 "finished_at": "finished_at + n * interval '1 s'"}  # fmt: skip
        columns = [field.column for field in first._meta.concrete_fields]
        with connection.cursor() as cursor:
            cursor.execute(
                f"INSERT INTO jobs_backlogrecord ({', '.join(columns)}) "
                f"SELECT {', '.join(drawn.get(name, name) for name in columns)} "
                "FROM jobs_backlogrecord, generate_series(1, 99999) AS n"
            )
            cursor.execute("ANALYZE jobs_backlogrecord")
        for ordering in ("id", "-id", "finished_at", "-finished_at", "-trigger_at"):
            query = {"schedule": schedule.pk} if ordering == "-trigger_at" else {}
            with CaptureQueriesContext(connection) as captured:
                page = found(program.get("records", after=first.pk + 50_000, ordering=ordering, limit=1, **query))
            assert page["next"] == first.pk + 50_000 + (-1 if ordering[0] == "-" else 1), ordering
            [listing] = [each["sql"] for each in captured if "LIMIT 2" in each["sql"]]
            with connection.cursor() as cursor:
                cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {listing}")
                [[[found_out]]] = cursor.fetchall()
            read = found_out["Plan"]["Shared Hit Blocks"] + found_out["Plan"]["Shared Read Blocks"]
            assert read < 500, (ordering, found_out)
