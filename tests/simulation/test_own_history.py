"""The statements that read what was recorded, in a fleet of any size."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from fleet.foreseeing import sightings
from fleet.foreseeing.presence import Sighting
from jobs.models import Attempt, BacklogRecord, Worker
from jobs.states import AttemptOutcome, Status
from simulation.own_history import HistoryTooShort, recorded_fleet
from sources.planning import subject_of
from tests.factories import make_record
from tests.simulation.histories import DAYS, NOW, silent
from tests.simulation.small_fleets import DAY
from tests.sources.factories import MONDAY, backed_up, make_policy


class TestHistory:
    @pytest.mark.parametrize("day", [0, 1, 2, 5, 27, None])
    def test_begins_with_the_first_attempt_found_day_by_day(self, day: int | None, db: None):
        assignment = backed_up(make_policy(), MONDAY)
        for each in () if day is None else range(day, 28, 3):
            silent(assignment, MONDAY, MONDAY + timedelta(days=each, minutes=1))
        first = None if day is None else MONDAY + timedelta(days=day, minutes=1)
        assert sightings.first_attempt_at(MONDAY, 28) == first

    def test_of_some_is_read_by_indexes_alone_whatever_is_not_finished_yet(self, recorded):
        make_record(Status.READY, kind="backup", queue="backups", subject=subject_of(recorded.pk))
        unfinished = BacklogRecord.objects.unfinished().get()
        Attempt.objects.create(
            record=unfinished, number=1, queue="availability", started_at=NOW - timedelta(minutes=9), ended_at=NOW,
            outcome=AttemptOutcome.UNAVAILABLE,
        )  # fmt: skip
        values = {"since": MONDAY, "assignments": [recorded.pk], "sources": [recorded.source_id]}
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = off")
            cursor.execute(f"EXPLAIN {sightings.ATTEMPTS_OF_SOME}", values)
            plan = "\n".join(row for (row,) in cursor.fetchall())
        assert "Seq Scan" not in plan
        assert "backups_of_subject" in plan
        seen = sightings.sightings_since(MONDAY, {recorded.pk: recorded.source_id})[recorded.source_id]
        end = DAYS * DAY
        assert Sighting(end - 540, end, False) in seen
        assert len(seen) == Attempt.objects.filter(record__subject=subject_of(recorded.pk)).count()

    def test_of_no_worker_no_source_is_read(self, recorded):
        Worker.objects.update(heartbeat_at=NOW - timedelta(days=1))
        with CaptureQueriesContext(connection) as asked, pytest.raises(HistoryTooShort, match="no worker is alive"):
            recorded_fleet(NOW, 28)
        assert not any("jobs_attempt" in each["sql"] or "mac_address" in each["sql"] for each in asked)
