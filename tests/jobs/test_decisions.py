"""The log of decisions: what was done, what a claim considered, and how much of it is kept."""

from datetime import timedelta

import pytest

from jobs import claiming, decisions, periodic
from jobs.models import Decision, Level
from tests.factories import NOON, make_claimed, make_lane, make_record, make_throttle, make_worker

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)


class TestDoing:
    def test_a_line_says_what_was_done_to_which_record_and_when(self, caplog: pytest.LogCaptureFixture) -> None:
        record = make_claimed(queue="backups", subject="assignment:7")
        with caplog.at_level("INFO", logger="jobs.doing"):
            decisions.doing("answered", "it answered", record=record, facts={"attempt": 1}, now=NOON)
        line = Decision.objects.get()
        assert (line.level, line.what, line.text) == (Level.DOING, "answered", "it answered")
        assert (line.kind, line.queue, line.subject, line.facts) == ("test", "backups", "assignment:7", {"attempt": 1})
        assert (line.record_id, line.worker_id, line.at) == (record.id, record.worker_id, NOON)
        [logged] = caplog.records
        assert (logged.name, logged.getMessage()) == ("jobs.doing", "answered: it answered")
        assert (logged.__dict__["subject"], logged.__dict__["facts"]) == ("assignment:7", {"attempt": 1})

    def test_many_lines_are_one_statement(self, django_assert_num_queries) -> None:  # type: ignore[no-untyped-def]
        lines = [decisions.Line("paused", "by a person", "backup", f"source:{n}") for n in range(50)]
        with django_assert_num_queries(1):
            decisions.doing_all(lines, NOON)
        assert Decision.objects.filter(what="paused", at=NOON).count() == 50


class TestConsidering:
    def consider(self, wanted: int) -> Decision:
        worker = make_worker()
        claimed = claiming.claim("default", worker_id=worker.pk, limit=wanted, now=NOON)
        decisions.consider("default", claimed, wanted=wanted, worker_id=worker.pk, now=NOON)
        return Decision.objects.get(level=Level.CONSIDERING)

    def test_it_names_the_candidates_and_the_key_that_decided(self) -> None:
        short = make_record(expected_seconds=10.0, payload={"title": "laptop"})
        long = make_record(expected_seconds=900.0, payload={"title": "server"})
        line = self.consider(1)
        assert [row["id"] for row in line.facts["claimed"]] == [short.pk]
        assert [row["id"] for row in line.facts["left"]] == [long.pk]
        assert line.facts["decided_by"] == "expected_seconds"
        assert line.text == (
            "1 of 1 wanted were claimed from default; laptop came before server: a shorter last duration, or none yet"
        )

    def test_without_another_nothing_decided_and_a_claim_that_found_none_is_no_line(self) -> None:
        decisions.consider("default", [], wanted=4, worker_id=make_worker().pk, now=NOON)
        make_record()
        line = self.consider(5)
        assert (line.facts["decided_by"], line.facts["left"], line.facts["count"]) == (None, [], 1)
        assert line.text.endswith("no other was ready")

    def test_the_lanes_of_what_was_claimed_are_looked_at_together(self) -> None:
        lane = make_lane(make_throttle(1))
        make_record(priority=9)
        make_record(priority=8, lane=lane)
        behind = make_record(priority=7, lane=lane)
        other = make_record(priority=1)
        line = self.consider(2)
        assert [row["id"] for row in line.facts["left"]] == [behind.pk, other.pk]

    def test_the_number_of_candidates_that_are_kept_is_bounded(self) -> None:
        for _ in range(60):
            make_record()
        facts = self.consider(40).facts
        assert (len(facts["claimed"]), facts["count"], len(facts["left"])) == (20, 40, 5)


class TestPruning:
    def line(self, level: Level = Level.DOING, age: timedelta = timedelta()) -> Decision:
        return Decision.objects.create(level=level, what="x", text="x", at=NOON - age)

    def test_what_is_older_than_its_time_goes(self, settings) -> None:  # type: ignore[no-untyped-def]
        settings.JOBS = {**settings.JOBS, "KEEP_LOG_DAYS": 14}
        kept = [self.line(level, 14 * DAY) for level in Level]
        for level in Level:
            self.line(level, 14 * DAY + timedelta(seconds=1))
        periodic.prune(NOON)
        assert set(Decision.objects.all()) == set(kept)

    def test_of_each_level_only_the_latest_are_kept(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(decisions.MAX_ROWS, Level.CONSIDERING, 2)
        lines = [self.line(Level.CONSIDERING, timedelta(minutes=minutes)) for minutes in range(5)]
        doing = [self.line(age=timedelta(minutes=minutes)) for minutes in range(5)]
        assert decisions.prune(NOON) == 3
        assert set(Decision.objects.all()) == {*lines[:2], *doing}


def test_what_a_full_throttle_held_up_is_told_as_that() -> None:
    lane, worker = make_lane(make_throttle(1)), make_worker()
    for _ in range(3):
        make_record(lane=lane, priority=5, payload={"title": "held"})
    make_record(priority=1)
    claiming.claim("default", worker_id=worker.pk, limit=1, now=NOON)
    claimed = claiming.claim("default", worker_id=worker.pk, limit=4, now=NOON)
    decisions.consider("default", claimed, wanted=4, worker_id=worker.pk, now=NOON)
    line = Decision.objects.get()
    assert line.facts["decided_by"] == decisions.HELD
    assert "held was held by its throttle" in line.text
