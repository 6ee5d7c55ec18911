"""The reasons why a record does not run, with their numbers."""

import json
import re
from datetime import timedelta
from pathlib import Path

import pytest
from django.test import override_settings

from jobs.models import BacklogRecord, Breaker, PausedQueue, Sweep
from jobs.order import REASONS, claim_key
from jobs.outcomes import Failed
from jobs.states import Status, WaitingFor
from operations.backlog import line
from operations.backlog.reason import Code, texts
from operations.backlog.reasons import explain
from tests.commands import command
from tests.factories import (
    NOON,
    claim_ready,
    make_lane,
    make_record,
    make_retry_policy,
    make_throttle,
    make_worker,
    settled,
)
from tests.jobs.breaking import HOUR, MINUTE, SECOND, hold, open_it
from tests.jobs.throttling.rated import make_rated, ready

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def _a_worker():
    make_worker(queues={"default": 4}, heartbeat_at=NOON + MINUTE)


def why(record: BacklogRecord | int, now=NOON) -> list[str]:
    return texts(explain(BacklogRecord.objects.get(pk=getattr(record, "pk", record)), now).reasons)


def waiting(waiting_for: WaitingFor, **fields) -> BacklogRecord:
    return make_record(Status.WAITING, waiting_for=waiting_for, **fields)


class TestWaiting:
    def test_a_backoff_names_the_failure_the_policy_and_the_instant(self):
        policy = make_retry_policy(name="patient", algorithm="fibonacci", max_failures=8)
        record = waiting(
            WaitingFor.BACKOFF,
            failures=3,
            retry_policy=policy,
            last_error="permission denied\nmore",
            run_after=NOON + HOUR,
        )
        assert why(record) == [
            "failure 3 of 8 at 2026-03-02 12:00:00 UTC, by retry policy patient (fibonacci): permission denied",
            "its retry policy makes it wait until 2026-03-02 13:00:00 UTC, in 1 h",
        ]

    def test_a_sweep_is_the_next_one_that_covers_its_age(self):
        record = waiting(WaitingFor.SWEEP, failures=40, inserted_at=NOON - 3 * DAY - MINUTE)
        Sweep.objects.create(max_age_days=7, swept_at=NOON + MINUTE, swept=10_000, left_some=True)
        Sweep.objects.create(max_age_days=1, swept_at=NOON + MINUTE, swept=10_000, left_some=True)
        assert why(record, NOON + MINUTE)[1:] == [
            "it is 3 d old: the next sweep of its age comes at 2026-03-02 13:00:00 UTC, in 59 min",
            "the sweep of the last 7 days at 2026-03-02 12:01:00 UTC took its maximum, 10,000, and left older records",
        ]

    def test_a_breaker_tells_since_when_the_error_the_next_trial_and_how_many_wait(self):
        open_it()
        first, *_ = hold(3)
        for trials, after in ((0, ""), (1, "after 1 failed trial, "), (2, "after 2 failed trials, ")):
            Breaker.objects.update(trials=trials)
            assert why(first) == [
                "the breaker of repository office has been open since 2026-03-02 12:00:00 UTC: 3 failures in a row, "
                "the last one: no space left on device",
                f"3 records wait for it; {after}the next one is let through as a trial at 2026-03-02 12:01:00 UTC, "
                "in 1 min",
            ]

    @pytest.mark.parametrize(
        ("waiting_for", "message"),
        [
            (WaitingFor.WINDOW, "its window is closed until"),
            (WaitingFor.SNOOZE, "its user wants no backup until"),
            (WaitingFor.THROTTLE, "another record with its exclusive key is ready or running; it looks again at"),
            (WaitingFor.RECHECK, "it is not asked again before 2026-03-02 12:01:00 UTC, in 1 min, unless its source"),
        ],
    )
    def test_every_other_wait_says_until_when(self, waiting_for, message):
        assert any(reason.startswith(message) for reason in why(waiting(waiting_for)))

    def test_a_paused_queue_comes_first_and_what_stands_in_the_way_later_comes_last(self):
        PausedQueue.objects.create(name="default", paused_at=NOON - HOUR, reason="moving")
        record = waiting(WaitingFor.BACKOFF, failures=1, closes_at=NOON, run_after=NOON + MINUTE)
        found = why(record, NOON + SECOND)
        assert found[0].startswith("its queue default has been paused for 1 h (moving): ")
        assert "`manage.py backlog resume default`" in found[0]
        assert found[-1].startswith("its window closed at 2026-03-02 12:00:00 UTC")


class TestReady:
    def test_the_position_is_that_of_the_claim_order(self):
        lanes = [0, make_lane(make_throttle(9))]
        records = [make_record(priority=number % 3, lane=lanes[number % 2]) for number in range(7)]
        make_record(queue="backups", priority=9)
        make_record(priority=9, closes_at=NOON)
        claimed = [
            record.pk for record in BacklogRecord.objects.ready().filter(queue="default").open_at(NOON).in_claim_order()
        ]
        for record in records:
            expected = claimed.index(record.pk) + 1
            last = why(record)[-1]
            assert last.startswith(f"it is ready, number {expected} of 7 in the claim order of queue default")
            names = [each.subject for each in sorted(records, key=claim_key)[: min(4, expected - 1)]]
            assert all(f"{name} (a higher priority)" in last or f"{name} (the prior order)" in last for name in names)
            assert f"and {expected - 5} more" in last or expected < 6

    def test_a_position_far_back_is_a_lower_bound(self, monkeypatch):
        monkeypatch.setattr(line, "LEAST_COUNTED", 3)
        monkeypatch.setattr(line, "COUNTED", 3)
        *_, last = [make_record() for _ in range(5)]
        [reason] = explain(last, NOON).reasons
        assert reason.text.startswith("it is ready; at least 4 records of queue default come before it: first subject")
        assert reason.facts["ahead_by_key"] == {"id": 4}
        assert reason.facts["exact"] is False
        lane = make_lane(roomy := make_throttle(1))
        *_, last = [make_record(lane=lane) for _ in range(6)]
        assert why(last)[0] == f"its throttle {roomy} has room for 1 more record, and at least 4 records come before it"

    def test_who_comes_before_is_named_with_the_key_that_put_him_there(self):
        own = {"rank_day": NOON.date(), "tried_at": NOON, "expected_seconds": 60.0}
        before = {
            "priority": {"priority": 1},
            "rank_day": own | {"rank_day": NOON.date() - DAY},
            "tried_at": own | {"tried_at": None},
            "expected_seconds": own | {"expected_seconds": 59.5},
            "id": own,
        }
        for key, fields in before.items():
            make_record(subject=key, **fields)
        make_record(**own | {"rank_day": None}, subject="never")
        reason = explain(record := make_record(**own), NOON).reasons[-1]
        assert reason.facts["ahead_by_key"] == {key: 1 + (key == "rank_day") for key in before}
        assert [(each["title"], each["key"]) for each in reason.facts["ahead"]] == [
            ("priority", "priority"), ("never", "rank_day"), ("rank_day", "rank_day"), ("tried_at", "tried_at"),
        ]  # fmt: skip
        assert (reason.facts["position"], reason.facts["of"]) == (7, 7)
        assert f"tried_at ({REASONS['tried_at']}), and 2 more" in reason.text
        make_record(**own)
        assert explain(record, NOON).reasons[-1].facts["position"] == 7

    def test_what_its_own_throttle_holds_does_not_come_before(self):
        full, roomy = make_throttle(1), make_throttle(2)
        make_record(Status.RUNNING, lane=make_lane(full), payload={"title": "the holder"})
        for _ in range(3):
            make_record(lane=make_lane(full), priority=9)
            make_record(lane=make_lane(roomy), priority=9)
        facts = explain(make_record(), NOON).reasons[-1].facts
        assert (facts["position"], facts["held_ahead"], facts["of"]) == (3, 4, 7)
        last = make_record(lane=make_lane(roomy))
        assert why(last)[0] == f"its throttle {roomy} has room for 2 more records, and 3 records come before it"
        assert explain(last, NOON).runnable is False
        held = explain(make_record(lane=make_lane(full)), NOON).reasons
        assert held[0].text.endswith("full: 1 of its records runs (the holder)")
        assert held[-1].facts["position"] == 7  # behind those of its own throttle, too

    def test_no_free_unit_says_who_ends_first(self):
        for seconds in (None, 600.0, 60.0, 7200.0):
            make_record(Status.RUNNING, due_day=NOON.date(), expected_seconds=seconds, subject=f"for {seconds}")
        first, last = why(make_record(), NOON + MINUTE)
        assert first == (
            "no unit of queue default is free: all 4 units are busy; by its last duration for 60.0 ends first, "
            "any moment, being late"
        )
        assert last.startswith("it is ready, number 1 of 1")
        BacklogRecord.objects.filter(subject="for 60.0").update(expected_seconds=900)
        assert "for 600.0 ends first, at 2026-03-02 12:10:00 UTC" in why(make_record(), NOON + MINUTE)[0]

    def test_no_worker_serves_its_queue_or_none_is_alive(self):
        record, fed = make_record(queue="default"), make_record(queue="availability")
        both = "`manage.py worker --queues availability,backups`"
        assert why(fed)[0] == f"no worker that is alive serves its queue: {both}"
        alone = "no worker is alive: `manage.py worker` starts one"
        assert [why(each, NOON + HOUR)[0] for each in (record, fed)] == [alone, alone]
        assert "queue backups" not in " ".join(why(fed, NOON + HOUR))

    def test_a_full_throttle_tells_its_numbers(self):
        throttle = make_throttle(2)
        lane = make_lane(throttle)
        record = make_record(lane=lane)
        assert len(why(record)) == 1
        for _ in range(2):
            make_record(Status.RUNNING, lane=lane)
        found = explain(record, NOON)
        assert found.reasons[0].text.startswith(f"its throttle {throttle} is full: 2 of its records run (subject ")
        assert (found.runnable, found.reasons[0].code) == (False, Code.THROTTLED)

    def test_a_paused_throttle_says_how_it_is_resumed(self):
        throttle = make_throttle(0)
        [first], name = ready(throttle), throttle.name
        assert why(first) == [
            f"its throttle {name} (paused): until `manage.py throttles resume '{name}'` none begins",
            "it is ready, number 1 of 1 in the claim order of queue default",
        ]
        assert any("(paused)" in line for line in why(ready(throttle, queue="availability")[0]))

    def test_each_throttle_that_holds_it_is_named_and_no_other(self):
        full, empty, roomy = make_throttle(1), make_rated(0.1, tokens=0.5), make_throttle(9)
        make_record(Status.RUNNING, lane=make_lane(full), subject="it")
        *held, position = why(make_record(lane=make_lane(full, empty, roomy)))
        assert held == sorted([
            f"its throttle {full} is full: 1 of its records runs (it)",
            f"its throttle {empty} has no token: the next one comes in 5 s",
        ])  # fmt: skip
        assert position.startswith("it is ready")

    def test_a_source_that_is_not_asked_since_tokens_come_too_rarely_says_so(self):
        make_worker(queues={"availability": 9, "backups": 9}, heartbeat_at=NOON)
        throttle = make_rated(0.1, tokens=1)
        ready(throttle, 4, queue="backups")
        [unasked] = ready(throttle, queue="availability")
        assert why(unasked)[0] == f"its throttle {throttle} has 4 tokens within 30 s: 4 more are ready in backups"
        BacklogRecord.objects.filter(queue="backups").first().delete()
        assert not any("tokens" in line for line in why(unasked))
        assert len(claim_ready(queue="availability")) == 1

    @override_settings(
        JOBS={"QUEUES": {"default": {"concurrency": 4, "feeds": "backups"}, "backups": {"concurrency": 2}}}
    )
    def test_a_queue_that_feeds_another_waits_while_that_has_enough(self):
        make_worker(queues={"backups": 2, "default": 4}, heartbeat_at=NOON)
        throttle = make_throttle(2)
        record = make_record(lane=make_lane(throttle))
        assert len(why(record)) == 1
        for _ in range(3):
            make_record(queue="backups", lane=record.lane)
        full = f"its throttle {throttle} is full: 0 of its records run; 3 more are ready in backups"
        assert full in why(record)
        for _ in range(3):
            make_record(queue="backups")
        enough = "queue backups, which its queue feeds, has as many ready records as its units need soon"
        assert enough in why(record)


class TestEnded:
    def test_what_runs_says_where_since_when_and_when_it_should_end(self):
        worker = make_worker(name="host:77")
        record = make_record(Status.RUNNING, worker=worker, due_day=NOON.date(), expected_seconds=600.0)
        [reason] = explain(record, NOON + MINUTE).reasons
        assert reason.text == (
            f"it has been running in queue default on worker host:77 (#{worker.pk}) since 2026-03-02 12:00:00 UTC, for "
            "1 min; by its last duration it ends at 2026-03-02 12:10:00 UTC"
        )
        assert (reason.code, reason.until) == (Code.RUNNING, NOON + 10 * MINUTE)
        assert "its last one took 10 min" in why(record, NOON + HOUR)[0]

    def test_what_is_done_says_so(self):
        assert why(make_record(Status.SUCCEEDED)) == ["it succeeded at 2026-03-02 12:00:00 UTC"]
        assert why(make_record(Status.CANCELLED)) == ["it was cancelled at 2026-03-02 12:00:00 UTC"]

    def test_a_failed_one_says_how_often_by_which_rule_and_what_to_do_or_what_replaces_it(self):
        record = make_record(retry_policy=make_retry_policy(name="short", max_failures=1))
        settled(Failed("no such file"))
        assert why(record) == [
            "it gave up after 1 failure in a row, as many as its retry policy short allows; the last one: no such file",
            f"correct the cause, then retry it: `manage.py backlog retry {record.pk}`",
        ]
        other = make_record(subject=record.subject)
        assert why(record)[1] == f"record {other.pk} of the same subject continues in its place"


def test_a_long_backlog_costs_no_more_than_a_short_one(django_assert_max_num_queries):
    record = make_record(lane=make_lane(make_throttle(1)))
    with django_assert_max_num_queries(16):
        explain(record, NOON)


def test_the_command_has_a_line_a_reason_and_json():
    ask, refused = command("backlog")
    record = make_record(subject="a\x1bb")
    first, second, *_, last = ask("explain", str(record.pk)).splitlines()
    assert first.startswith(f"test a b (#{record.pk}) at ")
    assert second.startswith("  1. unserved: no worker is alive")
    assert last == "  A claim could take it now."
    facts = json.loads(ask("explain", str(record.pk), "--json"))
    assert [each["code"] for each in facts["reasons"]] == ["unserved", "ready"]
    assert "there is no record 999999" in refused("explain", "999999", code=1)
    assert "'x' is not the id of a record" in refused("explain", "x")


def test_the_page_of_reasons_has_each_code_in_order():
    page = Path("docs/reasons.md").read_text(encoding="utf-8")
    listed = [
        code for line in page.splitlines() if line.startswith("| `") for code in re.findall(r"`(\w+)`", line[:40])
    ]
    assert listed == list(Code)
