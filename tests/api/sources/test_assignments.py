"""Assignments, backups and repositories over the API."""

from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks

from jobs.models import BacklogRecord, Breaker
from jobs.states import Status, WaitingFor
from sources.availability.repository_breaker import guarded_by
from sources.models import Assignment, Backup, CheckRound, Copy, Repository
from tests.api.asking import Program, check_filters, fields_of, made, pages_of, problem_of
from tests.api.sources.making import add_backup
from tests.sources.factories import make_assignment, make_policy, make_source, record_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("orders_run_here")]


class TestAssignments:
    def test_a_new_one_is_due_at_once(
        self, program: Program, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
    ) -> None:
        source, policy = make_source(), make_policy()
        body = {"source": source.pk, "policy": policy.pk}
        with django_capture_on_commit_callbacks(execute=True):
            made(program.post("assignments", body))
        assignment = Assignment.objects.get()
        assert fields_of(program.post("assignments", body)) == {"policy": "the source is under this policy already"}
        assert list(fields_of(program.post("assignments", body | {"source": 999_999}))) == ["source"]
        assert list(fields_of(program.post("assignments", body | {"policy": 999_999}))) == ["policy"]
        facts = program.get(f"assignments/{assignment.pk}").json()
        assert (facts["source_name"], facts["policy_name"]) == (source.name, policy.schedule.name)
        assert (facts["status"], facts["next_backup_at"]) == ("never", None)
        assert (facts["record"]["status"], facts["record"]["queue"]) == ("ready", "availability")
        assert facts["record"]["id"] == record_of(assignment).pk

    def test_it_is_backed_up_now_and_what_it_waits_for_and_what_has_ended_is_told(self, program: Program) -> None:
        assignment = make_assignment()
        path = f"assignments/{assignment.pk}"
        assert program.post(f"{path}/back-up-now").json() == {"moved": 1}
        assert record_of(assignment).priority == 100
        BacklogRecord.objects.update(status=Status.WAITING, waiting_for=WaitingFor.BACKOFF, failures=3)
        record = program.get(path).json()["record"]
        assert (record["status"], record["failures"]) == ("waiting", 3)
        assert record["waiting_for"] == WaitingFor.BACKOFF.label
        BacklogRecord.objects.update(status=Status.CANCELLED, waiting_for=None, finished_at=timezone.now())
        assert program.get(path).json()["record"] is None

    def test_by_source_policy_state_and_failures(self, program: Program) -> None:
        now = timezone.now()
        never = make_assignment()
        failing = make_assignment(
            failures=1, first_failure_at=now, last_backup_at=now, next_backup_at=now + timedelta(days=1)
        )
        overdue = make_assignment(last_backup_at=now, next_backup_at=now, overdue_since=now)
        check_filters(
            program, "assignments", ({"source": never.source_id}, never), ({"policy": failing.policy_id}, failing),
            ({"status": "overdue"}, overdue), ({"status": "failing"}, failing),
        )  # fmt: skip
        expected = [overdue.pk, failing.pk, never.pk]
        assert pages_of(program, "assignments", ordering="next_backup_at") == expected, (
            "those never backed up come last"
        )

    def test_one_with_backups_stays(self, program: Program) -> None:
        assignment = make_assignment()
        add_backup(assignment)
        add_backup(assignment)
        facts = problem_of(program.delete(f"assignments/{assignment.pk}"), 409)
        assert facts["detail"] == (
            "the assignment is in use: 2 backups are recorded: delete it on its page in the admin, which "
            f"names what stays in its repository, or its source: DELETE /api/sources/{assignment.source_id} "
            "with `backups`."
        )
        assert program.delete(f"sources/{assignment.source_id}?backups=keep").status_code == 202
        assert program.delete(f"assignments/{make_assignment().pk}").status_code == 204

    @pytest.mark.parametrize("what", ["assignments", "sources"])
    def test_one_of_which_copies_alone_are_left_stays(self, what: str, program: Program) -> None:
        assignment, now = make_assignment(), timezone.now()
        offsite = Repository.objects.create(name="offsite", location="/srv/offsite")
        Copy.objects.create(assignment=assignment, repository=offsite, planned_at=now, points=["20260301T090000Z"])
        path = f"{what}/{assignment.pk if what == 'assignments' else assignment.source_id}"
        assert "it has copies of points: " in problem_of(program.delete(path), 409)["detail"]
        Copy.objects.update(points=[])
        assert program.delete(path).status_code == 204

    def test_not_now_while_its_source_is_paused_or_its_policy_disabled(self, program: Program) -> None:
        paused = make_assignment(source=make_source(paused_at=timezone.now()))
        disabled = make_assignment(make_policy(enabled=False))
        for assignment in (paused, disabled):
            problem_of(program.post(f"assignments/{assignment.pk}/back-up-now"), 409)
        assert not BacklogRecord.objects.exists()

    def test_which_points_stay_and_what_is_damaged_is_told(self, program: Program) -> None:
        assignment = make_assignment(make_policy(keep={"last": 1}))
        damage = [{"point": "20261122T065755Z", "path": "a", "place": "current", "why": "it is missing"}]
        now = timezone.now()
        CheckRound.objects.create(assignment=assignment, planned_at=now, checked_at=now, damage=damage)
        for number in range(2):
            backup = add_backup(assignment, ended_at=now + timedelta(days=number))
            name = f"2026112{number}T065755Z"
            Backup.objects.filter(pk=backup.pk).update(snapshot=name, started_at=now + timedelta(days=number))
        found = program.get(f"assignments/{assignment.pk}/retention").json()
        assert [(each["point"], each["because"]) for each in found["points"]] == [
            ("20261121T065755Z", ["last"]), ("20261120T065755Z", []),
        ]  # fmt: skip
        assert program.get(f"assignments/{assignment.pk}").json()["damage"] == damage

    def test_what_is_held_back_is_accepted_once(self, program: Program) -> None:
        make_assignment()
        held = make_assignment(held_back_since=timezone.now(), held_back_why="it shrank")
        [item] = program.get("assignments?held_back=true").json()["items"]
        assert (item["id"], item["held_back_why"]) == (held.pk, "it shrank")
        assert program.post(f"assignments/{held.pk}/accept").json()["held_back_since"] is None
        problem_of(program.post(f"assignments/{held.pk}/accept"), 409)


class TestBackups:
    def test_the_latest_first(self, program: Program) -> None:
        assignment, now = make_assignment(), timezone.now()
        older = add_backup(assignment, ended_at=now - timedelta(days=1))
        newer = add_backup(assignment, warnings=["one file was locked"])
        items = program.get("backups").json()["items"]
        assert [item["id"] for item in items] == [newer.pk, older.pk]
        assert items[0]["warnings"] == ["one file was locked"]
        assert (items[0]["source_name"], items[0]["policy"]) == (assignment.source.name, assignment.policy_id)
        assert program.get(f"backups/{older.pk}").json()["size"] == 2048

    def test_by_what_they_are_of_and_since_when(self, program: Program) -> None:
        one, other, now = make_assignment(), make_assignment(), timezone.now()
        wanted = add_backup(one)
        add_backup(other, ended_at=now - timedelta(days=2))
        since = (now - timedelta(days=1)).isoformat()
        check_filters(
            program, "backups", ({"source": one.source_id}, wanted), ({"assignment": one.pk}, wanted),
            ({"policy": one.policy_id}, wanted), ({"repository": one.policy.repository_id}, wanted),
            ({"since": since}, wanted),
        )  # fmt: skip
        for no_instant in ("yesterday", "2026-01-01", "2026-01-01T00:00:00", "0", "1767225600", "1e9", "0.5"):
            assert list(fields_of(program.get("backups", since=no_instant))) == ["since"]


class TestRepositories:
    @pytest.mark.parametrize("location", ["", "relative", "/dev/null/x", "/a\nb", 7, None])
    def test_a_place_where_nothing_can_be_written_is_refused(self, location: object, program: Program) -> None:
        assert list(fields_of(program.post("repositories", {"name": "x", "location": location}))) == ["location"]

    def test_a_correction_is_tried_at_once_and_a_new_name_is_its_breakers_which_goes_with_it(
        self, program: Program, tmp_path: Path
    ) -> None:
        repository = Repository.objects.create(name="vault", location=str(tmp_path))
        guarded, now = guarded_by(repository), timezone.now()
        etag = program.get(f"repositories/{repository.pk}").headers["ETag"]
        Breaker.objects.create(
            key=guarded.key, title=guarded.title, failures=3, opened_at=now, last_failure_at=now,
            probe_at=now + timedelta(hours=1),
        )  # fmt: skip
        assert program.get(f"repositories/{repository.pk}").json()["breaker"] == "open"
        answer = program.patch(f"repositories/{repository.pk}", {"name": "safe"}, If_Match=etag)
        assert answer.status_code == 200, "that its breaker opened is no change of it"
        breaker = Breaker.objects.get()
        assert breaker.title == "repository safe"
        assert breaker.probe_at
        assert breaker.probe_at > now + timedelta(minutes=30), "its name is nothing to try again for"
        moved = program.patch(f"repositories/{repository.pk}", {"location": str(tmp_path / "b")})
        assert "one record is tried there now" in str(moved.json()["warnings"])
        assert (tmp_path / "b").is_dir()
        breaker.refresh_from_db()
        assert breaker.probe_at
        assert breaker.probe_at <= timezone.now() + timedelta(seconds=5)
        assert program.delete(f"repositories/{repository.pk}").status_code == 204
        assert not Breaker.objects.exists()
