"""`manage.py process_backlog DAYS`: a sweep by a person."""

import json
from datetime import timedelta

import pytest
from django.core.management import CommandError

from jobs.clock import database_clock
from jobs.models import BacklogRecord
from jobs.states import Status, WaitingFor
from tests.commands import command
from tests.factories import make_record


def make_waiting(hours: float) -> BacklogRecord:
    """Its last failure was a moment ago: a sweep of the clock would not take it."""
    now = database_clock()
    values = {"run_after": now + timedelta(days=9), "failures": 3, "last_failure_at": now}
    return make_record(Status.WAITING, waiting_for=WaitingFor.SWEEP, inserted_at=now - timedelta(hours=hours), **values)


run, refused = command("process_backlog")


@pytest.mark.django_db
class TestASweepByHand:
    def test_makes_ready_what_is_young_enough_also_what_has_just_failed(self):
        young, old = make_waiting(71), make_waiting(73)
        assert run("3") == "1 record is ready; nothing up to 3 days old waits for a sweep any more.\n"
        young.refresh_from_db()
        old.refresh_from_db()
        assert (young.status, old.status) == (Status.READY, Status.WAITING)

    def test_a_dry_run_says_how_many_it_would_be_and_json_has_the_facts(self):
        make_waiting(1)
        make_waiting(2)
        assert run("1", "--dry-run") == "2 records would be ready.\n"
        assert run("1", "--dry-run", "--max-records", "1").startswith("1 record would be ready; older ones were left")
        assert not BacklogRecord.objects.ready().exists()
        assert json.loads(run("1", "--json", "--max-records", "1")) == {
            "max_age_days": 1, "ready": 1, "left_some": True, "done_before": False, "skipped": False, "dry_run": False,
        }  # fmt: skip

    def test_bad_usage_is_named(self):
        with pytest.raises(CommandError, match="DAYS: '0' is no number of days: from 1 to 360"):
            run("0")
