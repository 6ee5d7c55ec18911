"""The log of decisions: what was done, and how much of it is kept."""

from datetime import timedelta

import pytest

from jobs import decisions, periodic
from jobs.models import Decision, Level
from tests.factories import NOON, make_claimed

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)


class TestDoing:
    def test_a_line_says_what_was_done_to_which_record_and_when(self, caplog: pytest.LogCaptureFixture) -> None:
        record = make_claimed(queue="backups", subject="assignment:7")
        with caplog.at_level("INFO", logger="jobs.doing"):
            decisions.log("answered", "it answered", record=record, facts={"attempt": 1}, now=NOON)
        line = Decision.objects.get()
        assert (line.level, line.what, line.text) == (Level.DOING, "answered", "it answered")
        assert (line.kind, line.queue, line.subject, line.facts) == ("test", "backups", "assignment:7", {"attempt": 1})
        assert (line.record_id, line.worker_id, line.at) == (record.id, record.worker_id, NOON)
        [logged] = caplog.records
        assert (logged.name, logged.getMessage()) == ("jobs.doing", "answered: it answered")
        assert (logged.__dict__["subject"], logged.__dict__["facts"]) == ("assignment:7", {"attempt": 1})

    def test_many_lines_are_one_statement(self, django_assert_num_queries) -> None:  # type: ignore[no-untyped-def]
        lines = [decisions.DecisionLine("paused", "by a person", "backup", f"source:{n}") for n in range(50)]
        with django_assert_num_queries(1):
            decisions.log_all(lines, NOON)
        assert Decision.objects.filter(what="paused", at=NOON).count() == 50


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
