"""A pause until an instant, with a reason, of sources, policies and queues; and what a new secret makes ready."""

import io
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from fleet import pauses
from fleet.repository_edits import Repositories
from fleet.status import reasons_of
from jobs import periodic
from jobs.models import BacklogRecord, PausedQueue
from jobs.states import Status
from sealing.stored_secrets import StoredSecrets, store
from sources import planning
from sources.models import Policy, Progress, Repository, Source
from tests.api.asking import Program, fields_of, problem_of
from tests.commands import command
from tests.factories import make_record
from tests.sources.factories import failed_before, make_assignment, make_policy, make_source, record_of

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)


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

    def test_the_round_of_the_minute_ends_them_all(self) -> None:
        source, policy = make_source(), make_policy()
        now = timezone.now()
        PausedQueue.objects.create(name="default", paused_at=now - DAY, paused_until=now - DAY / 2)
        Source.objects.filter(pk=source.pk).update(paused_at=now - DAY, paused_until=now - DAY / 2)
        pauses.pause_policy(policy, by="a test")
        Policy.objects.update(paused_until=now - DAY / 2)
        periodic.run_minutely()
        policy.schedule.refresh_from_db()
        assert (PausedQueue.objects.count(), Source.objects.active().count(), policy.schedule.enabled) == (0, 1, True)


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
