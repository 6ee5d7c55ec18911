"""The summary of the backlog: what it counts, and what it says needs attention."""

from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command

from dashboard import metrics
from declarations.surfaces.terminal import text_of
from jobs import conf
from jobs.models import BacklogRecord, Breaker, PausedQueue, Worker
from jobs.prepared_statements import execute
from jobs.states import Status, WaitingFor
from operations.backlog import summary_statements
from operations.backlog.attention import attention
from operations.backlog.rendering import summary_view
from operations.backlog.summary import BacklogSummary, BreakerSummary, QueueSummary, WorkerSummary, summary
from operations.conditions import look_at
from tests.factories import NOON, build_record, make_record, make_worker

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("kind_of_tests")]

LATER = NOON + timedelta(minutes=10)


def queue_of(found: BacklogSummary, name: str = "default") -> QueueSummary:
    return {queue.name: queue for queue in found.queues}[name]


class TestSummary:
    def test_counts_each_status_of_each_queue(self):
        for number, status in enumerate(Status, start=1):
            for _ in range(number):
                make_record(status, worker=None)
        make_record(queue="backups")
        found = summary(NOON)
        queue = queue_of(found)
        assert [getattr(queue, status.label) for status in Status] == [1, 2, 3, 4, 5, 6]
        assert [queue_of(found, "backups").ready, queue_of(found, "availability").ready] == [1, 0]
        assert [queue.name for queue in found.queues] == list(conf.queue_rules())
        assert queue.at_least == set()

    def test_tells_the_age_of_the_oldest_ready_and_of_the_first_overdue(self):
        make_record(run_after=NOON)
        make_record(run_after=NOON + timedelta(minutes=5), priority=9)
        make_record(Status.WAITING, run_after=NOON + timedelta(minutes=7))
        for reason in (WaitingFor.BACKOFF, WaitingFor.SWEEP, WaitingFor.BREAKER):
            make_record(Status.WAITING, run_after=LATER + timedelta(minutes=1), waiting_for=reason)
        queue = queue_of(summary(LATER))
        assert (queue.oldest_ready_for, queue.overdue_for, queue.backing_off) == (600, 180, 2)
        assert queue_of(summary(NOON)).overdue_for is None

    def test_counts_what_ended_in_the_last_minute_and_hour(self):
        for status, ago in [(Status.SUCCEEDED, 5), (Status.FAILED, 59), (Status.FAILED, 61), (Status.CANCELLED, 3599)]:
            make_record(status, finished_at=LATER - timedelta(seconds=ago))
        make_record(Status.FAILED, finished_at=LATER - timedelta(seconds=3601))
        queue = queue_of(summary(LATER))
        assert (queue.finished_last_minute, queue.finished_last_hour, queue.failed_last_hour) == (2, 4, 2)

    def test_what_has_ended_is_not_counted_where_it_is_not_shown(self, admin_client, monkeypatch):
        monkeypatch.setattr(summary_statements, "FINISHED", "SELECT 1 / 0")
        assert admin_client.get("/admin/jobs/pausedqueue/").status_code == 200
        assert look_at(NOON, lambda now: None).summary.queues  # the doctor's, and that of alerts
        assert b"backupsched_workers" in metrics.exposition()
        with pytest.raises(SystemExit, match="1"):
            call_command("status")

    def test_tells_open_breakers_and_how_many_wait_for_each(self):
        shut = Breaker.objects.create(key="repository:1", title="repository nas", failures=2)
        opened = Breaker.objects.create(
            key="repository:2", title="repository tape", opened_at=NOON, probe_at=LATER, last_error="full\nmore"
        )
        for breaker in (shut, opened, opened):
            make_record(Status.WAITING, waiting_for=WaitingFor.BREAKER, breaker=breaker)
        assert summary(LATER).breakers == [
            BreakerSummary("repository:2", "repository tape", (LATER - NOON).total_seconds(), 2, "full", 0, 0)
        ]

    def test_knows_the_workers_of_a_queue_and_the_silent_ones(self):
        alive = make_worker("a", queues={"default": 4, "backups": 16}, heartbeat_at=LATER)
        make_worker("b", queues={"default": 3}, heartbeat_at=LATER - timedelta(seconds=59))
        silent = make_worker("c", queues={"default": 8}, heartbeat_at=LATER - timedelta(seconds=61))
        make_worker("stopped", queues={"default": 8}, heartbeat_at=LATER, stopped_at=LATER)
        make_worker("long gone", queues={"default": 8}, heartbeat_at=LATER - timedelta(days=2))
        holding = make_worker("gone, holding", heartbeat_at=LATER - timedelta(days=2))
        for worker in (alive, alive, silent, holding):
            make_record(Status.RUNNING, worker=worker)
        found = summary(LATER)
        assert (queue_of(found).workers, queue_of(found).places) == (2, 7)
        assert [(worker.name, worker.alive, worker.running) for worker in found.workers] == [
            ("a", True, 2), ("b", True, 0), ("c", False, 1), ("gone, holding", False, 1),
        ]  # fmt: skip

    def test_a_worker_that_was_started_again_after_it_was_killed_is_not_shown_as_silent(self):
        def worker(name: str, started: int, heartbeat: int) -> Worker:
            return make_worker(
                name, started_at=LATER - timedelta(seconds=started), heartbeat_at=LATER - timedelta(seconds=heartbeat)
            )

        worker("killed", 900, 300)
        worker("alive all the time", 800, 0)
        assert [found.name for found in summary(LATER).workers if not found.alive] == ["killed"]
        holding = worker("killed, holding", 900, 300)
        make_record(Status.RUNNING, worker=holding)
        worker("in its place", 200, 0)
        assert [found.name for found in summary(LATER).workers if not found.alive] == ["killed, holding"]

    def test_finds_queues_that_the_settings_do_not_know_and_kinds_without_a_handler(self):
        make_record(queue="ready there", kind="strange")
        make_record(Status.RUNNING, queue="running there")
        make_record(Status.WAITING, queue="waiting there")
        make_record(Status.SUCCEEDED, queue="ended there", kind="ended")
        PausedQueue.objects.create(name="paused there")
        found = summary(NOON)
        names = {queue.name for queue in found.queues if not queue.in_settings}
        assert names == {f"{what} there" for what in ("ready", "running", "waiting", "ended", "paused")}
        assert found.unknown_kinds == ["strange"]

    def test_beyond_its_bound_it_says_at_least(self):
        for status in (Status.READY, Status.WAITING, Status.FAILED):
            BacklogRecord.objects.bulk_create(build_record(status) for _ in range(11))
        within, beyond = (queue_of(summary(LATER, bound=bound)) for bound in (11, 10))
        assert (within.ready, within.waiting, within.failed, within.at_least) == (11, 11, 11, set())
        assert beyond.ready == 10
        assert {"ready", "oldest_ready_for", "waiting", "failed", "finished_last_hour"} <= beyond.at_least
        assert "finished_last_minute" not in beyond.at_least
        assert "10+" in text_of(summary_view(summary(LATER, bound=10)))

    def test_each_question_is_answered_by_an_index_without_sorting(self):
        BacklogRecord.objects.bulk_create(build_record(list(Status)[n % 2]) for n in range(200))
        summary()
        assert [row[0] for row in execute("SHOW enable_seqscan", {})] == ["on"]  # the planner is left as it was
        execute(summary_statements.BY_INDEX, {})
        values = {"queues": ["default"], "bound": 10, "now": NOON}
        for name in ("QUEUES_WITH_READY", "READY", "WAITING", "RUNNING", "FINISHED", "UNFINISHED_KINDS"):
            sql = getattr(summary_statements, name)
            rows = execute(f"EXPLAIN {sql}", {key: value for key, value in values.items() if f"%({key})s" in sql})
            plan = "\n".join(row[0] for row in rows.fetchall())
            assert "Seq Scan" not in plan, name
            if name in ("READY", "WAITING", "FINISHED"):
                assert "Sort" not in plan.split("Limit", 1)[1], plan


def a_summary(*queues: QueueSummary, workers: list[WorkerSummary] | None = None, **facts: Any) -> BacklogSummary:
    alive = [WorkerSummary(1, "host:1", {"default": 4}, NOON, 1.0, True, 0)]
    values = {
        "at": LATER,
        "queues": list(queues),
        "workers": alive if workers is None else workers,
        "unknown_kinds": [],
    }
    return BacklogSummary(**(values | facts))


class TestAttention:
    @pytest.mark.parametrize(
        ("queue", "message"),
        [
            (QueueSummary("backups", True, waiting=1, ready=2), "No worker serves queue backups, which has 3 records"),
            (QueueSummary("old", False, ready=2), "Queue old, which has 2 records, is not in the settings"),
            (
                QueueSummary("default", True, workers=1, paused_at=NOON, paused_reason="full"),
                "Queue default has been paused for 10 min (full): `manage.py backlog resume default`",
            ),
            (QueueSummary("default", True, workers=1, overdue_for=61.0), "should have become ready 1 min 1 s ago"),
        ],
    )
    def test_names_what_is_wrong_with_a_queue_and_what_to_do(self, queue, message):
        [line] = attention(a_summary(queue))
        assert message in line

    @pytest.mark.parametrize(
        ("title", "waiting", "message"),
        [
            ("repository nas", 212, "Repository nas has kept failing for 1 h (no space left); 212 records wait for it: "
             "correct it; `manage.py backlog probe-breaker k:3` then tries it at once."),
            ("http://a:8766", 1, "http://a:8766 has kept failing for 1 h (no space left); 1 record waits for it: "
             "correct it; `manage.py backlog probe-breaker k:3` then tries it at once."),
            ("nas", 0, "Nas has kept failing for 1 h (no space left); 0 records wait for it: correct it; the next "
             "record that needs it then tries it, or `manage.py backlog close-breaker k:3`."),
        ],
    )  # fmt: skip
    def test_an_open_breaker_says_how_many_wait_and_what_to_do(self, title, waiting, message):
        breaker = BreakerSummary("k:3", title, 3600.0, waiting, "no space left", 3, 0)
        assert attention(a_summary(QueueSummary("backups", True, workers=1), breakers=[breaker])) == [message]

    def test_silent_workers_are_named_for_an_hour_or_while_they_hold_records_and_many_are_counted(self):
        def silent(seconds: float, running: int) -> WorkerSummary:
            return WorkerSummary(2, "host:2", {}, NOON, seconds, False, running)

        alive = WorkerSummary(1, "host:1", {}, NOON, 1.0, True, 0)
        found = attention(a_summary(workers=[alive, silent(120, 0), silent(7200, 3), silent(7200, 0)]))
        assert [("silent for 2 min" in line, "its 3 records" in line) for line in found] == [
            (False, True),  # what holds records comes first
            (True, False),
        ]
        found = attention(a_summary(workers=[*[silent(120.0, 0)] * 9, alive]))
        assert (len(found), found[-1]) == (6, "4 more workers are silent: `--json` names them.")

    def test_names_unknown_kinds_says_once_that_no_worker_is_alive_and_nothing_when_all_is_well(self):
        busy = QueueSummary("default", True, ready=5, workers=1, overdue_for=2.0)
        assert attention(a_summary(busy, QueueSummary("backups", True, failed=9))) == []
        [line] = attention(a_summary(unknown_kinds=["strange"]))
        assert "'strange'" in line
        assert "manage.py backlog cancel --kind strange" in line
        queues = [QueueSummary(name, True, ready=1, overdue_for=999.0) for name in ("a", "b")]
        assert attention(a_summary(*queues, workers=[])) == ["No worker is alive: start one with `manage.py worker`."]
