"""Each code of a reason, from a state that causes it: listed for programs, and a sentence for users."""

import json
import re
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.serializers.json import DjangoJSONEncoder

from audit.models import AuditEntry, Verb
from fleet.explaining import explain_source
from jobs import backlog, claiming, settling
from jobs.models import BacklogRecord, PausedQueue
from jobs.outcomes import Postponed, Unavailable
from jobs.priorities import WOKEN
from jobs.states import Status, WaitingFor
from operations.backlog.reason import WHAT, Code, Reason
from operations.backlog.reasons import explain
from operations.trigger_reasons import explain_schedule
from schedules.models import Schedule, Trigger
from sources import planning
from sources.models import Assignment, Repository
from sources.planning import subject_of
from tests.factories import make_lane, make_record, make_schedule, make_throttle, make_worker
from tests.jobs.breaking import hold, open_it
from tests.sources.factories import MONDAY, make_assignment, make_policy, make_source

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("orders_run_here")]

HOUR = timedelta(hours=1)
NOW = MONDAY + 12 * HOUR
TWO_O_CLOCK = MONDAY + 2 * HOUR

Given = Iterable[Reason]


def of(assignment: Assignment, **when: Any) -> Given:
    [found] = explain_source(assignment.source, NOW, **when)
    return found.explanation.reasons


def of_record(status: Status = Status.READY, **fields: Any) -> Given:
    """The reasons of a backup's record in that state."""
    assignment = make_assignment()
    subject = {"kind": "backup", "subject": subject_of(assignment.pk), "queue": "backups"}
    return explain(make_record(status, **subject | fields), NOW).reasons


def of_waiting(waiting_for: WaitingFor, **fields: Any) -> Given:
    return of_record(Status.WAITING, waiting_for=waiting_for, queue="availability", run_after=NOW + HOUR, **fields)


def of_trigger(at: Any = TWO_O_CLOCK, seen: dict[str, Any] | None = None, **fields: Any) -> Given:
    """The reasons of a schedule of two o'clock each night that was made a month ago."""
    values = {"name": "nightly", "cron": "0 2 * * *", "provider": "", "event_count": 3}
    schedule = make_schedule(**values | fields)
    AuditEntry.objects.update(at=NOW - timedelta(days=30))
    if seen is not None:
        Trigger.objects.create(schedule=schedule, trigger_at=TWO_O_CLOCK, seen_at=TWO_O_CLOCK, **seen)
    return explain_schedule(schedule, NOW, at).reasons


def removed() -> Given:
    assignment = make_assignment()
    make_record(Status.RUNNING, kind="removal", subject=f"source:{assignment.source_id}")
    return of(assignment)


def unprotected() -> Given:
    [found] = explain_source(make_source(), NOW)
    return found.explanation.reasons


def unreadable() -> Given:
    assignment = make_assignment()
    Schedule.objects.update(cron="0 25 * * *")
    return of(Assignment.objects.get(pk=assignment.pk))


def on_hold() -> Given:
    backlog.hold("moving", by="ann")
    return of(make_assignment())


def queue_paused() -> Given:
    PausedQueue.objects.create(name="backups", paused_at=NOW - HOUR, reason="moving")
    return of_record()


def breaker() -> Given:
    open_it()
    return explain(BacklogRecord.objects.get(pk=hold()[0]), NOW).reasons


def settled(assignment: Assignment, outcome: Any) -> Assignment:
    planning.emit_due(NOW - HOUR, [assignment.pk])
    BacklogRecord.objects.update(inserted_at=NOW - HOUR)
    [claimed] = claiming.claim("availability", worker_id=make_worker().pk, limit=1, now=NOW - HOUR)
    settling.settle([(claimed, outcome)], now=NOW - HOUR)
    return assignment


def put_off() -> Given:
    battery = Postponed(NOW + HOUR, WaitingFor.RECHECK, "it runs on battery; looked at again at")
    return of(settled(make_assignment(), battery))


def a_line_of_the_log() -> Given:
    assignment = make_assignment(inserted_at=MONDAY)
    return of(settled(assignment, Unavailable("no route to host", 3600)), at=NOW - HOUR / 2)


def with_units(queues: dict[str, int], running: int, ready: int, queue: str) -> Given:
    make_worker(queues=queues, heartbeat_at=NOW)
    for _ in range(running):
        make_record(Status.RUNNING, queue="backups")
    for _ in range(ready):
        make_record(queue="backups")
    return of_record(queue=queue)


def throttled() -> Given:
    make_worker(queues={"backups": 1}, heartbeat_at=NOW)
    return of_record(lane=make_lane(make_throttle(0)))


def in_repository(assignment: dict[str, Any], **fields: Any) -> Given:
    home = Repository.objects.create(name="office", location="/srv", **fields)
    return of(make_assignment(make_policy(repository=home), **assignment))


def edited() -> Given:
    of_trigger()
    schedule = Schedule.objects.get()
    change = AuditEntry.objects.create(
        about="schedules.schedule", row_id=str(schedule.pk), who="ann", via="web", verb=Verb.CHANGED,
        before={"cron": "0 5 * * *"}, after={"cron": "0 2 * * *"},
    )  # fmt: skip
    AuditEntry.objects.filter(pk=change.pk).update(at=NOW - HOUR)
    return explain_schedule(schedule, NOW, TWO_O_CLOCK).reasons


STATES: dict[Code, Callable[[], Given]] = {
    Code.REMOVED: removed,
    Code.RETIRED: lambda: of(make_assignment(source=make_source(retired_at=NOW - HOUR))),
    Code.PAUSED: lambda: of(make_assignment(source=make_source(paused_at=NOW - HOUR))),
    Code.UNPROTECTED: unprotected,
    Code.DISABLED: lambda: of(make_assignment(make_policy(enabled=False))),
    Code.UNREADABLE: unreadable,
    Code.ON_HOLD: on_hold,
    Code.QUEUE_PAUSED: queue_paused,
    Code.NOT_DUE: lambda: of(make_assignment(next_backup_at=NOW + HOUR)),
    Code.NOT_PLANNED: lambda: of(make_assignment()),
    Code.WINDOW: lambda: of_waiting(WaitingFor.WINDOW),
    Code.START: lambda: of_waiting(WaitingFor.START),
    Code.SNOOZED: lambda: of_waiting(WaitingFor.SNOOZE),
    Code.BACKOFF: lambda: of_waiting(WaitingFor.BACKOFF, failures=1),
    Code.SWEEP: lambda: of_waiting(WaitingFor.SWEEP, failures=1),
    Code.BREAKER: breaker,
    Code.ABSENT: lambda: of_waiting(WaitingFor.RECHECK),
    Code.PUT_OFF: put_off,
    Code.WOKEN: lambda: of_waiting(WaitingFor.RECHECK, priority=WOKEN),
    Code.EXCLUSIVE: lambda: of_waiting(WaitingFor.THROTTLE),
    Code.UNSERVED: of_record,
    Code.THROTTLED: throttled,
    Code.ENOUGH: lambda: with_units({"availability": 9, "backups": 1}, running=1, ready=1, queue="availability"),
    Code.NO_UNIT: lambda: with_units({"backups": 1}, running=1, ready=0, queue="backups"),
    Code.READY: lambda: with_units({"backups": 1}, running=0, ready=0, queue="backups"),
    Code.RUNNING: lambda: of_record(Status.RUNNING),
    Code.AWAY: lambda: in_repository({}, away_why="it is empty", away_since=NOW - HOUR),
    Code.NO_ROOM: lambda: in_repository({"room_lacked": 1000}, room_free=1000),
    Code.FAILED: lambda: of_record(Status.FAILED, failures=3),
    Code.SUCCEEDED: lambda: of_record(Status.SUCCEEDED),
    Code.CANCELLED: lambda: of_record(Status.CANCELLED),
    Code.LOG: a_line_of_the_log,
    Code.FIRED: lambda: of_trigger(seen={"emitted_at": TWO_O_CLOCK, "events": 3}),
    Code.SKIPPED: lambda: of_trigger(seen={"skipped_for": "an earlier batch", "finished_at": TWO_O_CLOCK}),
    Code.OVERLAP: lambda: of_trigger(seen={}),
    Code.NO_TRIGGER: lambda: of_trigger(at=NOW),
    Code.EDITED: edited,
}
LISTED = {
    code: line.split("|")[2].strip()
    for line in Path("docs/reasons.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| `")
    for code in re.findall(r"`(\w+)`", line.split("|")[1])
}


@pytest.mark.parametrize("code", Code)
def test_each_code_has_a_state_that_gives_it_a_sentence_and_a_line_of_the_documents(code: Code) -> None:
    found = [reason for reason in STATES[code]() if reason.code == code]
    assert found, "another state gives it"
    for reason in found:
        assert len(reason.text) > 15, reason.text
        assert not re.search(r"\bNone\b|\.$|\n|  |\{|\ball 1\b", reason.text), reason.text
        assert json.loads(json.dumps(reason.as_facts, cls=DjangoJSONEncoder))["code"] == code
    assert len(LISTED[code]) > 10
    assert WHAT[code]


@pytest.mark.parametrize("wrong", [{"cron": "0 25 * * *"}, {"zone": "Europe/Atlantis"}, {"cron": ""}])
def test_what_cannot_be_read_is_not_said_to_be_planned_within_a_minute(wrong: dict[str, str]) -> None:
    assignment = make_assignment()
    Schedule.objects.update(**wrong)
    assert [each.code for each in of(Assignment.objects.get(pk=assignment.pk))] == [Code.UNREADABLE]


@pytest.mark.parametrize("waiting_for", WaitingFor)
def test_no_wait_is_without_a_reason(waiting_for: WaitingFor) -> None:
    make_worker(queues={"availability": 9, "backups": 9}, heartbeat_at=NOW)
    assert list(of_waiting(waiting_for, failures=1)), "the page of such a record would say nothing"
