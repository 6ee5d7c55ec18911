"""A pause until an instant, with a reason, of all that can be paused; and what a new secret makes ready."""

import io
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from fleet import pauses
from fleet.repository_edits import Repositories
from fleet.status import reasons_of
from jobs import backlog, periodic
from jobs.backlog.pausing import held, release_if_over
from jobs.models import BacklogRecord, Hold, PausedQueue, Throttle
from jobs.states import Status
from operations import throttle_pauses
from operations.declarations import Throttles
from operations.hold import sentence
from operations.trigger_reasons import explain_schedule
from schedules import verbs
from schedules.models import Schedule
from sealing.stored_secrets import StoredSecrets, store
from sources import planning
from sources.models import Policy, Progress, Repository, Source
from tests.api.asking import Program, fields_of, problem_of
from tests.commands import command
from tests.factories import make_record, make_schedule, make_throttle
from tests.sources.factories import failed_before, make_assignment, make_policy, make_source, record_of

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


class TestSurfaces:
    def test_commands_take_several_names_and_of_policies(self) -> None:
        sources, policies = [make_source() for _ in range(2)], [make_policy() for _ in range(2)]
        pause, refused = command("sources pause")
        out = pause(*sources, "--until", "7d", "--reason", "summer")
        assert out.count("no more backups until 2") == 2
        assert [row.paused_why for row in Source.objects.all()] == ["summer", "summer"]
        command("policies pause")[0](*policies, "--until", "2999-12-24T08:00")
        assert Policy.objects.filter(schedule__enabled=False, paused_until__year=2999).count() == 2
        assert "is over" in refused(sources[0], "--until", "2020-01-01")
        assert "is no instant" in refused(sources[0], "--until", "soon")
        call_command("policies", "resume", *map(str, policies), stdout=io.StringIO())
        assert Policy.objects.filter(schedule__enabled=True, paused_until=None).count() == 2
        call_command("backlog", "pause", "backups", "--until", "2h", "--reason", "full", stdout=io.StringIO())
        out = io.StringIO()
        call_command("backlog", stdout=out)
        assert "(full), until " in out.getvalue()
        with pytest.raises(CommandError, match="is over"):
            call_command("backlog", "pause", "backups", "--until", "2020-01-01", stdout=io.StringIO())

    def test_several_queues_are_paused_or_none(self) -> None:
        run, refused = command("backlog")
        assert "no queue 'nothing'" in refused("pause", "backups", "nothing")
        assert not PausedQueue.objects.exists()
        run("pause", "backups", "default")
        assert PausedQueue.objects.count() == 2
        assert run("resume", "backups", "default").count("it goes on") == 2

    def test_the_backlog_says_how_far_is_what_runs(self) -> None:
        record = make_record(Status.RUNNING, payload={"title": "laptop-anna"})
        Progress.objects.create(record_id=record.pk, attempt=1, bytes_done=420, bytes_total=1000, files_done=7)
        run, _ = command("backlog")
        assert "42 %, 420 bytes of 1000 bytes, 7 files" in " ".join(run().split())
        [found] = json.loads(run("--json"))["at_work"]
        assert (found["title"], found["share"], found["bytes_done"]) == ("laptop-anna", 42, 420)

    def test_the_api(self) -> None:
        program, assignment = Program(), make_assignment()
        for path in (f"sources/{assignment.source_id}", f"policies/{assignment.policy_id}"):
            late = program.ask("POST", f"{path}/pause", query={"until": "2999-12-24T08:00:00Z", "reason": "move"})
            assert late.status_code == 200, late.content
            assert (late.json()["paused_until"], late.json()["paused_why"]) == ("2999-12-24T08:00:00Z", "move")
            over = program.ask("POST", f"{path}/pause", query={"until": "2020-12-24T08:00:00Z"})
            assert fields_of(over) == {"until": "must be in the future"}
            assert program.post(f"{path}/resume").json()["paused_until"] is None
        until = {"until": "2999-12-24T08:00:00Z", "reason": "full"}
        assert program.post("queues/backups/pause", until).json()["paused_until"] == "2999-12-24T08:00:00Z"
        problem_of(program.post("queues/backups/pause", {"until": "2020-12-24T08:00:00Z"}), 422)

    def test_the_admin_asks_until_when_and_why(self, admin_client: Client) -> None:
        assignment = make_assignment()
        for model, row in (("source", assignment.source_id), ("policy", assignment.policy_id)):
            at = f"/admin/sources/{model}/"
            sent = {"action": "pause_until", "_selected_action": [row]}
            assert 'name="until"' in admin_client.post(at, sent).content.decode()
            wrong = admin_client.post(at, sent | {"confirmed": "yes", "until": "soon"}).content.decode()
            assert "is no instant" in wrong
            answer = admin_client.post(at, sent | {"confirmed": "yes", "until": "7d", "reason": "move"})
            assert answer.status_code == 302
        assert Source.objects.get().paused_why == Policy.objects.get().paused_why == "move"
        assert Source.objects.get().paused_until is not None
        assert Policy.objects.get().paused_until is not None
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
        assert "say how many" in refused("resume", other.name)
        assert "cannot resume by itself" in refused("pause", other.name, "--until", "2h")
        assert Throttle.objects.get(pk=other.pk).paused_until is None
        assert "is not paused" in refused("resume", throttle.name)
        run("resume", other.name, "--max-in-flight", "3")
        run("pause", other.name, throttle.name)
        run("resume", other.name, throttle.name)
        assert set(Throttle.objects.values_list("max_in_flight", flat=True)) == {3, 7}

    def test_a_hold_ends_by_itself(self) -> None:
        now = timezone.now()
        backlog.hold("ransom", by="a test", until=now + DAY)
        assert not backlog.hold("ransom", by="a test")
        assert f"by itself at {now + DAY:%Y-%m-%d %H:%M} UTC" in hold_sentence()
        assert (release_if_over(now + DAY / 2), release_if_over(now + DAY), release_if_over(now + DAY)) == (0, 1, 0)
        with pytest.raises(ValueError, match="is over"):
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

    @pytest.mark.django_db(transaction=True)
    def test_a_round_that_cannot_ask_what_is_due_does_all(self, monkeypatch: pytest.MonkeyPatch) -> None:
        Hold.objects.create(pk=1, since=timezone.now() - DAY, reason="ransom", by="a test", until=timezone.now() - DAY)
        wrong = dict.fromkeys(periodic.DUE_OF_OURS, "(SELECT 1 / 0) = 1")
        monkeypatch.setattr(periodic, "DUE_OF_OURS", wrong)
        monkeypatch.setattr(periodic.registry, "periodic", [])
        periodic.run_minutely(rare=False)
        assert held() is None

    def test_every_surface_takes_end_and_reason(self, admin_client: Client) -> None:
        schedule, throttle, program = make_schedule(), make_throttle(7), Program()
        given, late = {"until": "7d", "reason": "move"}, {"until": "2999-12-24T08:00:00Z", "reason": "move"}
        as_typed = [part for name, value in given.items() for part in (f"--{name}", value)]

        def is_paused(row: Any, **resumed: Any) -> None:
            row.refresh_from_db()
            assert row.paused_why == "move"
            assert row.paused_until is not None
            type(row).objects.filter(pk=row.pk).update(paused_until=None, paused_why="", **resumed)

        for row, path, action, resumed in (
            (schedule, "/admin/schedules/schedule/", "pause", {"enabled": True}),
            (throttle, "/admin/jobs/throttle/", "pause_until", {"max_in_flight": 7}),
        ):
            asked = {"action": action, "_selected_action": [row.pk]}
            assert 'name="until"' in admin_client.post(path, asked).content.decode()
            wrong = asked | given | {"confirmed": "yes", "until": "soon"}
            assert "is no instant" in admin_client.post(path, wrong).content.decode()
            assert admin_client.post(path, asked | given | {"confirmed": "yes"}).status_code == 302
            is_paused(row, **resumed)
            command(f"{row._meta.verbose_name}s pause")[0](row, *as_typed) if row is schedule else command(
                "throttles pause"
            )[0](row.name, *as_typed)
            is_paused(row, **resumed)
            noun = f"{row._meta.verbose_name}s/{row.pk}"
            answer = program.ask("POST", f"{noun}/pause", query=late)
            assert (answer.status_code, answer.json()["paused_until"]) == (200, late["until"])
            is_paused(row, **resumed)
            over = program.ask("POST", f"{noun}/pause", query={"until": "2020-12-24T08:00:00Z"})
            assert fields_of(over) == {"until": "must be in the future"}

        def is_held() -> None:
            found = held()
            assert found
            assert found.until is not None
            backlog.release(by="a test")

        admin_client.post("/admin/jobs/pausedqueue/", given | {"verb": "hold"})
        is_held()
        admin_client.post("/home/act/", given | {"do": "hold:"})
        is_held()
        command("backlog hold")[0](*as_typed)
        is_held()
        assert program.post("hold", late).json()["until"] == late["until"]
        is_held()


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
