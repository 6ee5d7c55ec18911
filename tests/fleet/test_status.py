"""One word for how a source is protected, counted and with its reason."""

import random
from datetime import timedelta
from itertools import product
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from fleet.assignment_findings import APART
from fleet.status import assignments_in, of_all, reasons_of, summary, with_assignment_status, with_status
from fleet.status.ordering import DATES, OLDEST_SUCCESS_FIRST, by_date, worst_first
from jobs.backlog import hold
from jobs.breakers import describe
from jobs.models import BacklogRecord, Breaker
from jobs.states import Status, WaitingFor
from schedules.models import Schedule
from sources.domain.status import NEEDS_OPERATOR, ProtectionStatus
from sources.models import Assignment, CheckRound, Repository, Source
from sources.planning import standings_of, subject_of
from storage.points.checking import GONE
from tests.factories import make_record, make_worker
from tests.sources.factories import make_assignment, make_policy, make_source

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("orders_run_here")]

NOW = timezone.now()
AHEAD, AGO = NOW + timedelta(hours=5), NOW - timedelta(hours=5)
PROTECTED = {"last_backup_at": AGO, "next_backup_at": AHEAD}
DUE = {"last_backup_at": AGO, "next_backup_at": AGO}


DAMAGE = {"point": "20260301T090000Z", "path": "a", "place": "current", "why": "it is missing", "repository": None}


def waits_for(what: WaitingFor, **fields: Any) -> dict[str, Any]:
    return {"status": Status.WAITING, "waiting_for": what, "run_after": AHEAD, **fields}


RUNNING = {"status": Status.RUNNING, "queue": "backups"}

CASES: list[tuple[ProtectionStatus, dict[str, Any], dict[str, Any] | None]] = [
    (ProtectionStatus.FAILING, DUE | {"failures": 2}, RUNNING),
    (ProtectionStatus.OVERDUE, DUE | {"overdue_since": AGO}, waits_for(WaitingFor.RECHECK)),
    (ProtectionStatus.NEVER, {"overdue_since": AGO}, None),
    (ProtectionStatus.NEVER, {}, RUNNING),
    (ProtectionStatus.DOUBTFUL, PROTECTED | {"damage": [DAMAGE]}, None),
    (ProtectionStatus.DOUBTFUL, PROTECTED | {"drill_error": "it is empty"}, RUNNING),
    (ProtectionStatus.DOUBTFUL, DUE | {"held_back_since": AGO, "damage": []}, waits_for(WaitingFor.WINDOW)),
    (ProtectionStatus.PROTECTED, PROTECTED | {"damage": []}, None),
    (ProtectionStatus.ABSENT, DUE, waits_for(WaitingFor.RECHECK)),
    (ProtectionStatus.WAITING, DUE, waits_for(WaitingFor.WINDOW)),
    (ProtectionStatus.DUE, DUE, None),
    (ProtectionStatus.DUE, DUE, {"status": Status.RUNNING, "queue": "availability"}),
    (ProtectionStatus.DUE, PROTECTED, {"status": Status.READY}),
    (ProtectionStatus.RUNNING, DUE, RUNNING),
    (ProtectionStatus.PROTECTED, PROTECTED, {"status": Status.SUCCEEDED}),
]


def made(fields: dict[str, Any], record: dict[str, Any] | None = None, **of_source: Any) -> Assignment:
    damage = (fields := dict(fields)).pop("damage", None)
    assignment = make_assignment(source=make_source(**of_source), **fields)
    if damage is not None:
        damage = [each | {"repository": assignment.policy.repository_id} for each in damage]
        CheckRound.objects.create(assignment=assignment, planned_at=AGO, checked_at=AGO, damage=damage)
    if record:
        make_record(**{"kind": "backup", "queue": "availability", "subject": subject_of(assignment.pk)} | record)
    return assignment


@pytest.mark.parametrize(("expected", "fields", "record"), CASES)
def test_sources_assignments_and_agents_agree(
    expected: ProtectionStatus, fields: dict[str, Any], record: dict[str, Any] | None
) -> None:
    assignment = made(fields, record)
    [source] = with_status(Source.objects.all(), NOW)
    [row] = with_assignment_status(Assignment.objects.all(), NOW)
    [standing] = standings_of(assignment.source_id)
    assert (source.status, row.status, standing.protection(NOW)) == (expected, expected, expected)
    assert {status for status, number in of_all.look(NOW)[0].items() if number} == {expected}
    assert found_at_once() == {assignment.source_id: {expected}}


def found_at_once() -> dict[int, set[ProtectionStatus]]:
    """Source → in which statuses it is, asked for all sources at once."""
    found: dict[int, set[ProtectionStatus]] = {}
    for status in ProtectionStatus:
        for pk in Source.objects.filter(of_all.in_status({status}, NOW)).values_list("pk", flat=True):
            found.setdefault(pk, set()).add(status)
    return found


def test_all_sources_at_once_are_in_the_statuses_that_they_are_in_one_by_one() -> None:
    """Sources with two assignments each, one of them perhaps disabled; paused, retired, without a policy, away."""
    rng = random.Random(33)
    disabled = make_policy()
    Schedule.objects.filter(policy=disabled).update(enabled=False)
    away = make_policy()
    Repository.objects.filter(policies=away).update(away_why="its disk is not there")
    states: list[dict[str, Any]] = [{}, {}, {}, {}, {"paused_at": AGO}, {"retired_at": AGO, "paused_at": AGO}]
    for number in range(60):
        (_, fields, record), (_, others, _) = rng.choice(CASES), rng.choice(CASES)
        source = made(fields, record, name=f"source {number}", **rng.choice(states)).source
        others = {name: value for name, value in others.items() if name != "damage"}
        make_assignment(rng.choice([disabled, make_policy()]), source, **others)
        if number % 20 == 0:
            make_assignment(away, source, **PROTECTED)
        if number % 10 == 0:
            Assignment.objects.filter(source=source).exclude(policy=away).delete()
    one_by_one = {each.pk: {each.status} for each in with_status(Source.objects.all(), NOW)}
    assert found_at_once() == one_by_one
    assert of_all.look(NOW)[0] == {status: list(one_by_one.values()).count({status}) for status in ProtectionStatus}
    assert len({status for each in one_by_one.values() for status in each}) > 8
    _, worst = of_all.look(NOW, NEEDS_OPERATOR, 25)
    whole, alone = summary(NOW, 25), summary(NOW, 25, need_alone=True)
    assert (alone.sentence, alone.needs, [*alone.worst.items()]) == (whole.sentence, whole.needs, [*worst.items()])
    assert alone.by_status[ProtectionStatus.PROTECTED] == whole.protected > whole.by_status[ProtectionStatus.PROTECTED]
    by_rank = with_status(Source.objects.all(), NOW).filter(status__in=NEEDS_OPERATOR).order_by("status_rank", "name")
    in_need = [(each.pk, each.status) for each in by_rank]
    assert list(worst.items()) == in_need[:25]
    for most in (0, 1, 2, 5, 9, 14, len(in_need), len(in_need) + 1, None):
        assert list(of_all.look(NOW, NEEDS_OPERATOR, most)[1].items()) == in_need[:most], most
    in_order = [
        (each.pk, each.status) for each in with_status(Source.objects.all(), NOW).order_by("status_rank", "name")
    ]
    for few in (False, True):
        pages = [worst_first(Source.objects.all(), NOW, first=first, most=7, few=few) for first in range(0, 60, 7)]
        assert [row for page in pages for row in page.items()] == in_order
    for status in ProtectionStatus:
        rows = with_assignment_status(Assignment.objects.order_by("pk"), NOW).filter(status=status)
        assert set(Assignment.objects.filter(assignments_in({status}, NOW))) == set(rows), status
    success = dict(Source.objects.with_protection().values_list("pk", "last_backup_at"))
    for few in (False, True):
        found = worst_first(Source.objects.all(), NOW, order=OLDEST_SUCCESS_FIRST, few=few)
        assert dict(found) == dict(in_order)
        assert [*found] == sorted(found, key=lambda pk: (found[pk].rank, success[pk] is not None, success[pk]))
    dated, some = with_status(Source.objects.with_protection(), NOW), {"name__contains": "1"}
    for rows, order in product((dated, dated.filter(**some)), [*DATES, *(f"-{date}" for date in DATES)]):
        for first in (0, 7, 56):
            in_order = rows.order_by(order, "-pk").values_list("pk", flat=True)[first : first + 7]
            assert by_date(rows, order, first, 7) == [*in_order], (order, first)


def test_records_are_not_each_looked_up_for_their_assignment() -> None:
    """In a period that has begun most assignments have one."""
    for _ in range(60):
        made(DUE, {"status": Status.READY})
    with connection.cursor() as cursor:
        for model in (Assignment, BacklogRecord, Source):
            cursor.execute(f"ANALYZE {model._meta.db_table}")
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {of_all.FOUND}", {"now": NOW})
        whole = cursor.fetchone()[0][0]["Plan"]
    plans, scans = [whole], []
    for each in plans:
        plans += each.get("Plans", ())
        scans += [each] if each.get("Relation Name") == Assignment._meta.db_table else []
    assert max(each["Actual Loops"] for each in scans) == 1, whole


def test_workers_take_part_in_a_subquery_that_is_planned_apart_and_dates_are_read_only_for_those_due() -> None:
    Source.objects.bulk_create(Source(name=f"source {number}") for number in range(60))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE sources_source")
        # Pages that rolled back tests have left would otherwise outweigh the rows that workers share.
        for name in ("parallel_setup_cost", "parallel_tuple_cost", "min_parallel_table_scan_size", "seq_page_cost"):
            cursor.execute(f"SET LOCAL {name} = 0")
        cursor.execute("SET LOCAL max_parallel_workers_per_gather = 2")
        cursor.execute(f"EXPLAIN SELECT count(*) FROM (SELECT id FROM sources_source {APART}) AS each")
        assert "Partial Aggregate" in str(cursor.fetchall())  # "OFFSET 0" keeps them to the subquery itself
    for status, reads_dates in ((ProtectionStatus.ABSENT, False), (ProtectionStatus.DUE, True)):
        with CaptureQueriesContext(connection) as asked:
            of_all.in_status({status}, NOW)
        assert ("next_backup_at" in asked[0]["sql"]) == reads_dates, status


def test_a_page_that_those_in_need_fill_looks_at_no_record_and_at_no_other_source() -> None:
    for number in range(3):
        made({"failures": 1}, RUNNING, name=f"source {number}")
    made(PROTECTED)
    with CaptureQueriesContext(connection) as asked:
        assert len(worst_first(Source.objects.all(), NOW, most=3)) == 3
    [sql] = [each["sql"] for each in asked]
    assert "jobs_backlogrecord" not in sql
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(f"EXPLAIN {sql}")
        assert "assignment_in_trouble" in str(cursor.fetchall())
    with CaptureQueriesContext(connection) as asked:
        assert len(worst_first(Source.objects.all(), NOW, most=4)) == 4
    assert ["jobs_backlogrecord" in each["sql"] for each in asked] == [False, True]
    with CaptureQueriesContext(connection) as asked:
        [(_, status)] = worst_first(Source.objects.all(), NOW, first=3, most=3).items()
    assert (status, [each["sql"].startswith("SELECT count(*)") for each in asked]) == ("protected", [True, False])


def test_what_a_person_chose_comes_before_what_is_wrong_and_the_worst_assignment_stands_for_all() -> None:
    made({"failures": 1}, paused_at=AGO, name="paused")
    made({"failures": 1}, paused_at=AGO, retired_at=AGO, name="retired")
    assert summary(NOW).sentence == "0 of 1 protected · 1 paused"
    Schedule.objects.filter(policy__assignments__source=made({"failures": 1}, name="disabled").source).update(
        enabled=False
    )
    both = made(PROTECTED, name="both")
    make_assignment(make_policy(), both.source, **DUE, overdue_since=AGO)
    make_source(name="alone")
    found = with_status(Source.objects.all(), NOW).order_by("status_rank", "name").values_list("name", "status")
    assert list(found) == [
        ("both", ProtectionStatus.OVERDUE), ("alone", ProtectionStatus.UNPROTECTED),
        ("disabled", ProtectionStatus.UNPROTECTED),
        ("paused", ProtectionStatus.PAUSED), ("retired", ProtectionStatus.RETIRED),
    ]  # fmt: skip
    assert [each.name for each in with_status(Source.objects.all(), NOW).filter(status="overdue")] == ["both"]
    make_record(Status.FAILED)
    make_assignment(make_policy(), **PROTECTED)
    now = summary(NOW)
    assert (now.total, now.protected, now.in_need, now.dead_letters, now.is_well) == (5, 1, 3, 1, False)
    assert now.sentence == "1 of 5 protected · 3 need you · 1 paused · 1 dead letter"


def reason(assignment: Assignment) -> str:
    return reasons_of([assignment.source], NOW)[assignment.source_id]


def test_the_reason_is_the_error_and_when_it_is_tried_next() -> None:
    make_worker(queues={"availability": 4, "backups": 4}, heartbeat_at=NOW)
    failing = {**DUE, "failures": 3, "first_failure_at": AGO}
    error = {"failures": 3, "last_error": "login refused\nby host", "last_failure_at": AGO, "first_failure_at": AGO}
    tried = reason(made(failing, waits_for(WaitingFor.BACKOFF, **error)))
    assert tried.startswith(
        f"3 failures in a row since {AGO:%Y-%m-%d %H:%M:%S} UTC: login refused; it is not tried again before"
    )
    gave_up = reason(made(failing, {"status": Status.FAILED, **error}))
    record = BacklogRecord.objects.get(status=Status.FAILED)
    assert gave_up.endswith(f"login refused; it gave up: correct that, then `manage.py backlog retry {record.pk}`")
    absent = reason(made({}, waits_for(WaitingFor.RECHECK)))
    assert absent.startswith("its first backup is missing; its source did not answer; it is not asked again before")
    assert reason(made({}, RUNNING)).startswith("its first backup has been running since ")
    asked = reason(made({}, RUNNING | {"queue": "availability"}))
    assert asked.startswith("its first backup is missing; its source is being asked whether it is there (since ")
    assert reason(made({}, paused_at=AGO, name="x")).endswith("`manage.py sources resume x` ends it")
    held = made({**PROTECTED, "held_back_since": AGO, "held_back_why": "half is gone", "drill_error": "no room"})
    assert reason(held).startswith(
        "its last backup looked wrong (half is gone), so nothing old is removed; its last drill failed: no room; its "
        "next backup is due"
    )
    damaged = made(PROTECTED | {"damage": [DAMAGE]})
    assert reason(damaged).startswith(
        f"a check found damage in repository {damaged.policy.repository}: 1 file: 'a' of 20260301T090000Z: "
        f"it is missing; the last check was at {AGO:%Y-%m-%d %H:%M:%S} UTC; its next backup is due"
    )
    two = made(PROTECTED | {"damage": [DAMAGE | {"why": GONE, "point": point} for point in ("a", "b", "b")]})
    text = f"2 points cannot be restored from repository {two.policy.repository}, though nothing here has removed them"
    assert reason(two).startswith(f"{text}: a, b; ")
    assert summary(NOW).needs.endswith("3 doubtful")
    alone = make_source()
    assert reasons_of([alone], NOW) == {alone.pk: "it is in no policy"}


def test_the_error_of_a_breaker_and_the_hold_are_said_once_and_the_next_attempt_is_the_trial(admin_client) -> None:
    make_worker(queues={"availability": 4, "backups": 4}, heartbeat_at=NOW)
    fields = {"opened_at": AGO, "failures": 3, "probe_at": AHEAD, "last_error": "it is full"}
    breaker = Breaker.objects.create(key="repository:1", title="repository attic", **fields)
    waits = waits_for(WaitingFor.BREAKER, breaker=breaker, last_error="it is full")
    failing = made({**DUE, "failures": 3}, {**waits, "run_after": AHEAD + timedelta(days=1)})
    wanted = "3 failures in a row: it is full; the breaker of repository attic is open; 1 record waits for it; the next"
    assert reason(failing).startswith(wanted)
    # a record that was kept from trying has the breaker itself for its error
    BacklogRecord.objects.update(last_error=f"{describe(breaker)}; nothing else is tried")
    assert reason(failing).count("the breaker of repository attic") == reason(failing).count("it is full") == 1
    other = Breaker(title="repository attic of anna", **fields)
    BacklogRecord.objects.update(last_error=f"{describe(other)}; nothing else is tried")
    assert "repository attic of anna has been open since" in reason(failing)
    BacklogRecord.objects.update(last_error="it is full")
    page = f"/admin/sources/source/{failing.source_id}/change/"
    assert admin_client.get(page).context["next_attempt"] == ("at", AHEAD)
    hold("the store burns", by="anna")
    assert reason(failing).endswith(
        "it is full; everything is on hold (the store burns): `manage.py backlog release` ends it"
    )
    assert admin_client.get(page).context["next_attempt"] == ("none while everything is on hold", None)


def test_the_reasons_of_many_cost_as_many_statements_as_those_of_few() -> None:
    def statements() -> int:
        with CaptureQueriesContext(connection) as seen:
            assert len(reasons_of(list(Source.objects.all()), NOW)) == Source.objects.count()
        return len(seen)

    for _, fields, record in CASES:
        made(fields, record)
    few = statements()
    for _, fields, record in CASES * 3:
        made(fields, record)
    assert statements() == few
