"""The expected start of a backup, or the reason why there is no estimate."""

import json
import random
from datetime import timedelta
from typing import Any

import pytest
from django.template.loader import render_to_string
from django.test import Client
from django.utils import timezone

from external.formatting import moment
from fleet.explaining.when import LEAST_KNOWN, RUNS, ExpectedStart, snapshot
from fleet.foreseeing.intervals import WIDER, ForecastGroup, error, interval
from jobs.models import Attempt, BacklogRecord, PausedQueue, Worker
from jobs.states import AttemptOutcome, Status, WaitingFor
from schedules.time_limits import within
from sources.models import Assignment, Backup, Progress
from sources.planning import subject_of
from tests.commands import command
from tests.factories import make_lane, make_record, make_worker
from tests.jobs.throttling.rated import make_rated
from tests.sources.factories import MONDAY, make_assignment

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("orders_run_here")]

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
NOW = MONDAY + 12 * HOUR


@pytest.fixture(autouse=True)
def _units() -> None:
    make_worker(queues={"availability": 9, "backups": 2}, heartbeat_at=NOW)


def of(status: Status, **fields: Any) -> BacklogRecord:
    assignment = make_assignment()
    values = {"kind": "backup", "queue": "backups", "subject": subject_of(assignment.pk), "expected_seconds": 600.0}
    return make_record(
        status, **values | {"due_day": NOW.date(), "rank_day": NOW.date(), "inserted_at": NOW - HOUR} | fields
    )


def learnt(ratios: list[float]) -> None:
    """Backups of one source, of which each took so many times the one before."""
    assignment, took, backups = make_assignment(), 100.0, []
    for number, ratio in enumerate([1.0, *ratios]):
        began, took = NOW - (100 - number) * HOUR, took * ratio
        facts = {"started_at": began, "ended_at": began + timedelta(seconds=took), "engine": "rclone", "attempt": 1}
        backups.append(Backup(assignment=assignment, repository=assignment.policy.repository, size=1, files=1, **facts))
    Backup.objects.bulk_create(backups)


def asked(record: BacklogRecord, outcomes: list[AttemptOutcome]) -> None:
    Attempt.objects.bulk_create(
        Attempt(record=record, number=number, queue="availability", started_at=NOW - HOUR, ended_at=NOW - HOUR,
                outcome=outcome)
        for number, outcome in enumerate(outcomes, 1)
    )  # fmt: skip


def expected(record: BacklogRecord) -> ExpectedStart:
    return snapshot(NOW).expect(BacklogRecord.objects.get(pk=record.pk), random.Random(1))


def test_next_in_line_with_a_free_unit_starts_now_whatever_is_known() -> None:
    of(Status.RUNNING, started_at=NOW - HOUR)
    first, second = of(Status.READY), of(Status.READY)
    assert expected(first) == ExpectedStart(first.pk, NOW, NOW, NOW)
    assert expected(second).because.startswith("history is too short: 0 backups with an earlier one of the same source")


def test_behind_a_unit_that_is_nearly_done_starts_soon_however_long_it_took_last_time() -> None:
    learnt([0.8 + 0.02 * number for number in range(LEAST_KNOWN)])
    Worker.objects.update(queues={"availability": 9, "backups": 1})
    runs, waits = of(Status.RUNNING, started_at=NOW - 5 * MINUTE, attempt=1), of(Status.READY)
    by_last = expected(waits)
    Progress.objects.create(record_id=runs.pk, attempt=1, bytes_done=950, bytes_total=1_000)
    Progress.objects.update(updated_at=NOW)
    found = expected(waits)
    assert NOW < found.at < NOW + MINUTE < by_last.at  # type: ignore[operator]
    assert found.latest < by_last.latest  # type: ignore[operator]
    Progress.objects.update(updated_at=NOW - 2 * MINUTE)
    assert expected(waits) == by_last


def test_behind_units_that_are_busy_starts_when_the_first_ends_with_an_interval() -> None:
    learnt([1.0] * LEAST_KNOWN)
    for ago in (2, 5):
        of(Status.RUNNING, started_at=NOW - ago * MINUTE)
    rows = [of(Status.READY) for _ in range(3)]
    first, *others = map(expected, rows)
    assert [each.at for each in (first, *others)] == [NOW + after * MINUTE for after in (5, 8, 15)]
    assert first.earliest == first.latest
    learnt([0.8 + 0.02 * number for number in range(LEAST_KNOWN)])
    found = expected(rows[2])
    assert NOW + 3 * MINUTE < found.earliest < found.at < found.latest < NOW + 27 * MINUTE  # type: ignore[operator]
    assert found.latest - found.earliest > 5 * MINUTE  # type: ignore[operator]
    assert found.text == f"between {moment(found.earliest)} and {moment(found.latest)} UTC in about nine cases of ten"
    page = render_to_string("dashboard/expected.html", {"expected": [("daily", found)], "several": True})
    assert "Under daily: it is expected to start between" in page


def test_a_ready_record_is_expected_in_its_turn_and_its_interval_has_those_that_may_be_asked_before() -> None:
    learnt([0.8 + 0.02 * number for number in range(LEAST_KNOWN)])
    for ago in (2, 5):
        of(Status.RUNNING, started_at=NOW - ago * MINUTE)
    record = of(Status.READY)
    alone = expected(record)
    for _ in range(3):
        earlier = of(Status.READY, queue="availability", rank_day=NOW.date() - 24 * HOUR)
        asked(earlier, [AttemptOutcome.HANDOFF] * 20)
    found = expected(record)
    assert abs(found.at - alone.at) < MINUTE  # type: ignore[operator]
    assert found.latest > alone.latest + 5 * MINUTE  # type: ignore[operator]
    assert expected(earlier).at < found.latest  # type: ignore[operator]
    looks = list[int]()
    snapshot(NOW).expect(record, random.Random(1), lambda: looks.append(0))

    def almost_over() -> None:
        looks.pop()
        if len(looks) < 2:
            raise ValueError("it takes too long")

    cut = snapshot(NOW).expect(record, random.Random(1), almost_over)
    assert abs(cut.at - found.at) < MINUTE, "the runs that were made count"  # type: ignore[operator]


def test_what_is_to_be_asked_counts_by_how_often_it_answered() -> None:
    learnt([1.0] * LEAST_KNOWN)
    sure, unsure, unknown = (of(Status.READY, queue="availability") for _ in range(3))
    asked(sure, [AttemptOutcome.HANDOFF] * 20)
    asked(unsure, [AttemptOutcome.HANDOFF, AttemptOutcome.UNAVAILABLE] * 5)
    assert expected(sure).at == NOW + timedelta(seconds=2)
    assert expected(unsure).because == "its source answered 5 of 10 times in two weeks: it may be away"
    assert "was asked 0 times in two weeks" in expected(unknown).because
    later = of(Status.WAITING, queue="availability", waiting_for=WaitingFor.BACKOFF, run_after=NOW + HOUR)
    asked(later, [AttemptOutcome.HANDOFF] * 20)
    found = expected(later)
    assert found.at == found.earliest == NOW + HOUR + timedelta(seconds=2)


def test_no_estimate_says_why() -> None:
    learnt([1.0] * LEAST_KNOWN)
    absent = of(Status.WAITING, queue="availability", waiting_for=WaitingFor.RECHECK)
    assert expected(absent).because == "its source is absent, and it is not known when it comes"
    assert "it waits for a breaker" in expected(of(Status.WAITING, waiting_for=WaitingFor.BREAKER)).because
    assert "has a rate" in expected(of(Status.READY, lane=make_lane(make_rated(1.0)))).because
    for _ in range(2):
        of(Status.RUNNING, expected_seconds=None, started_at=NOW)
    behind_firsts = of(Status.READY)
    assert f"in {RUNS} runs of {RUNS} no unit is free" in expected(behind_firsts).because
    PausedQueue.objects.create(name="backups", reason="moving", paused_at=NOW - HOUR)
    assert "its queue backups has been paused" in expected(behind_firsts).because


def test_an_estimate_that_takes_too_long_is_none_and_says_so() -> None:
    of(Status.RUNNING, started_at=NOW)
    learnt([1.0] * LEAST_KNOWN)
    record = of(Status.READY)
    assert snapshot(NOW).expect(record, random.Random(1), within(600, "it")).at
    found = snapshot(NOW).expect(record, random.Random(1), within(-1, "it"))
    assert (found.at, found.because) == (None, "it takes more than -1 s to find it")


def test_pages_ask_for_it_after_they_are_shown(admin_client: Client) -> None:
    make_worker(queues={"availability": 9, "backups": 2}, heartbeat_at=timezone.now() + MINUTE)
    record = of(Status.READY)
    source = Assignment.objects.get().source
    parts = f"/expected/source/{source.pk}/", f"/expected/record/{record.pk}/"
    pages = f"/admin/sources/source/{source.pk}/change/", f"/admin/jobs/backlogrecord/{record.pk}/change/"
    for page, part in zip(pages, parts, strict=True):
        assert f'hx-get="{part}"' in admin_client.get(page).content.decode()
        assert "it is expected to start at" in admin_client.get(part).content.decode()
    BacklogRecord.objects.update(status=Status.WAITING, waiting_for=WaitingFor.RECHECK, queue="availability")
    assert "No estimate of when it starts, because its source is absent" in admin_client.get(parts[0]).content.decode()
    other = make_record(Status.READY, kind="other")
    assert admin_client.get(f"/expected/record/{other.pk}/").content == b""


def test_an_interval_is_as_wide_as_past_errors_were() -> None:
    margin, factor = WIDER[ForecastGroup.READY]
    found = interval([100.0, 200.0, 300.0], ForecastGroup.READY)
    assert (found.median, found.low) == (200.0, 0.0)
    assert found.high == 200.0 + factor * (100.0 + margin)
    assert interval([100.0, 200.0, 300.0], ForecastGroup.READY, in_turn=(900.0, 950.0, 990.0)) == (0.0, 950.0, 950.0)
    assert interval([100.0, 200.0, 300.0], ForecastGroup.ALWAYS).high == 360.0
    assert interval([50.0] * 9, ForecastGroup.AWAY) == (50.0, 50.0, 50.0)
    assert error([100.0, 200.0, 300.0], ForecastGroup.READY, 500.0) > error(
        [100.0, 200.0, 300.0], ForecastGroup.READY, 250.0
    )


def test_the_command_says_it_of_each_policy() -> None:
    ask, refused = command("sources")
    make_worker(queues={"availability": 9, "backups": 2}, heartbeat_at=timezone.now() + MINUTE)
    record = of(Status.READY)
    source = Assignment.objects.get().source
    assert f"{source} under policy" in ask("when", str(source))
    [facts] = json.loads(ask("when", str(source), "--json"))
    assert (facts["record"], facts["because"], bool(facts["at"])) == (record.pk, "", True)
    Assignment.objects.update(next_backup_at=timezone.now() + HOUR)
    BacklogRecord.objects.all().delete()
    assert "no estimate, because it is not due before" in ask("when", str(source))
    assert "did you mean" in refused("when", str(source)[:-1])
