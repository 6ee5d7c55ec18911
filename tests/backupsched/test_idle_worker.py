"""The statements of a worker that has nothing to do, with all that it asks each minute: virtual time, real SQL."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from alerting import rounds
from alerting.models import Alert, Watch
from jobs import conf, sweeps
from jobs.clock import database_clock
from jobs.conf import QueueRule
from jobs.models import PausedQueue
from jobs.worker import hints, listener, process
from jobs.worker.claimer import Claimer
from jobs.worker.heartbeat import Heartbeat
from operations.task_installation import install
from sources.models import Assignment, CheckRound, Repository
from tests import statements
from tests.alerting.making import make_route
from tests.factories import make_record, make_worker
from tests.sources.factories import backed_up, make_policy

pytestmark = pytest.mark.django_db

WINDOW = [{"days": "mon-sun", "start": "08:00", "end": "20:00"}]
SECONDS = 300

sent = statements.sent


@pytest.fixture
def wait(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[float], None]]:
    """Lets so many seconds pass for an idle worker, without qcluster, and for its heartbeat and its alerts."""
    settings.JOBS = {**settings.JOBS, "LEASE_SECONDS": 60, "WAKE": "listen"}
    now, beaten = [0.0], [0.0]
    for module in (process, hints):
        monkeypatch.setattr(module, "boot_seconds", lambda: now[0])
    Watch.objects.create(pk=1, looked_at=database_clock(), resumed_at=database_clock() - timedelta(hours=1))
    monkeypatch.setattr(rounds, "EVERY", timedelta())  # the database's clock does not go on with this one
    monkeypatch.setattr(rounds.sending, "start_thread", lambda work: work())
    monkeypatch.setattr(rounds.sending, "in_background", lambda: None)
    rules = [QueueRule(name, 4) for name in conf.queue_rules()]
    worker = process.WorkerProcess(rules)
    units: Any = SimpleNamespace(runs=list, busy=list, starved=list, waiting=lambda: 0, room=lambda queue: 4)
    worker.row, worker.units = make_worker(queues=dict.fromkeys(conf.queue_rules(), 4)), units
    worker.claimer = Claimer(rules, units, worker.hints, worker.row.pk)
    worker.upgrades.begin()
    heartbeat = Heartbeat(worker.row.pk, units)

    def pass_by(seconds: float) -> None:
        until = now[0] + seconds
        while now[0] < until:
            if now[0] >= beaten[0] + conf.heartbeat_seconds():
                beaten[0] = now[0]
                heartbeat.beat()
            if not worker.do_one_round():
                now[0] += max(worker._seconds_to_sleep(), process.SHORTEST_SLEEP_SECONDS)

    return pass_by


def _make_sources(now: datetime) -> None:
    """Two of which nothing is due for hours: no backup, look, check or drill."""
    in_half_a_day = now + timedelta(hours=12)
    for often in (None, 86_400):
        cron = f"{in_half_a_day.minute} {in_half_a_day.hour} * * *"
        policy = make_policy(cron=cron, window=WINDOW, check_within=often, drill_every=often)
        CheckRound.objects.create(assignment=backed_up(policy, now - timedelta(minutes=1)), planned_at=now)
    Assignment.objects.update(drill_planned_at=now)
    Repository.objects.update(made_at=now, looked_at=now)


@pytest.mark.parametrize("has_sources", [pytest.param(False, marks=pytest.mark.slow), True])
def test_an_idle_worker_sends_less_than_one_statement_a_second(
    has_sources: bool, sent: list[str], wait: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeps, "run_overdue", lambda: 0)  # of qcluster, and by another clock
    install(now=database_clock())
    PausedQueue.objects.create(name="callbacks")
    for _ in range(20):
        make_record(queue="callbacks")
    if has_sources:
        make_route()
        _make_sources(database_clock())
    wait(2 * process.MINUTELY_SECONDS + SECONDS)  # what is due once
    Alert.objects.update(raised_at=database_clock() - timedelta(hours=1))  # that qcluster does not tick
    wait(process.MINUTELY_SECONDS)
    sent.clear()
    wait(SECONDS)
    pings = SECONDS / listener.PING_EVERY_SECONDS
    assert len(sent) + pings < SECONDS, "\n".join(" ".join(each.split())[:150] for each in sent)
