"""A pause until an instant, with a reason, of all that can be paused; and what a new secret makes ready."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.db.models import Model
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from fleet import pauses
from fleet.repository_edits import Repositories
from fleet.status import reasons_of
from jobs import backlog, periodic
from jobs.backlog import pausing
from jobs.backlog.pausing import held, release_if_over
from jobs.clock import clock_asked_once
from jobs.handlers import registry
from jobs.models import BacklogRecord, Hold, PausedQueue, Throttle
from jobs.states import Status
from operations import throttle_pauses
from operations.declarations import Throttles
from operations.hold import sentence
from operations.trigger_reasons import explain_schedule
from schedules import verbs
from schedules.models import Schedule, Trigger
from sealing.stored_secrets import StoredSecrets, store
from sources import planning
from sources.models import Policy, Progress, Repository, Source
from tests.api.asking import Program, problem_of
from tests.commands import command
from tests.factories import make_record, make_schedule, make_throttle
from tests.sources.factories import failed_before, make_assignment, make_policy, make_source, record_of
from tests.threads import a_lock_is_waited_for, another_connection, beside
from tests.waiting import PATIENCE, eventually

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)


def hold_sentence() -> str:
    found = held()
    assert found
    return sentence(found)


def ready(assignment: Any) -> bool:
    return BacklogRecord.objects.filter(subject=planning.subject_of(assignment.pk), status=Status.READY).exists()


class TestUntil:
    def test_a_source_says_so_and_goes_on_by_itself(self) -> None:
        assignment, now = make_assignment(), timezone.now()
        source = assignment.source
        planning.emit_due(now)
        assert planning.pause([source], now, until=now + DAY, reason="moving house", by="a test") == 1
        source.refresh_from_db()
        text = reasons_of([source], now)[source.pk]
        assert "(moving house)" in text
        assert f"until {now + DAY:%Y-%m-%d %H:%M:%S} UTC" in text
        assert pauses.resume_those_over(now + DAY - timedelta(seconds=1)) == 0
        assert pauses.resume_those_over(now + DAY) == 1
        source.refresh_from_db()
        assert (source.paused_at, source.paused_until, source.paused_why) == (None, None, "")
        assert ready(assignment)
        assert list(source.pauses.values_list("until", flat=True)) == [now + DAY]

    def test_pausing_again_changes_end_and_reason_and_keeps_the_first_instant(self) -> None:
        source, now = make_source(), timezone.now()
        planning.pause([source], now)
        assert planning.pause([source], now + DAY / 2) == 0
        assert planning.pause([source], now + DAY / 2, until=now + DAY, reason="longer") == 1
        source.refresh_from_db()
        assert (source.paused_at, source.paused_until, source.paused_why) == (now, now + DAY, "longer")
        assert source.pauses.count() == 1

    def test_a_policy_goes_on_by_itself_and_one_that_was_enabled_by_hand_forgets_the_end(
        self, django_capture_on_commit_callbacks: Any
    ) -> None:
        assignment, now = make_assignment(), timezone.now()
        policy = assignment.policy
        planning.emit_due(now)
        assert pauses.pause_policy(policy, until=now + DAY, reason="audit", by="a test")
        assert not ready(assignment)
        assert (
            f"{policy} (until {now + DAY:%Y-%m-%d %H:%M:%S} UTC: audit)"
            in reasons_of([assignment.source], now)[assignment.source_id]
        )
        with django_capture_on_commit_callbacks(execute=True):
            assert pauses.resume_those_over(now + DAY) == 1
        planning.emit_due(timezone.now())  # of the next second
        assert ready(assignment)
        pauses.pause_policy(policy, until=now + DAY, by="a test")
        pauses.resume_policy(policy, by="a test")
        pauses.pause_policy(policy, by="a test")
        assert Policy.objects.get().paused_until is None
        assert pauses.resume_those_over(now + 2 * DAY) == 0

    @pytest.mark.django_db(transaction=True)
    @pytest.mark.parametrize("paused", [PausedQueue, Source, Policy])
    def test_what_a_user_pauses_for_longer_just_as_the_pause_ends_stays_paused(self, paused: type[Model]) -> None:
        assignment, now = make_assignment(), timezone.now()
        pausing.pause_queue("backups", until=now + DAY)
        planning.pause([assignment.source], now, until=now + DAY)
        pauses.pause_policy(assignment.policy, until=now + DAY, by="a test")
        with another_connection() as other:
            other.execute(f"UPDATE {paused._meta.db_table} SET paused_until = %s", [now + 3 * DAY])
            ends = beside(lambda: pausing.resume_those_over(now + DAY) + pauses.resume_those_over(now + DAY))
            eventually(a_lock_is_waited_for)
            other.commit()
            assert ends.result(PATIENCE) == 2
        assert paused._default_manager.get(paused_until=now + 3 * DAY)


class TestSurfaces:
    def test_commands_take_several_names(self) -> None:
        sources, policies = [make_source() for _ in range(2)], [make_policy() for _ in range(2)]
        assert command("sources pause")[0](*sources, "--until", "7d").count("no more backups until 2") == 2
        for verb, is_enabled in (("pause", False), ("resume", True)):
            command(f"policies {verb}")[0](*policies)
            assert Policy.objects.filter(schedule__enabled=is_enabled).count() == 2

    def test_several_queues_are_paused_or_none(self) -> None:
        run, refused = command("backlog")
        assert "no queue 'nothing'" in refused("pause", "backups", "nothing")
        assert not PausedQueue.objects.exists()
        run("pause", "backups", "default")
        assert PausedQueue.objects.count() == 2
        assert run("resume", "backups", "default").count("it is resumed") == 2

    def test_the_backlog_says_how_far_is_what_runs(self) -> None:
        record = make_record(Status.RUNNING, payload={"title": "laptop-anna"})
        Progress.objects.create(record_id=record.pk, attempt=1, bytes_done=420, bytes_total=1000, files_done=7)
        run, _ = command("backlog")
        assert "42 %, 420 bytes of 1000 bytes, 7 files" in " ".join(run().split())
        [found] = json.loads(run("--json"))["at_work"]
        assert (found["title"], found["share"], found["bytes_done"]) == ("laptop-anna", 42, 420)

    def test_a_queue_takes_end_and_reason_on_each(self, admin_client: Client) -> None:
        program, late = Program(), {"until": "2999-12-24T08:00:00Z", "reason": "full"}
        assert program.post("queues/backups/pause", late).json()["paused_until"] == late["until"]
        problem_of(program.post("queues/backups/pause", {"until": "2020-12-24T08:00:00Z"}), 422)
        run, refused = command("backlog")
        run("pause", "backups", "--until", "2h", "--reason", "full")
        assert "(full), until " in run()
        assert "must be in the future" in refused("pause", "backups", "--until", "2020-01-01")
        PausedQueue.objects.all().delete()
        asked = {"name": "backups", "verb": "pause", "until": "7d", "reason": "full"}
        admin_client.post("/admin/jobs/pausedqueue/", asked)
        assert PausedQueue.objects.get().paused_until is not None


class TestOfEvents:
    """Schedules, throttles, and the hold of everything, whose pauses end by the round of the minute, too."""

    def test_a_schedule_goes_on_by_itself_and_one_that_was_resumed_forgets_the_end(self) -> None:
        schedule, now = make_schedule(), timezone.now()
        assert verbs.pause(schedule, now, until=now + DAY, reason="the receiver moves")
        assert not verbs.pause(schedule, now)
        assert verbs.pause(schedule, now, until=now + 2 * DAY)
        schedule.refresh_from_db()
        words = f"paused until {now + 2 * DAY:%Y-%m-%d %H:%M:%S} UTC: the receiver moves"
        assert words in explain_schedule(schedule, now).reasons[0].text
        assert verbs.resume_those_over(now + DAY) == 0
        assert verbs.resume_those_over(now + 2 * DAY) == 1
        schedule.refresh_from_db()
        assert (schedule.enabled, schedule.paused_until, schedule.paused_why) == (True, None, "")
        verbs.pause(schedule, now, until=now + DAY)
        verbs.resume(schedule)
        verbs.pause(schedule)
        assert verbs.resume_those_over(now + DAY) == 0

    def test_a_throttle_goes_on_with_as_many_as_before(self) -> None:
        throttle = make_throttle(7)
        run, refused = command("throttles", with_errors=True)
        assert "(UTC)" not in run("pause", throttle.name, "--until", "2h", "--reason", "full")
        throttle.refresh_from_db()
        assert (throttle.max_in_flight, throttle.in_flight_before, throttle.paused_why) == (0, 7, "full")
        assert "paused until 2" in run()
        Throttles().edit(throttle, {"max_in_flight": 0, "rate": 2.0})
        assert throttle_pauses.resume_those_over(timezone.now()) == 0
        assert throttle_pauses.resume_those_over(timezone.now() + DAY) == 1
        throttle.refresh_from_db()
        assert (throttle.max_in_flight, throttle.paused_until, throttle.paused_why) == (7, None, "")
        other = Throttle.objects.create(name="from the beginning", max_in_flight=0)
        assert "give the number of its records" in refused("resume", other.name)
        assert "cannot resume automatically" in refused("pause", other.name, "--until", "2h")
        assert Throttle.objects.get(pk=other.pk).paused_until is None
        assert "is not paused" in refused("resume", throttle.name)
        run("resume", other.name, "--max-in-flight", "3")
        throttle.refresh_from_db()
        run("pause", other.name, throttle.name)
        run("resume", other.name)
        throttle_pauses.resume(throttle)  # as it was read before its pause
        assert set(Throttle.objects.values_list("max_in_flight", flat=True)) == {3, 7}

    def test_a_hold_ends_by_itself(self) -> None:
        now = timezone.now()
        backlog.hold("ransom", by="a test", until=now + DAY)
        assert not backlog.hold("ransom", by="a test")
        assert f"automatically at {now + DAY:%Y-%m-%d %H:%M} UTC" in hold_sentence()
        assert (release_if_over(now + DAY / 2), release_if_over(now + DAY), release_if_over(now + DAY)) == (0, 1, 0)
        with pytest.raises(ValueError, match="must be in the future"):
            backlog.hold("ransom", by="a test", until=now - DAY)
        assert held() is None

    def test_the_round_of_the_minute_ends_them_all_and_asks_for_all_in_one_statement(self) -> None:
        schedule, throttle, over = make_schedule(), make_throttle(7), timezone.now() - DAY
        assignment, queue = make_assignment(), PausedQueue.objects.create(name="backups", paused_at=over)
        ends = {"paused_until": timezone.now() + DAY}
        verbs.pause(schedule)
        throttle_pauses.pause(throttle)
        pauses.pause_policy(assignment.policy, by="a test")
        Source.objects.update(paused_at=over)
        backlog.hold("ransom", by="a test")
        paused = (Schedule, Throttle, Policy, Source, PausedQueue)
        for model in paused:
            model.objects.update(**ends)
        Hold.objects.update(until=ends["paused_until"])
        with CaptureQueriesContext(connection) as asked:
            periodic.run_minutely(rare=False)
        assert [each["sql"] for each in asked if "jobs_pausedqueue" in each["sql"]] == [asked[0]["sql"]]
        assert all(f'"{model._meta.db_table}"."paused_until" <=' not in str(list(asked)) for model in paused)
        for model in paused:
            model.objects.update(paused_until=over)
        Hold.objects.update(until=over)
        periodic.run_minutely(rare=False)
        for row in (schedule, throttle, assignment.source, assignment.policy.schedule):
            row.refresh_from_db()
        assert (schedule.enabled, throttle.max_in_flight, held()) == (True, 7, None)
        assert (assignment.source.paused_at, assignment.policy.schedule.enabled) == (None, True)
        assert not PausedQueue.objects.filter(pk=queue.pk).exists()

    def test_a_round_plans_what_there_is_to_plan(self) -> None:
        def due() -> set[str]:
            with clock_asked_once(*registry.due.values()) as found:
                return {
                    task.__module__.split(".")[-1] for task, is_due in zip(registry.due, found, strict=True) if is_due
                }

        assert due() == set()
        assignment = make_assignment(make_policy(check_within=None, drill_every=None))
        always = {"backing_up", "emission", "overdue_assignments", "clock_repairs"}
        assert due() == always | {"looks"}
        changes = {
            "checks": {"check_within": 1},
            "drills": {"drill_every": 1},
            "copies": {"copy_to": Repository.objects.get()},
        }
        for task, change in changes.items():
            Policy.objects.update(**change)
            assert task in due()
        Source.objects.update(retired_at=timezone.now())
        Trigger.objects.create(schedule=assignment.policy.schedule, trigger_at=timezone.now())
        assert due() == always | {"looks", "checks", "drills", "copies", "retention", "batches"}

    @pytest.mark.django_db(transaction=True)
    def test_a_round_that_cannot_ask_what_is_due_does_all(self, monkeypatch: pytest.MonkeyPatch) -> None:
        Hold.objects.create(pk=1, since=timezone.now() - DAY, reason="ransom", by="a test", until=timezone.now() - DAY)
        wrong = dict.fromkeys(periodic.DUE, "(SELECT 1 / 0) = 1")
        monkeypatch.setattr(periodic, "DUE", wrong)
        monkeypatch.setattr(periodic.registry, "periodic", [])
        periodic.run_minutely(rare=False)
        assert held() is None

    def test_a_hold_takes_end_and_reason_on_each_surface(self, admin_client: Client) -> None:
        program, given = Program(), {"until": "7d", "reason": "move"}
        late = given | {"until": "2999-12-24T08:00:00Z"}
        hold = lambda: command("backlog hold")[0]("--until", "7d", "--reason", "move")  # noqa: E731
        for do in (
            lambda: admin_client.post("/admin/jobs/pausedqueue/", given | {"verb": "hold"}),
            lambda: admin_client.post("/home/act/", given | {"do": "hold:"}),
            hold,
            lambda: program.post("hold", late),
        ):
            do()
            found = held()
            assert found
            assert (found.until is not None, found.reason) == (True, "move")
            backlog.release(by="a test")


@pytest.mark.django_db(transaction=True)
class TestSecrets:
    def test_what_failed_is_tried_at_once_when_its_secret_is_set_and_nothing_else(self) -> None:
        store("nas", "wrong")
        theirs = make_assignment(source=make_source(kind="webdav", secret="stored:nas"))
        other = make_assignment(source=make_source(secret="stored:other"))
        for each in (theirs, other):
            failed_before(each)
        service = StoredSecrets()
        service.edit(service.named("nas"), {"value": "right"})
        assert (ready(theirs), ready(other)) == (True, False)
        assert record_of(theirs).failures == 3

    @pytest.mark.usefixtures("orders_run_here")
    def test_so_it_is_when_its_repositorys_own_secrets_are_edited(self, tmp_path: Path) -> None:
        for name in ("vault", "another"):
            store(name, name * 10)
        place = {"location": str(tmp_path / "vault"), "encrypted": True, "key": "stored:vault"}
        row = Repository.objects.create(name="vault", **place)
        theirs, other = (failed_before(make_assignment(policy)) for policy in (make_policy(repository=row), None))
        service = Repositories()
        service.edit(service.named("vault"), {"key": "stored:another"})
        assert (ready(theirs), ready(other)) == (True, False)
