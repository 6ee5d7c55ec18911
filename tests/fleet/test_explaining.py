"""Explanations why backups do not run: of one source, of all, and at an instant in the past."""

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from fleet.explaining import explain_source, groups
from fleet.explaining.groups import explain_all
from fleet.explaining.history import history_of, kept_since, totals
from jobs import claiming, settling
from jobs.models import Attempt, BacklogRecord, Breaker
from jobs.outcomes import Failed, Handoff, Outcome, Postponed, Unavailable
from jobs.priorities import WOKEN
from jobs.states import AttemptOutcome, Status, WaitingFor
from operations.backlog.reason import Code
from sources import planning
from sources.models import Assignment, Pause, Repository, Source
from sources.planning import pause, subject_of
from tests.api.asking import Program, fields_of
from tests.commands import command
from tests.factories import make_record, make_worker
from tests.sources.factories import MONDAY, make_assignment, make_policy, make_source

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("orders_run_here")]

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
NOW = MONDAY + 12 * HOUR
NIGHT = [{"start": "22:00", "end": "06:00"}]


def codes(assignment: Assignment, now: datetime = NOW) -> list[Code]:
    [found] = explain_source(assignment.source, now)
    return list(dict.fromkeys(reason.code for reason in found.explanation.reasons))


def text(assignment: Assignment, now: datetime = NOW) -> str:
    [found] = explain_source(assignment.source, now)
    return "\n".join(reason.text for reason in found.explanation.reasons)


def waits(assignment: Assignment, what: WaitingFor, **fields: Any) -> BacklogRecord:
    values = {"kind": "backup", "queue": "availability", "subject": subject_of(assignment.pk), "waiting_for": what}
    return make_record(Status.WAITING, **values | {"run_after": NOW + HOUR} | fields)


class TestASource:
    def test_under_no_policy_or_on_its_way_out_says_that_alone(self) -> None:
        source = make_source()
        [found] = explain_source(source, NOW)
        assert [reason.code for reason in found.explanation.reasons] == [Code.UNPROTECTED]
        make_record(Status.RUNNING, kind="removal", subject=f"source:{source.pk}")
        [found] = explain_source(source, NOW)
        assert [reason.code for reason in found.explanation.reasons] == [Code.REMOVED]

    def test_that_is_not_due_says_when_it_is_and_when_its_window_opens_then(self) -> None:
        due_at = NOW + 21 * HOUR
        fields = {"next_backup_at": due_at, "last_backup_at": NOW - 3 * HOUR}
        assignment = make_assignment(make_policy(window=NIGHT), **fields)
        [found] = explain_source(assignment.source, NOW)
        assert [(each.code, each.until) for each in found.explanation.reasons] == [
            (Code.NOT_DUE, due_at),
            (Code.WINDOW, NOW + 34 * HOUR),
        ]
        assert "in 21 h" in text(assignment)
        Assignment.objects.update(skips=1)
        assert "it has been put off 1 time in a row" in text(assignment)

    def test_names_everything_that_stands_above_its_record_first(self) -> None:
        assignment = make_assignment(make_policy(enabled=False, paused_why="moving", paused_until=NOW + 9 * HOUR))
        waits(assignment, WaitingFor.BACKOFF, failures=2, last_error="permission denied")
        pause([assignment.source], by="ann", reason="on leave")
        waits(assignment, WaitingFor.BACKOFF, failures=2, last_error="permission denied")
        make_worker(queues={"availability": 9}, heartbeat_at=NOW)
        assert codes(Assignment.objects.get()) == [Code.PAUSED, Code.DISABLED, Code.BACKOFF]
        assert "(on leave), until a user resumes it" in text(Assignment.objects.get())
        assert "is disabled (moving), until 2026-03-02 21:00:00 UTC" in text(Assignment.objects.get())

    def test_that_was_woken_says_when_and_one_that_was_put_off_says_why(self) -> None:
        woken = make_assignment(source=make_source(last_woken_at=NOW - MINUTE))
        waits(woken, WaitingFor.RECHECK, priority=WOKEN, last_error="no answer; sent a magic packet")
        assert codes(woken)[:2] == [Code.ABSENT, Code.WOKEN]
        assert "it was sent a magic packet at 2026-03-02 11:59:00 UTC, 1 min ago" in text(woken)
        on_battery = make_assignment()
        planning.emit_due(NOW, [on_battery.pk])
        [claimed] = claiming.claim("availability", worker_id=make_worker().pk, limit=1, now=NOW)
        reason = "it runs on battery, which its policy does not allow; looked at again at"
        settling.settle([(claimed, Postponed(NOW + HOUR, WaitingFor.RECHECK, reason))], now=NOW)
        assert codes(on_battery)[0] == Code.PUT_OFF
        assert f"put off: {reason} 2026-03-02 13:00:00 UTC, in 1 h" in text(on_battery)

    def test_whose_other_policy_backs_it_up_names_it(self) -> None:
        source = make_source()
        first, second = (make_assignment(make_policy(), source) for _ in range(2))
        key = {"exclusive_key": source.exclusive_key, "payload": {"title": source.name}}
        make_record(Status.RUNNING, kind="backup", queue="backups", subject=subject_of(first.pk),
                    origin_id=first.policy.schedule_id, **key)  # fmt: skip
        waits(second, WaitingFor.THROTTLE, **key)
        [found] = explain_source(source, NOW, policy=str(second.policy))
        assert f"backup {source} of {first.policy} (#" in found.explanation.reasons[0].text
        assert found.explanation.reasons[0].code == Code.EXCLUSIVE
        with pytest.raises(ValueError, match="there is no policy of this source 'polcy'; "):
            explain_source(source, NOW, policy="polcy")

    def test_whose_repository_is_held_away_or_full_says_so_last(self) -> None:
        home = Repository.objects.create(
            name="office", location="/srv", away_why="it is empty", away_since=NOW - HOUR, room_free=1000
        )
        assignment = make_assignment(make_policy(repository=home), room_lacked=1000, next_backup_at=NOW + HOUR)
        Breaker.objects.create(
            key=f"repository:{home.pk}", title="repository office", failures=3, last_error="no space left on device",
            opened_at=NOW - HOUR, probe_at=NOW + MINUTE,
        )  # fmt: skip
        assert codes(assignment) == [Code.NOT_DUE, Code.BREAKER, Code.AWAY, Code.NO_ROOM]
        assert "no space left on device; the next trial comes at 2026-03-02 12:01:00 UTC" in text(assignment)


def test_all_sources_are_grouped_by_the_first_reason_of_each(django_assert_max_num_queries: Any) -> None:
    make_worker(queues={"availability": 9, "backups": 1}, heartbeat_at=NOW)
    policy = make_policy()
    for number in range(5):
        make_assignment(policy, make_source(name=f"later {number}"), next_backup_at=NOW + HOUR)
    for what in (WaitingFor.RECHECK, WaitingFor.RECHECK, WaitingFor.BACKOFF):
        waits(make_assignment(policy), what, failures=int(what == WaitingFor.BACKOFF))
    busy, ready = make_assignment(policy), make_assignment(policy)
    make_record(Status.RUNNING, kind="backup", queue="backups", subject=subject_of(busy.pk))
    make_record(kind="backup", queue="backups", subject=subject_of(ready.pk))
    make_source(name="alone")
    for aside in ({"paused_at": NOW}, {"paused_at": NOW, "retired_at": NOW}):
        make_assignment(policy, make_source(**aside))
    make_source(retired_at=NOW)
    make_record(Status.RUNNING, kind="removal", subject=f"source:{make_assignment(policy).source_id}")
    put_off = waits(make_assignment(policy), WaitingFor.RECHECK, attempt=1)
    values = {"queue": "availability", "started_at": NOW, "ended_at": NOW, "outcome": AttemptOutcome.RELEASED}
    Attempt.objects.create(record=put_off, number=1, **values)
    with django_assert_max_num_queries(20):
        found = {group.code: group for group in explain_all(NOW)}
    numbers = {code: group.number for code, group in found.items()}
    assert numbers == {
        Code.NOT_DUE: 5, Code.ABSENT: 2, Code.BACKOFF: 1, Code.RUNNING: 1, Code.NO_UNIT: 1, Code.UNPROTECTED: 1,
        Code.PAUSED: 1, Code.RETIRED: 1, Code.REMOVED: 1, Code.PUT_OFF: 1,
    }  # fmt: skip
    assert next(iter(found)) == Code.NOT_DUE
    assert found[Code.NOT_DUE].names == ("later 0", "later 1", "later 2")
    of_each = [explain_source(each, NOW) for each in Source.objects.all()]
    assert {each.explanation.reasons[0].code for [each] in of_each} == set(numbers)
    assert json.dumps(found[Code.NOT_DUE].as_facts)
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {groups.GROUPS}", {"now": NOW})
        plan = str(cursor.fetchall())
    assert [plan.count(f" on sources_{each} ") for each in ("assignment", "source")] == [1, 1], plan


class TestAnInstantThatIsOver:
    def lived(self) -> Assignment:
        """A day at which it was silent twice, answered, failed once, and was backed up."""
        assignment = make_assignment(make_policy(), inserted_at=MONDAY - HOUR)
        planning.emit_due(MONDAY, [assignment.pk])
        BacklogRecord.objects.update(inserted_at=MONDAY)
        steps: list[tuple[timedelta, str, Outcome]] = [
            (1 * HOUR, "availability", Unavailable("no route to host", 3600)),
            (2 * HOUR, "availability", Handoff("backups", found="it answered")),
            (3 * HOUR, "backups", Failed("permission denied")),
        ]
        worker = make_worker()
        for after, queue, outcome in steps:
            BacklogRecord.objects.waiting().update(status=Status.READY, waiting_for=None)
            [claimed] = claiming.claim(queue, worker_id=worker.pk, limit=1, now=MONDAY + after)
            settling.settle([(claimed, outcome)], now=MONDAY + after + 10 * MINUTE)
        return assignment

    def test_is_told_from_what_was_kept_with_the_lines_of_the_log(self) -> None:
        assignment = self.lived()
        found = {
            hours: explain_source(assignment.source, NOW, at=MONDAY + hours * HOUR)[0].explanation.reasons
            for hours in (0.5, 1.5, 2.5, 3.1, 5)
        }
        first = {hours: reasons[0] for hours, reasons in found.items()}
        assert {hours: reason.code for hours, reason in first.items()} == {
            0.5: Code.READY, 1.5: Code.ABSENT, 2.5: Code.READY, 3.1: Code.RUNNING, 5: Code.BACKOFF,
        }  # fmt: skip
        assert first[1.5].text == (
            "absent (no route to host), from 2026-03-02 01:00:00 UTC until 2026-03-02 02:10:00 UTC, for 1 h 10 min"
        ) or first[1.5].text.startswith("absent (no route to host), from 2026-03-02 01:00:00 UTC until 2026-03-02 02:0")
        assert first[5].text.startswith("backing off after a failure (permission denied), from 2026-03-02 03:10:00 UTC")
        assert Code.LOG in {reason.code for reason in found[5]}
        assert any("no route to host" in reason.text for reason in found[1.5][1:])

    def test_that_is_to_come_or_too_long_ago_is_refused_with_from_when_it_is_kept(self) -> None:
        assignment = self.lived()
        with pytest.raises(ValueError, match="is in the future"):
            explain_source(assignment.source, NOW, at=NOW + HOUR)
        with pytest.raises(ValueError, match="is kept from 2026-03-01 23:00:00 UTC on"):
            explain_source(assignment.source, NOW, at=MONDAY - 2 * HOUR)
        assert kept_since(assignment, NOW + timedelta(days=200)) == NOW + timedelta(days=110)

    def test_counts_how_long_it_waited_for_what(self) -> None:
        assignment = self.lived()
        found = totals(history_of(assignment, MONDAY, MONDAY + 4 * HOUR))
        assert sum(found.values()) == 4 * 3600
        assert found[Code.RUNNING] == 10 * 60
        Pause.objects.create(source=assignment.source, since=MONDAY, until=MONDAY + HOUR / 2)
        assert totals(history_of(assignment, MONDAY, MONDAY + 4 * HOUR))[Code.PAUSED] == 1800
        [*_, last] = history_of(assignment, MONDAY, timezone.now())
        assert last.code == Code.BACKOFF


explained = command("sources")


class TestTheSurfaces:
    @pytest.fixture
    def program(self) -> Program:
        return Program()

    def test_the_command_has_a_line_a_reason_and_json(self) -> None:
        ask, refused = explained
        assignment = make_assignment(make_policy(), make_source(name="laptop"), next_backup_at=timezone.now() + HOUR)
        first, second, *_ = ask("explain", "laptop").splitlines()
        assert first.startswith(f"laptop under {assignment.policy} at ")
        assert second.startswith("  1. not_due: its next backup is due at ")
        [facts] = json.loads(ask("explain", "laptop", "--json"))
        assert (facts["runnable"], facts["reasons"][0]["code"]) == (False, "not_due")
        assert "not_due" in ask("explain", "--all")
        assert "did you mean 'laptop'?" in refused("explain", "lapto")
        assert "there is no policy of this source 'x'" in refused("explain", "laptop", "--policy", "x")
        assert "is kept from" in refused("explain", "laptop", "--at", "40d")
        assert "is not an instant" in refused("explain", "laptop", "--at", "noon")
        assert "is not an instant" in refused("explain", "laptop", "--at", "")
        assert "name a source, or use --all" in refused("explain")
        assert "--all is of all sources" in refused("explain", "laptop", "--all")

    def test_the_api_answers_the_same(self, program: Program) -> None:
        assignment = make_assignment(make_policy(), make_source(name="laptop"), next_backup_at=timezone.now() + HOUR)
        url = f"/api/sources/{assignment.source_id}/explain"
        [under] = program.get(url).json()["under"]
        assert (under["policy"], under["record"], under["reasons"][0]["code"]) == (
            str(assignment.policy), None, "not_due"
        )  # fmt: skip
        assert "there is no policy of this source" in fields_of(program.get(f"{url}?policy=x"))["policy"]
        assert "is kept from" in fields_of(program.get(f"{url}?at=2020-01-01T00:00:00Z"))["at"]
        [group] = program.get("/api/sources/explain").json()["groups"]
        assert (group["code"], group["number"], group["names"]) == ("not_due", 1, ["laptop"])

    def test_an_answer_over_all_sources_that_takes_too_long_is_given_up(
        self, program: Program, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        make_assignment(make_policy(), make_source(name="laptop"), next_backup_at=timezone.now() + HOUR)
        asked: list[bool] = []
        assert len(explain_all(timezone.now(), lambda: asked.append(True))) == len(asked) == 1, "before each group"
        monkeypatch.setattr("api.sources.EXPLAINING_SECONDS", 0.0)
        answer = program.get("/api/sources/explain")
        assert (answer.status_code, answer.json()["hint"], "Retry-After" in answer) == (503, "ask again later", True)

    def test_the_page_of_a_source_has_its_reasons_and_a_strip(self, admin_client: Client) -> None:
        assignment = make_assignment(make_policy(), next_backup_at=timezone.now() + HOUR)
        Assignment.objects.update(inserted_at=timezone.now() - timedelta(days=3))
        text = admin_client.get(f"/admin/sources/source/{assignment.source_id}/change/").content.decode()
        assert "<code>not_due</code> its next backup is due at" in text
        assert "Not due: 3 d</li>" in text
        assert 'class="why-well"' in text
