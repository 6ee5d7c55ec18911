"""The progressive schedule over 360 days, literally, by the scheduler of django-q2."""

import logging
from collections.abc import Iterator
from datetime import datetime, timedelta
from queue import SimpleQueue
from typing import Any

import django_q.tasks
import pytest
from django.core.management import call_command
from django_q.brokers.orm import ORM
from django_q.conf import Conf
from django_q.models import Failure
from django_q.models import Schedule as PeriodicTask
from django_q.scheduler import scheduler

from jobs.handlers import Kind, registry
from jobs.models import Attempt, BacklogRecord
from jobs.states import Status
from tests.jobs.progressive_year import START, Life, Year, counts, series
from tests.jobs.virtual_time import VirtualTime, virtual_time

pytestmark = pytest.mark.slow

ON_THE_GRID = [288, 144, 14, 16, 38, 23]
"""24 h / 5 min; 6 d / 1 h; 7 d / 12 h; 16 d / 24 h; from day 32 to 180 each 4 d; from day 184 to 360 each 8 d."""
OFF_THE_GRID = [288, 144, 14, 16, 37, 23]


@pytest.fixture
def time(transactional_db, monkeypatch, caplog) -> Iterator[VirtualTime]:
    caplog.set_level(logging.ERROR, "django-q")
    monkeypatch.setitem(registry.kinds, "test", Kind("test", home_queue="default"))
    monkeypatch.setattr(registry, "periodic", [])  # what other apps do every minute is not looked at here
    with virtual_time(START) as time:
        yield time


def check(first: Life, second: Life) -> None:
    for life, expected in ((first, ON_THE_GRID), (second, OFF_THE_GRID)):
        assert life.sweeps() == [at for at, _ in series(life.record.inserted_at)]
        assert counts(life) == expected
        record = BacklogRecord.objects.get(pk=life.record.pk)
        assert (record.status, record.failures) == (Status.FAILED, 1 + sum(expected))
        assert record.finished_at == life.tried[-1]
        assert Attempt.objects.filter(record=record).count() == 1 + sum(expected)


class InMemory(SimpleQueue[Any]):
    """The queues of django-q2 between its processes, in one: it runs its tasks in sync then."""

    def close(self) -> None:
        pass

    def join_thread(self) -> None:
        pass


@pytest.mark.django_db(transaction=True)
class TestByDjangoQ2:
    LATE = timedelta(seconds=13)
    """Its scheduler looks every half minute."""

    def test_a_record_is_tried_in_the_exact_series_and_then_fails(self, time, monkeypatch, capsys):
        monkeypatch.setattr(Conf, "SYNC", True)
        monkeypatch.setattr(Conf, "SAVE_LIMIT", -1)
        monkeypatch.setattr(django_q.tasks, "Queue", InMemory)
        call_command("install_schedules")
        capsys.readouterr()
        # the tick sweeps what is overdue: here the scheduler alone must do it
        PeriodicTask.objects.exclude(func="jobs.periodic.process_backlog").delete()
        year = Year(time, self.LATE)
        broker = ORM()

        def pass_instant(instant: datetime) -> None:
            time.go_to(instant + self.LATE)
            scheduler(broker=broker)
            year.work(instant + self.LATE)

        check(*year.live(pass_instant))
        assert not Failure.objects.exists()
